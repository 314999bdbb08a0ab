// Which form of an algorithm its test checks: the plain one, or the locked one, which the thread
// sanitizer gets and a kernel without membarrier. Behind checker.hpp, which is precompiled for
// both, and before the files of the library.
#pragma once

#ifdef LCI_CHECK_LOCKED_FORM
#undef LCI_TSAN
#define LCI_TSAN 1
#endif
