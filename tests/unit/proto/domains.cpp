// No accelerators: the protocols are linked without the backends that know some.
#include "lci/mem/memory_domain.hpp"

namespace lci::mem {
std::span<const memory_domain> memory_domains() { return {}; }
}  // namespace lci::mem
