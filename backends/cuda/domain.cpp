#include "backends/cuda/domain.hpp"

#include "backends/cuda/engine.hpp"

namespace lci::cuda {
namespace {

// One for the process, as CUDA itself is. Made at the first question, which costs nothing yet.
engine& here() {
  static engine one(options_from_environment());
  return one;
}

}  // namespace

constinit const mem::memory_domain DOMAIN =
    domain_functions<&here, DOMAIN>::named("cuda", "LCI_ATTR_USE_CUDA");

}  // namespace lci::cuda
