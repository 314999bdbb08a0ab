// The backends and memory domains of this build, in order of preference: the one place that names
// them all.
#include <array>

#include "backends/cuda/domain.hpp"
#include "lci/config.hpp"
#ifdef LCI_USE_HIP
#include "backends/hip/domain.hpp"
#endif
#ifdef LCI_BACKEND_ENABLE_IBV
#include "backends/ibv/select.hpp"
#endif
#include "backends/shm/select.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/net/provider.hpp"

namespace lci {

std::span<const net::provider> net::providers() {
#ifdef LCI_BACKEND_ENABLE_IBV
  static const std::array<provider, 2> all{shm::PROVIDER, ibv::PROVIDER};
#else
  static const std::array<provider, 1> all{shm::PROVIDER};
#endif
  return all;
}

std::span<const mem::memory_domain> mem::memory_domains() {
#ifdef LCI_USE_HIP
  static const std::array<memory_domain, 2> all{cuda::DOMAIN, hip::DOMAIN};
#else
  static const std::array<memory_domain, 1> all{cuda::DOMAIN};
#endif
  return all;
}

}  // namespace lci
