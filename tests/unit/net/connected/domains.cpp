// No memory but the host's.
#include "lci/mem/memory_domain.hpp"

namespace lci::mem {

std::span<const memory_domain> memory_domains() { return {}; }

}  // namespace lci::mem
