// The accelerators of the tests of backends/ofi: none, unless a test brings one. Threads: single.
#pragma once

#include <span>

#include "lci/mem/memory_domain.hpp"

namespace lci::test {

// Whoever changes it undoes that.
std::span<const mem::memory_domain>& domains();

}  // namespace lci::test
