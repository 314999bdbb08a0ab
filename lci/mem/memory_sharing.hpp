// What an accelerator does for buffers that processes share: it makes memory that can be exported,
// says what another process needs to map it, maps what others have exported, and copies. Made by a
// memory_domain, one per process, at the first use. Callers: lci/share. Threads: shared, all
// functions; copy_queue: one owner at a time.
// Always true: a ticket is plain bytes that a peer may have changed; map() believes none of them
// unchecked, and the driver has the last word on what is behind a descriptor. No function leaves
// anything behind when it fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lci/base/descriptor.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::mem {

inline constexpr std::size_t SHARE_TICKET_BYTES = 104;

// What export_range() found. Sizes and offsets are of the allocation that holds the range.
struct exported_range {
  std::vector<std::byte> ticket;
  base::descriptor fd;            // some ways need one
  std::uint64_t memory_size = 0;  // bytes
  std::uint64_t offset = 0;       // of the range
  std::string pci;                // of the GPU, which names it in every process
  std::string how;                // for people
  std::string why_not;            // not empty: cannot be shared, a sentence that names the kind
};

struct share_request {
  int owner = 0;  // tells owners apart; one number is used for one process only
  std::span<const std::byte> ticket;
  base::descriptor fd;
  std::string pci;
  std::uint64_t memory_size = 0, offset = 0, size = 0;
};

// Copies that end in their order.
class copy_queue {
 public:
  virtual ~copy_queue() = default;  // waits
  // Throws backend_error, and then nothing is under way.
  virtual void start(std::byte* to, const std::byte* from, std::size_t size) = 0;
  // How many have ended; waits for those up to `number`. Throws backend_error.
  virtual std::uint64_t ended(std::uint64_t number) = 0;
};

class memory_sharing {
 public:
  virtual ~memory_sharing() = default;
  virtual int device_count() = 0;
  virtual int driver_version() = 0;
  // Memory of a GPU that can be exported, and how it was made. Throws backend_error.
  virtual void* allocate(std::size_t size, int device, std::string& how) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual exported_range export_range(const void* at, std::size_t size) = 0;
  // How map() works without the owner's descriptor: "CUDA IPC". Empty: it does not.
  virtual std::string way_without_descriptor(std::span<const std::byte> ticket) const = 0;
  // The range, mapped; `device` is set. Empty: `why_not` is a sentence.
  virtual mapped_memory map(share_request what, int& device, std::string& why_not) = 0;
  // All work of this process on the GPU has ended. Throws backend_error.
  virtual void wait_for_device(int device) = 0;
  // What cards wrote before is visible to kernels that start later. Throws backend_error.
  virtual void flush_outside_writes(int device) = 0;
  virtual std::unique_ptr<copy_queue> open_copies(int device) = 0;
};

}  // namespace lci::mem
