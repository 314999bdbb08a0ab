// The accelerators that these tests are linked with, in place of the backends that know some: the
// fake GPU, unless a test brings another.
#include "tests/unit/proto/domains.hpp"

#include "tests/unit/proto/fake_gpu.hpp"

namespace lci::test {
std::span<const mem::memory_domain> usual_domains() { return {&fake_domain(), 1}; }
std::span<const mem::memory_domain>& domains() {
  static std::span<const mem::memory_domain> all = usual_domains();
  return all;
}
}  // namespace lci::test

namespace lci::mem {
std::span<const memory_domain> memory_domains() { return test::domains(); }
}  // namespace lci::mem
