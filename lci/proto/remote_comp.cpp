#include "lci/proto/remote_comp.hpp"

#include <string>

#include "lci/errors.hpp"
#include "lci/proto/matcher.hpp"

namespace lci::proto {

namespace {
constexpr rcomp_t POLICIES = 4;  // numbers an engine takes, one per matching policy
}

remote_target remote_comps::engine_target(std::uintptr_t target, rcomp_t number) noexcept {
  auto* match = reinterpret_cast<matcher*>(target & ~ENGINE);
  return {nullptr, match, static_cast<matching_policy_t>(number - match->first_rcomp)};
}

rcomp_t remote_comps::reserve(rcomp_t n) {
  const std::lock_guard lock(mutex_);
  if (n > MAX - next_)
    throw argument_error("reserve_rcomps: n " + std::to_string(n) + " is more than the " +
                         std::to_string(MAX - next_) + " numbers that are left");
  const rcomp_t first = next_;
  next_ += n;
  return first;
}

rcomp_t remote_comps::add(comp_impl_t* comp) {
  const rcomp_t number = reserve(1);
  add_at(number, comp);
  return number;
}

void remote_comps::add_at(rcomp_t number, comp_impl_t* comp) {
  const std::lock_guard lock(mutex_);
  if (number < FIRST_USER || number >= next_)
    throw argument_error("register_rcomp: rcomp " + std::to_string(number) +
                         " was not reserved; legal are " + std::to_string(FIRST_USER) + " to " +
                         std::to_string(next_ - 1));
  row& r = rows_.grow_to(number);
  if (r.target.load(std::memory_order_relaxed) != 0)
    throw argument_error("register_rcomp: rcomp " + std::to_string(number) + " is taken");
  r.target.store(reinterpret_cast<std::uintptr_t>(comp),
                 std::memory_order_release);  // edge rcomp.publish
}

void remote_comps::remove(rcomp_t number) {
  const std::lock_guard lock(mutex_);
  row* r = number < FIRST_USER ? nullptr : rows_.find(number);
  if (r == nullptr || r->target.load(std::memory_order_relaxed) == 0)
    throw argument_error("deregister_rcomp: rcomp " + std::to_string(number) +
                         " is not registered");
  r->target.store(0, std::memory_order_release);
}

rcomp_t remote_comps::add_engine(matcher* match) {
  const std::lock_guard lock(mutex_);
  engines_.reserve(engines_.size() + 1);
  rcomp_t first;
  if (engines_made_ < 2) {
    first = 1 + engines_made_ * POLICIES;
  } else {
    if (MAX - next_ < POLICIES)
      throw argument_error("alloc_matching_engine: no remote completion numbers are left");
    first = next_;
    next_ += POLICIES;
  }
  ++engines_made_;
  match->first_rcomp = first;
  for (rcomp_t i = 0; i < POLICIES; ++i)
    rows_.grow_to(first + i).target.store(reinterpret_cast<std::uintptr_t>(match) | ENGINE,
                                          std::memory_order_release);
  engines_.push_back(match);
  return first;
}

void remote_comps::remove_engine(rcomp_t first) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(engines_, [first](const matcher* m) { return m->first_rcomp == first; });
  for (rcomp_t i = 0; i < POLICIES; ++i)
    if (row* r = rows_.find(first + i)) r->target.store(0, std::memory_order_release);
}

}  // namespace lci::proto
