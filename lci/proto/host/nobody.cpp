#include "lci/proto/host/nobody.hpp"

#include "lci/proto/engine/core.hpp"

namespace lci::proto {

void nobody::signal(status_t status) {
  dropped_.fetch_add(1, std::memory_order_relaxed);
  // edge core.allocator: the allocator was made before it was set; partner is set_allocator().
  of_.give_back(status.buffer, of_.allocator.load(std::memory_order_acquire));
}

}  // namespace lci::proto
