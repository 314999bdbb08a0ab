// What stands behind buffers, with one owner count for all of them: memory made here, memory of the
// program, memory of another process. Those of a block of a pool have a count of their own, which
// keeps the block. Callers: buffer.cpp, groups.cpp. Threads: immutable after it is made;
// export_range() and check() from any.
// Always true: the memory lasts as long as the object, except for memory of the program, which the
// program keeps. Nothing here dereferences GPU memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lci/base/descriptor.hpp"
#include "lci/boot/process_mark.hpp"
#include "lci/share/handle.hpp"

namespace lci::share {

// What an export publishes: the part of a handle that the memory knows.
struct export_facts {
  handle fields;
  base::descriptor fd;  // lives as long as the export; empty where the memory has one itself
  std::string how;      // for people
};

}  // namespace lci::share

namespace lci::detail {

class buffer_memory {
 public:
  virtual ~buffer_memory() = default;
  // Throws buffer_error: not_exportable.
  virtual share::export_facts export_range(std::size_t offset, std::size_t size) = 0;
  // Throws buffer_error: owner_gone, stale, no_room.
  virtual void check() const {}
  // Whether this process can reach it; the driver does not work in a child of fork().
  bool is_reachable() const noexcept { return device == buffer::HOST || mark_.is_ours(); }
  // The handle with which it was imported; empty: it was not.
  virtual const std::string& origin() const noexcept {
    static const std::string none;
    return none;
  }

  std::byte* at = nullptr;
  std::size_t size = 0;  // bytes
  int device = buffer::HOST;
  std::string how;  // for people: kind, and how it was made

 protected:
  const boot::process_mark mark_;  // a child of fork() gives nothing back
};

}  // namespace lci::detail

namespace lci::share {

// A memory file, mapped. Throws backend_error.
std::shared_ptr<detail::buffer_memory> make_host_memory(std::size_t size);
// Throws backend_error.
std::shared_ptr<detail::buffer_memory> make_gpu_memory(std::size_t size, int device);
// Throws buffer_error: not_exportable.
std::shared_ptr<detail::buffer_memory> wrap_memory(void* pointer, std::size_t size);

}  // namespace lci::share
