// The kernel's copy between two processes (process_vm_writev, process_vm_readv): no help from the
// peer, but a price per page and per call. Callers: contact (probe), endpoint, bulk_stream.
// Threads: any. Always true: addresses of the peer are arguments of the kernel only, and come from
// its published registrations.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "backends/shm/layout.hpp"
#include "backends/shm/peer.hpp"

namespace lci::shm {

// Can this process read that one's memory, and is it the one that we mean? Process ids differ
// between namespaces, and the system may forbid it in several ways, so the only sound question is
// whether a known value comes back.
bool single_copy_works(pid_t pid, std::uint64_t address, std::uint64_t value) noexcept;

// Copies all of it. Answers an errno value; then any part may have been copied.
int single_copy_write(pid_t pid, std::uint64_t to, const void* from, std::size_t size) noexcept;
int single_copy_read(pid_t pid, void* to, std::uint64_t from, std::size_t size) noexcept;

// What became of a copy to or from a peer's registration.
enum class copied : std::uint8_t {
  done,
  unknown,  // no such registration, or the range is not inside
  refused,  // the system does not do it (any more): forbidden, or the process has just ended
  failed    // the memory is not there any more
};
// A literal for on_error; null when done.
const char* reason_of(copied c) noexcept;
// Moves [where.offset, + size) of the peer's registration from or to `local`. The peer is mapped.
copied copy_whole(peer& who, bool is_get, const put_record& where, void* local,
                  std::size_t size) noexcept;

}  // namespace lci::shm
