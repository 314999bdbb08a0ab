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
  if (rank < 0 || rank >= size()) return nullptr;
  peer* who = find(rank);
  // edge peer.mapped: partner is the release store in map_locked().
  if (who == nullptr || who->state.load(std::memory_order_acquire) != contact::mapped)
    return nullptr;
  return who->memory.resolve(place, bytes, base::CACHE_LINE);
}

int fabric::process_of(int rank) noexcept {
  if (rank < 0 || rank >= size()) return 0;
  peer* who = find(rank);
  // edge peer.mapped: partner is the release store in map_locked().
  if (who == nullptr || who->state.load(std::memory_order_acquire) != contact::mapped) return 0;
  return who->memory.is_own() ? static_cast<int>(getpid()) : static_cast<int>(who->pid);
}

}  // namespace lci::shm
