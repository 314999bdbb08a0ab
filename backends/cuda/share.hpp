// The owner's side of sharing GPU memory with another process of the machine. What is sent is a
// `share_ticket` of plain bytes, and for VMM memory a descriptor beside it (SCM_RIGHTS), unless it
// has a fabric handle, which is bytes. Callers:
// the thread that answers a peer's first access to a registration. Threads: any.
// Always true: a ticket names the whole allocation (for VMM: the mapping), because that is what
// handles are of; the receiver adds the offset. A ticket holds no address that the receiver would
// use: `base` is a name there. Nothing has to be undone at the owner's side, except that it closes
// the descriptor once it is sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/pointer.hpp"
#include "lci/base/descriptor.hpp"

namespace lci::cuda {

using base::descriptor;

enum class share_way : std::uint8_t {
  none,
  legacy_ipc,      // cuIpcGetMemHandle: cudaMalloc
  vmm_descriptor,  // cuMemExportToShareableHandle: cuMemCreate with that handle type
  vmm_fabric       // the same with a fabric handle; a descriptor may be there besides
};

struct share_ticket {
  share_way way = share_way::none;
  std::uint64_t base = 0;        // the owner's address of the allocation: a name
  std::uint64_t size = 0;        // bytes
  identity id;                   // the owner's
  abi::ipc_mem_handle handle{};  // of CUDA IPC, or of the fabric: both have 64 bytes

  static constexpr std::size_t BYTES = 104;  // on the wire, see share.cpp
  std::array<std::byte, BYTES> encode() const noexcept;
  // Nothing when it is not one: another version, length or way, or a size of 0 or beyond what
  // addresses hold.
  static std::optional<share_ticket> decode(std::span<const std::byte> bytes) noexcept;
};

struct exported {
  share_ticket ticket;
  descriptor fd;        // of VMM memory, if it has one
  std::string why_not;  // not empty: cannot be shared, a sentence that names the kind
};

// Which way an allocation can be shared, or the sentence.
share_way way_to_share(const allocation& what, std::string& why_not);
// `what` covers [at, at + size). Calls the driver; throws nothing. By one way: a descriptor where
// the memory has one.
exported export_range(gpu_list& gpus, const allocation& what, abi::device_ptr at, std::size_t size);
// To what is exported as a descriptor a fabric handle, if the memory has one and the driver gives
// it: who cannot fetch the descriptor maps it by that.
void add_fabric_handle(gpu_list& gpus, const allocation& what, exported& to) noexcept;

}  // namespace lci::cuda
