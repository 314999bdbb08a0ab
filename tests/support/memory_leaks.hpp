// Memory that nothing leads to any more, in builds whose sanitizer looks for that. For processes
// whose end the sanitizer does not see, or whose exit status says something else.
#pragma once

#include "tests/support/sanitized.hpp"

#if LCI_TEST_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace lci::test {

// Prints what has leaked so far. False as well where nobody looks.
inline bool has_leaked_memory() {
#if LCI_TEST_ASAN
  return __lsan_do_recoverable_leak_check() != 0;
#else
  return false;
#endif
}

}  // namespace lci::test
