// What both engines need when they are inspected from outside, perhaps in a signal handler:
// docs/decisions/0038-who-waits-for-what.md. Callers: the engines. Threads: any.
#pragma once

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/match/engine.hpp"
#include "lci/match/entry.hpp"

namespace lci::match {

inline engine::filed_entry wildcard_of(const entry& e) noexcept {
  return {e.type, e.rank, e.tag, matching_policy_t::rank_tag, e.size, e.stamp, e.value};
}

inline engine::filed_entry exact_of(const entry& e) noexcept {
  const auto policy = static_cast<matching_policy_t>(e.key.space);
  if (e.type == matching_entry_type_t::send)
    return {e.type, e.rank, e.tag, policy, e.size, e.stamp, e.value};
  const bool has_tag = (e.key.space & 2) != 0;
  return {e.type, e.key.source(), has_tag ? e.key.tag : ANY_TAG, policy, e.size, e.stamp, e.value};
}

// More attempts help only if another thread holds the lock, and it releases it in a moment.
inline bool try_for_a_while(base::spinlock& lock) noexcept {
  for (int i = 0; i < 64; ++i) {
    if (lock.try_lock()) return true;
    base::cpu_relax();
  }
  return false;
}

}  // namespace lci::match
