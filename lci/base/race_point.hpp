// Named race points: a place between a look and an act where a test does another thread's work.
//
// Owns the one hook that such a build has. Set by tests/support/race_hook, called from whatever
// library code holds a LCI_RACE_POINT. Threads: any; the hook itself decides which threads it acts
// on. Always true: without -DLCI_RACE_POINTS=1 (set by the debug, asan and tsan presets only) a
// race point is nothing at all, so the code that ships has neither the branch nor the string.
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
