#include "lci/runtime/failure_detector.hpp"

#include <exception>
#include <mutex>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/runtime/global.hpp"

namespace lci::runtime {

void failure_detector::look() noexcept {
  const std::uint64_t now = base::cpu_ticks();
  if (now < next_ticks_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  looked_.store(now, std::memory_order_relaxed);
  next_ticks_.store(now + INTERVAL.count() * base::ticks_per_ms(), std::memory_order_relaxed);
  try {
    hear(now);
    std::erase_if(unconfirmed_, [&](const unconfirmed& one) { return is_settled(one, now); });
  } catch (const std::exception& problem) {
    base::log::warn("runtime", "a report about other ranks was lost: %s", problem.what());
  }
}

// True if nothing more has to be reported about it.
bool failure_detector::is_settled(const unconfirmed& one, std::uint64_t now) {
  const auto& [rank, why, orderly] = one.what;
  const bool is_said = to_.peers.has_ended(rank);
  if (orderly && is_said) return true;
  // A rank that left and that no device ever met needs no grace period: nothing it sent can be on
  // its way.
  const bool is_due = orderly ? to_.is_unmet(rank) : now >= one.due_ticks;
  if (is_due && !is_said)
    to_.peers.report(rank, orderly ? net::peer_event::leave : net::peer_event::fail, why);
  return is_due;
}

// Passes every departure on to each runtime.
void failure_detector::hear(std::uint64_t now) {
  global_state& g = global();
  // While this thread or another one is in a fence, ask later. Relaxed: whether it is this one, it
  // has stored itself.
  if (g.meeting_thread.load(std::memory_order_relaxed) == base::thread_id()) return;
  const std::unique_lock lock(g.bootstrap_lock, std::try_to_lock);
  // A runtime may outlive global_finalize().
  if (!lock.owns_lock() || g.bootstrap == nullptr) return;
  // The bootstrap reports a departure only once, so it must not be lost for want of memory.
  if (g.unheard.empty()) g.unheard = g.bootstrap->news();
  if (!g.unheard.empty()) g.departures.reserve(g.departures.size() + g.unheard.size());
  for (boot::departure& one : g.unheard) g.departures.push_back(std::move(one));
  g.unheard.clear();
  for (; seen_ < g.departures.size(); ++seen_) {
    unconfirmed_.push_back({g.departures[seen_], now + GRACE.count() * base::ticks_per_ms()});
  }
}

}  // namespace lci::runtime
