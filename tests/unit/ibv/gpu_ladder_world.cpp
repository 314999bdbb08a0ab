#include "tests/unit/ibv/gpu_ladder_world.hpp"

namespace lci::ibv {

// It names itself, so that each of its functions knows whose it is.
const mem::memory_domain LADDER_GPU =
    cuda::domain_functions<&gpu_engine, LADDER_GPU>::named("cuda", "");

}  // namespace lci::ibv
