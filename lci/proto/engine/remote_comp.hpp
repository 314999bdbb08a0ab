// The numbers under which peers name completion objects and matching engines of this process.
// Threads: find() shared and wait-free; the others take a lock. Numbers are handed out in call
// order and never reused, so programs that register the same objects in the same order on every
// rank need no exchange. Always true: a number is empty, a completion object, or one policy of a
// matching engine (four consecutive numbers each).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/data/stable_array.hpp"
#include "lci/types.hpp"

namespace lci {
class comp_impl_t;
}

namespace lci::proto {

// A matching engine, which is known by its numbers only: four from this one on, one for each
// policy.
class match_target {
 public:
  rcomp_t first_rcomp = 0;  // set when it is entered

 protected:
  ~match_target() = default;
};

// What a number stands for; both null: nothing.
struct remote_target {
  comp_impl_t* comp = nullptr;
  match_target* match = nullptr;
  matching_policy_t policy = matching_policy_t::none;  // with match
};

class remote_comps {
 public:
  // Numbers 1..8 belong to the two default engines, whether or not they exist.
  static constexpr rcomp_t FIRST_USER = 9;
  static constexpr rcomp_t MAX = (1u << 24) - 1;

  remote_target find(rcomp_t number) const noexcept {
    // Number 0 is a row like any other, and always empty.
    const row* r = rows_.find(number);
    if (r == nullptr) [[unlikely]]
      return {};
    // edge rcomp.publish: the object was made before its number; partner are the release stores in
    // remote_comp.cpp.
    const std::uintptr_t target = r->target.load(std::memory_order_acquire);
    if ((target & ENGINE) == 0) [[likely]]
      return {reinterpret_cast<comp_impl_t*>(target), nullptr, matching_policy_t::none};
    return engine_target(target, number);
  }

  // Number 0 and those of engines are below. Relaxed: a thread has no way to know the number of an
  // engine that another is still making.
  rcomp_t end_of_engines() const noexcept {
    return end_of_engines_.load(std::memory_order_relaxed);
  }
  LCI_COLD bool is_of_engine(rcomp_t number) const noexcept;
  // Whether the object has a number.
  bool has(const comp_impl_t& comp) const;
  // The object is about to be freed: its numbers name comp::buried() until they are taken back, and
  // never what comes to lie there.
  void bury(const comp_impl_t& comp) noexcept;
  rcomp_t add(comp_impl_t* comp);  // the next number
  void add_at(rcomp_t number,
              comp_impl_t* comp);  // throws argument_error when out of range or taken
  rcomp_t reserve(rcomp_t n);      // first of n numbers
  void remove(rcomp_t number);     // throws argument_error when nothing is there
  rcomp_t add_engine(
      match_target* match);  // takes the next four; the first two engines get 1 and 5
  void remove_engine(rcomp_t first) noexcept;
  // Calls fn(match_target&) for each engine, under the lock: none goes meanwhile.
  template <class Fn>
  void for_each_engine(Fn&& fn) {
    const std::lock_guard lock(mutex_);
    for (match_target* const m : engines_) fn(*m);
  }
  // The same for a signal handler: false when another has the lock.
  template <class Fn>
  bool try_each_engine(Fn&& fn) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (match_target* const m : engines_) fn(*m);
    return true;
  }

 private:
  // An engine is tagged in the low bit and stands at all four of its numbers; number modulo four,
  // from its first, is the policy.
  static constexpr std::uintptr_t ENGINE = 1;
  struct row {
    std::atomic<std::uintptr_t> target{0};
  };
  static remote_target engine_target(std::uintptr_t target, rcomp_t number) noexcept {
    auto* const match = reinterpret_cast<match_target*>(target & ~ENGINE);
    return {nullptr, match, static_cast<matching_policy_t>(number - match->first_rcomp)};
  }
  void check_left(rcomp_t n) const;
  void enter_locked(rcomp_t number, comp_impl_t* comp);

  mutable std::mutex mutex_;
  rcomp_t next_ = FIRST_USER;
  rcomp_t engines_made_ = 0;
  std::atomic<rcomp_t> end_of_engines_{FIRST_USER};
  std::vector<match_target*> engines_;
  std::unordered_multimap<const comp_impl_t*, rcomp_t> numbers_;  // of objects that are alive
  std::atomic<bool> has_numbers_{false};                          // there are some
  data::stable_array<row, 1024> rows_;
};

}  // namespace lci::proto
