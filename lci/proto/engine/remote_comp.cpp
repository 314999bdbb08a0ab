#include "lci/proto/engine/remote_comp.hpp"

#include <algorithm>
#include <string>

#include "lci/base/undo.hpp"
#include "lci/comp/kind.hpp"
#include "lci/errors.hpp"

namespace lci::proto {

namespace {
constexpr rcomp_t POLICIES = 4;  // numbers an engine takes, one per matching policy
}

bool remote_comps::is_of_engine(rcomp_t number) const noexcept {
  return number != 0 && (number < FIRST_USER || find(number).match != nullptr);
}

bool remote_comps::has(const comp_impl_t& comp) const {
  const std::lock_guard lock(mutex_);
  return numbers_.contains(&comp);
}

void remote_comps::bury(const comp_impl_t& comp) noexcept {
  // Relaxed: the code that frees the object knows of its numbers.
  if (!has_numbers_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = numbers_.equal_range(&comp);
  for (auto it = begin; it != end; ++it)
    rows_.find(it->second)
        ->target.store(reinterpret_cast<std::uintptr_t>(&comp::buried()),
                       std::memory_order_release);  // edge rcomp.publish
  numbers_.erase(begin, end);
}

void remote_comps::check_left(rcomp_t n) const {
  if (n > MAX - next_)
    throw argument_error("reserve_rcomps: n " + std::to_string(n) + " is more than the " +
                         std::to_string(MAX - next_) + " numbers that are left");
}

rcomp_t remote_comps::reserve(rcomp_t n) {
  const std::lock_guard lock(mutex_);
  check_left(n);
  const rcomp_t first = next_;
  next_ += n;
  return first;
}

rcomp_t remote_comps::add(comp_impl_t* comp) {
  const std::lock_guard lock(mutex_);
  check_left(1);
  // The number is used up when nothing can go wrong any more: all ranks count alike.
  enter_locked(next_, comp);
  return next_++;
}

void remote_comps::add_at(rcomp_t number, comp_impl_t* comp) {
  const std::lock_guard lock(mutex_);
  if (number < FIRST_USER || number >= next_)
    throw argument_error("register_rcomp: rcomp " + std::to_string(number) +
                         " was not reserved; legal are " + std::to_string(FIRST_USER) + " to " +
                         std::to_string(next_ - 1));
  enter_locked(number, comp);
}

void remote_comps::enter_locked(rcomp_t number, comp_impl_t* comp) {
  row& r = rows_.grow_to(number);
  if (r.target.load(std::memory_order_relaxed) != 0)
    throw argument_error("register_rcomp: rcomp " + std::to_string(number) + " is taken");
  numbers_.emplace(comp, number);
  has_numbers_.store(true, std::memory_order_relaxed);
  r.target.store(reinterpret_cast<std::uintptr_t>(comp),
                 std::memory_order_release);  // edge rcomp.publish
}

void remote_comps::remove(rcomp_t number) {
  const std::lock_guard lock(mutex_);
  row* r = number < FIRST_USER ? nullptr : rows_.find(number);
  const std::uintptr_t target = r == nullptr ? 0 : r->target.load(std::memory_order_relaxed);
  if (target == 0 || (target & ENGINE) != 0)
    throw argument_error("deregister_rcomp: rcomp " + std::to_string(number) +
                         " is not registered");
  const auto [begin, end] = numbers_.equal_range(reinterpret_cast<const comp_impl_t*>(target));
  const auto known =
      std::find_if(begin, end, [number](const auto& n) { return n.second == number; });
  if (known != end) numbers_.erase(known);
  // edge rcomp.publish: 0 is no object.
  r->target.store(0, std::memory_order_release);
}

rcomp_t remote_comps::add_engine(match_target* match) {
  const std::lock_guard lock(mutex_);
  const bool is_default = engines_made_ < 2;
  if (!is_default && MAX - next_ < POLICIES)
    throw argument_error("alloc_matching_engine: no remote completion numbers are left");
  const rcomp_t first = is_default ? 1 + engines_made_ * POLICIES : next_;
  // All that may fail comes before the first change, so that no number leads to an engine that was
  // never made.
  base::make_room(engines_);
  for (rcomp_t i = 0; i < POLICIES; ++i) rows_.grow_to(first + i);
  if (!is_default) {
    next_ += POLICIES;
    end_of_engines_.store(next_, std::memory_order_relaxed);
  }
  ++engines_made_;
  match->first_rcomp = first;
  // edge rcomp.publish: the engine was made before its numbers.
  for (rcomp_t i = 0; i < POLICIES; ++i)
    rows_.grow_to(first + i).target.store(reinterpret_cast<std::uintptr_t>(match) | ENGINE,
                                          std::memory_order_release);
  engines_.push_back(match);
  return first;
}

void remote_comps::remove_engine(rcomp_t first) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(engines_, [first](const match_target* m) { return m->first_rcomp == first; });
  // edge rcomp.publish: 0 is no object.
  for (rcomp_t i = 0; i < POLICIES; ++i)
    if (row* r = rows_.find(first + i)) r->target.store(0, std::memory_order_release);
}

}  // namespace lci::proto
