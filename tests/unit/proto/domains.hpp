// The accelerators of the tests of lci/proto. Threads: single.
#pragma once

#include <span>

#include "lci/mem/memory_domain.hpp"

namespace lci::test {

// Whoever changes it undoes that.
std::span<const mem::memory_domain>& domains();
// What domains() holds when no test has changed it.
std::span<const mem::memory_domain> usual_domains();

}  // namespace lci::test
