// Both engines, looked at from outside: docs/decisions/0038-who-waits-for-what.md.
#include <mutex>

#include "lci/match/map_engine.hpp"
#include "lci/match/queue_engine.hpp"

namespace lci::match {
namespace {

engine::filed_entry wildcard_of(const entry& e) noexcept {
  return {e.type, e.rank, e.tag, matching_policy_t::rank_tag, e.size, e.stamp, e.value};
}

engine::filed_entry exact_of(const entry& e) noexcept {
  const auto policy = static_cast<matching_policy_t>(e.key.space);
  if (e.type == matching_entry_type_t::send)
    return {e.type, e.rank, e.tag, policy, e.size, e.stamp, e.value};
  const bool has_tag = (e.key.space & 2) != 0;
  return {e.type, e.key.source(), has_tag ? e.key.tag : ANY_TAG, policy, e.size, e.stamp, e.value};
}

// More attempts help only against other threads, and those are out in a moment.
bool try_for_a_while(base::spinlock& lock) noexcept {
  for (int i = 0; i < 64; ++i) {
    if (lock.try_lock()) return true;
    base::cpu_relax();
  }
  return false;
}

}  // namespace

std::size_t map_engine::look_at(look_fn see, void* with) noexcept {
  if (!try_for_a_while(lock_)) return 1;
  const std::lock_guard guard(lock_, std::adopt_lock);
  std::size_t left_out = 0;
  for (std::size_t i = 0; i <= tables_->mask; ++i) {
    bucket& b = tables_->at(i);
    if (!try_for_a_while(b.lock)) {
      ++left_out;
      continue;
    }
    const std::lock_guard bucket_guard(b.lock, std::adopt_lock);
    b.queues.look([&](const entry& e) {
      if (e.key.space != exact_key::RAW) see(with, exact_of(e));
    });
  }
  wildcards_.look([&](const entry& e) { see(with, wildcard_of(e)); });
  return left_out;
}

std::size_t queue_engine::look_at(look_fn see, void* with) noexcept {
  if (!try_for_a_while(lock_)) return 1;
  const std::lock_guard guard(lock_, std::adopt_lock);
  for (const arrival_list* list : {&recvs_, &sends_}) {
    list->look([&](const entry& e) {
      if (e.key.space == exact_key::RAW) return;
      see(with, e.key.space == WILDCARD ? wildcard_of(e) : exact_of(e));
    });
  }
  return 0;
}

}  // namespace lci::match
