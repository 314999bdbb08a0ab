#include "lci/runtime/far_news.hpp"

#include <exception>
#include <mutex>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/runtime/global.hpp"

namespace lci::runtime {

void far_news::look() noexcept {
  const std::uint64_t now = base::cpu_ticks();
  if (now < next_ticks_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  next_ticks_.store(now + INTERVAL.count() * base::ticks_per_ms(), std::memory_order_relaxed);
  try {
    hear(now);
    std::erase_if(rumours_, [&](const rumour& one) {
      const bool is_due = now >= one.due_ticks;
      if (is_due && !to_.is_gone(one.rank)) to_.mark_gone(one.rank, false, one.why);
      return is_due;
    });
  } catch (const std::exception& problem) {
    base::log::warn("runtime", "news of other ranks were lost: %s", problem.what());
  }
}

// Each runtime gets all that was ever heard.
void far_news::hear(std::uint64_t now) {
  global_state& g = global();
  // Whoever is in a fence asks later.
  const std::unique_lock lock(g.bootstrap_lock, std::try_to_lock);
  // A runtime may outlive global_finalize().
  if (!lock.owns_lock() || g.bootstrap == nullptr) return;
  for (boot::departure& one : g.bootstrap->news()) g.departures.push_back(std::move(one));
  for (; seen_ < g.departures.size(); ++seen_) {
    const boot::departure& one = g.departures[seen_];
    rumours_.push_back({one.rank, one.why, now + GRACE.count() * base::ticks_per_ms()});
  }
}

}  // namespace lci::runtime
