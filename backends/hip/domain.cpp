#include "backends/hip/domain.hpp"

#include "backends/cuda/engine.hpp"
#include "backends/hip/driver.hpp"

namespace lci::hip {
namespace {

cuda::engine& here() {
  static cuda::engine one(cuda::options_from_environment(HIP));
  return one;
}

}  // namespace

constinit const mem::memory_domain DOMAIN =
    cuda::domain_functions<&here, DOMAIN>::named("hip", "LCI_ATTR_USE_HIP");

}  // namespace lci::hip
