// Named race points: places between a check and an act at which a test runs another thread's work.
//
// Owns the one hook of such a build. tests/support/race_hook sets it; library code that contains an
// LCI_RACE_POINT calls it. Threads: any; the hook itself decides which threads it acts on. Always
// true: without -DLCI_RACE_POINTS=1 (set by the debug, asan and tsan presets only) a race point is
// empty, so the code that ships has neither the branch nor the string.
#pragma once

#if defined(LCI_RACE_POINTS) && LCI_RACE_POINTS

#include <atomic>

#include "lci/base/platform.hpp"

namespace lci::base {

// Null unless a test has hooks. Exported, so that a test binary and a shared library agree on one
// object.
LCI_API inline constinit std::atomic<void (*)(const char* name)> race_hook{nullptr};

inline void race_point(const char* name) {
  // edge race_hook.set: partner is the release store in tests/support/race_hook.cpp, which
  // publishes the hooks.
  if (auto* hook = race_hook.load(std::memory_order_acquire)) hook(name);
}

}  // namespace lci::base

// Names read "file.function.between_what_and_what".
#define LCI_RACE_POINT(name) ::lci::base::race_point(name)

#else

#define LCI_RACE_POINT(name) static_cast<void>(0)

#endif
