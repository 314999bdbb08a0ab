#include "tests/unit/ofi/domains.hpp"

namespace lci::test {
std::span<const mem::memory_domain>& domains() {
  static std::span<const mem::memory_domain> all;
  return all;
}
}  // namespace lci::test

namespace lci::mem {
std::span<const memory_domain> memory_domains() { return test::domains(); }
}  // namespace lci::mem
