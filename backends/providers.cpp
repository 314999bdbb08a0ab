// The backends and memory domains of this build, in order of preference: the one place that names
// them all.
#include <array>

#include "backends/cuda/domain.hpp"
#include "backends/shm/select.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/provider.hpp"

namespace lci {

std::span<const net::provider> net::providers() {
  static const std::array<provider, 1> all{shm::PROVIDER};
  return all;
}

std::span<const mem::memory_domain> mem::memory_domains() {
  static const std::array<memory_domain, 1> all{cuda::DOMAIN};
  return all;
}

}  // namespace lci
