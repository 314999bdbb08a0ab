// Runs a test's code at a named race point of the library, so that a rare interleaving becomes an
// ordinary one.
//
// Owned by the test that makes it, on the stack. Threads: hooks are made and destroyed by one
// thread at a time; they run in whatever thread comes through the point. Always true: a hook does
// not run inside itself (its code may come through the same point again), and after its destructor
// returns its code does not run any more.
#pragma once

#include <atomic>
#include <functional>
#include <string>

namespace lci::test {

// False where the library was built without race points: tests then GTEST_SKIP() <<
// RACE_POINTS_MISSING.
#if defined(LCI_RACE_POINTS) && LCI_RACE_POINTS
inline constexpr bool has_race_points = true;
#else
inline constexpr bool has_race_points = false;
#endif
inline constexpr const char* RACE_POINTS_MISSING =
    "the library was built without race points (LCI_RACE_POINTS=1 in the debug, asan and tsan "
    "presets)";

class race_hook {
 public:
  // `action` runs each time a thread comes through the point `name`, at most `limit` times.
  race_hook(std::string name, std::function<void()> action, int limit = 1 << 30);
  ~race_hook();
  race_hook(const race_hook&) = delete;
  race_hook& operator=(const race_hook&) = delete;

  // How often the action ran. A test that expects 0 or forgets to ask has not shown that it came
  // through the window.
  int hits() const noexcept { return hits_.load(std::memory_order_relaxed); }

 private:
  static void dispatch(const char* name);

  std::string name_;
  std::function<void()> action_;
  int limit_;
  std::atomic<int> hits_{0};
};

}  // namespace lci::test
