#include "tests/support/race_hook.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "lci/base/race_point.hpp"

namespace lci::test {
namespace {

// Shared while an action runs, so that actions in two threads may wait for each other; exclusive to
// add and remove.
std::shared_mutex guard;
std::vector<race_hook*> hooks;
// A thread that runs an action: what its action calls comes through race points without stopping
// there.
thread_local bool in_action = false;

}  // namespace

void race_hook::dispatch(const char* name) {
  if (in_action) return;
  std::shared_lock lock(guard);
  for (race_hook* hook : hooks) {
    if (hook->name_ != name) continue;
    // relaxed: a count, and the limit only has to hold for this counter.
    if (hook->hits_.load(std::memory_order_relaxed) >= hook->limit_) continue;
    if (hook->hits_.fetch_add(1, std::memory_order_relaxed) >= hook->limit_) {
      hook->hits_.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    in_action = true;
    hook->action_();
    in_action = false;
  }
}

race_hook::race_hook(std::string name, std::function<void()> action, int limit)
    : name_(std::move(name)), action_(std::move(action)), limit_(limit) {
  std::unique_lock lock(guard);
  hooks.push_back(this);
#if defined(LCI_RACE_POINTS) && LCI_RACE_POINTS
  // edge race_hook.set: partner is the acquire load in lci/base/race_point.hpp.
  base::race_hook.store(&race_hook::dispatch, std::memory_order_release);
#endif
}

race_hook::~race_hook() {
  std::unique_lock lock(guard);
  hooks.erase(std::remove(hooks.begin(), hooks.end(), this), hooks.end());
#if defined(LCI_RACE_POINTS) && LCI_RACE_POINTS
  // relaxed: who still sees the old value finds the shorter list behind the lock.
  if (hooks.empty()) base::race_hook.store(nullptr, std::memory_order_relaxed);
#endif
}

}  // namespace lci::test
