// Registration: nothing to do here. Peers reach what the region table publishes, through the kernel
// or by asking.
#include <unistd.h>

#include "backends/shm/fabric.hpp"
#include "lci/errors.hpp"

namespace lci::shm {

std::uint64_t fabric::register_region(void*, std::size_t, mem::mem_kind kind, std::string&) {
  if (kind != mem::mem_kind::host) {
    throw backend_error(
        "shm: only host memory can be registered; this network has no device_memory");
  }
  return 0;
}

void fabric::deregister_region(std::uint64_t) noexcept {}

std::byte* fabric::reach(int rank, std::uint64_t place, std::size_t bytes) noexcept {
  peer* const who = peers_.mapped(rank);
  return who == nullptr ? nullptr : who->memory.resolve(place, bytes, base::CACHE_LINE);
}

int fabric::process_of(int rank) noexcept {
  peer* const who = peers_.mapped(rank);
  if (who == nullptr) return 0;
  return who->memory.is_own() ? static_cast<int>(getpid()) : static_cast<int>(who->pid);
}

}  // namespace lci::shm
