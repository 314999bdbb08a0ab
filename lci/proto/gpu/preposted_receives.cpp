// The receiver's side of pre-posted receives.
#include "lci/proto/gpu/preposted_receives.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/flags.hpp"
#include "lci/proto/gpu/reach.hpp"
#include "lci/proto/host/matcher.hpp"

namespace lci::proto::gpu {

namespace {

// Offers that a sender may leave unused before it is no longer offered any: many once it has used
// one, few while that is only hoped for, and then a new attempt now and then.
constexpr std::uint8_t PROVEN = 16, HOPED = 2, ATTEMPT_EVERY = 16;

match::recv_pattern pattern_of(const recv_plan& plan) noexcept {
  return {plan.rank, plan.user.status.tag, matching_policy_t::rank_tag};
}

}  // namespace

preposted_receives::~preposted_receives() {
  const std::lock_guard lock(lock_);
  for (slot& s : slots_) {
    if (s.state != preposted_state::free) free_locked(s);
  }
}

void preposted_receives::encourage(int rank) noexcept {
  const std::lock_guard lock(lock_);
  try {
    if (credits_.empty()) {
      peer_credit none;
      none.told = ctx_.common.preposted.next_base();
      credits_.resize(static_cast<std::size_t>(ctx_.engine.shared.n), none);
    }
  } catch (const std::bad_alloc&) {
    return;  // the next request does
  }
  is_willing_.store(true, std::memory_order_relaxed);
  peer_credit& m = credits_[static_cast<std::size_t>(rank)];
  if (m.asked++ % ATTEMPT_EVERY == 0) m.credit = std::max(m.credit, HOPED);
}

bool preposted_receives::is_worth(int rank) noexcept {
  if (!is_willing_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(lock_);
  return credits_[static_cast<std::size_t>(rank)].credit != 0 && find_free_locked() != nullptr;
}

preposted_receives::slot* preposted_receives::find_free_locked() noexcept {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const slot& each) {
    return each.state == preposted_state::free;
  });
  return found == slots_.end() ? nullptr : &*found;
}

void preposted_receives::prepare(receive& record, int rank, tag_t tag, rcomp_t rcomp) {
  if (rank == ctx_.engine.shared.me || is_for_network(ctx_.host, rank, record.kind) ||
      !is_worth(rank))
    return;
  recv_plan plan;
  plan.rank = rank;
  plan.user = record.user;
  plan.user.status.error = errorcode_t::done;
  plan.user.status.rank = rank;
  plan.user.status.tag = tag;
  plan.counted = record.host;
  plan.region = record.region;
  plan.region_offset = record.region_offset;
  plan.kind = record.kind;
  plan.gpu = record.gpu;
  plan.from_device = true;
  std::string why_not;
  const std::optional<mem::region> target = region_to_share(ctx_, plan, why_not);
  flag_word* const word = target ? ctx_.common.flags.take() : nullptr;
  if (word == nullptr) return;
  const bool registered_here = plan.region.generation == 0;
  if (registered_here) {
    try {
      plan.region = ctx_.engine.shared.regions.insert(*target);
      ctx_.engine.fabric.publish({plan.region.slot, plan.region.generation}, 0);
    } catch (...) {
      if (plan.region.generation != 0) ctx_.engine.shared.regions.erase(plan.region);
      flag_words::give(word);
      throw;
    }
  }
  const std::lock_guard lock(lock_);
  slot* const s = find_free_locked();
  if (s == nullptr) {  // another thread has taken the last one
    flag_words::give(word);
    if (registered_here) ctx_.engine.shared.regions.erase(plan.region);
    return;
  }
  s->generation = ctx_.common.preposted.next_generation();
  s->state = preposted_state::open;
  s->registered_here = registered_here;
  s->record = &record;
  s->word = word;
  s->rcomp = rcomp;
  s->plan = plan;
  record.preposted = name_of(*s);
  // Relaxed: the message that reports it brings it over.
  word->store(wire::preposted_value(record.preposted, wire::PREPOSTED_OPEN),
              std::memory_order_relaxed);
}

void preposted_receives::publish(int rank, wire::name preposted, match::engine& where) {
  wire::preposted body;
  {
    const std::lock_guard lock(lock_);
    slot* const s = find_locked(rank, preposted);
    if (s == nullptr || s->state != preposted_state::open) return;
    s->is_public = where.all_older(pattern_of(s->plan), s->record, [this](const void* value) {
      const slot* const older = find_locked(-1, static_cast<const receive*>(value)->preposted);
      // Receives of other devices have names of their own, which may be the same.
      return older != nullptr && older->record == value && older->is_public;
    });
    // No sender was told, so none has it: the receive waits like any other.
    if (!s->is_public) {
      (void)move_locked(*s, preposted_event::taken_back);
      return free_locked(*s);
    }
    body.receiver = preposted;
    body.region = {s->plan.region.slot, s->plan.region.generation};
    body.offset = s->plan.region_offset;
    body.room = s->plan.user.status.size;
    body.tag = s->plan.user.status.tag;
    body.word = ctx_.common.flags.place_of(s->word);
    body.rcomp = s->rcomp;
    number_locked(*s, body);
  }
  known_.say(rank, body);
}

void preposted_receives::number_locked(slot& s, wire::preposted& body) noexcept {
  s.number = ++credits_[static_cast<std::size_t>(s.plan.rank)].told;
  std::uint64_t oldest = s.number;
  for (const slot& each : slots_) {
    if (each.state == preposted_state::open && each.is_public && each.plan.rank == s.plan.rank)
      oldest = std::min(oldest, each.number);
  }
  body.number = s.number;
  body.since = static_cast<std::uint32_t>(std::min<std::uint64_t>(s.number - oldest, UINT32_MAX));
}

preposted_receives::slot* preposted_receives::find_locked(int rank, wire::name preposted) noexcept {
  if (preposted.slot >= OPEN) return nullptr;
  slot& s = slots_[preposted.slot];
  const bool is_it = s.state != preposted_state::free && s.generation == preposted.generation &&
                     (rank < 0 || s.plan.rank == rank);
  return is_it ? &s : nullptr;
}

void preposted_receives::free_locked(slot& s) noexcept {
  if (s.word != nullptr) flag_words::give(s.word);
  s.word = nullptr;
  if (s.registered_here) ctx_.engine.shared.regions.erase(s.plan.region);
  s.registered_here = s.is_public = false;
  s.record = nullptr;
}

// True: no sender has claimed it, none will, and the slot is free.
bool preposted_receives::take_back_locked(slot& s) noexcept {
  if (s.state != preposted_state::open) return false;
  std::uint64_t value = wire::preposted_value(name_of(s), wire::PREPOSTED_OPEN);
  // Relaxed: only which side has it is asked; partner is peer_preposted::make().
  if (!s.word->compare_exchange_strong(value, wire::FLAG_TAKEN, std::memory_order_relaxed))
    return false;
  (void)move_locked(s, preposted_event::taken_back);
  free_locked(s);
  return true;
}

// The record has left its engine.
void preposted_receives::send_home_locked(slot& s) noexcept {
  s.record = nullptr;
  if (move_locked(s, preposted_event::home) == preposted_action::free) free_locked(s);
}

bool preposted_receives::withdraw(receive& record) noexcept {
  const wire::name preposted = std::exchange(record.preposted, {});
  if (preposted.generation == 0) return true;
  const std::lock_guard lock(lock_);
  slot* const s = find_locked(-1, preposted);
  if (s == nullptr) return true;  // its sender has ended
  peer_credit& m = credits_[static_cast<std::size_t>(s->plan.rank)];
  if (take_back_locked(*s)) {
    if (m.credit != 0) --m.credit;
    return true;
  }
  send_home_locked(*s);
  return false;
}

// Takes the record of a claimed receive out of its engine, unless a message has done so.
void preposted_receives::bring_home_locked(slot& s) noexcept {
  const remote_target to = ctx_.engine.shared.rcomps.find(s.rcomp);
  if (s.record == nullptr || to.match == nullptr) return;
  if (!matcher::of(*to.match).engine().remove_recv(pattern_of(s.plan), s.record)) return;
  ctx_.host.common.receives.put(s.record);
  send_home_locked(s);
}

// If the word says that its sender has the receive; what comes is `size` bytes. False: that is not
// so, or was known before.
bool preposted_receives::begin_locked(slot& s, std::uint64_t size) {
  // The word is there until a claim is known.
  const bool is_so = s.word != nullptr && size <= s.plan.user.status.size &&
                     s.word->load(std::memory_order_relaxed) ==
                         wire::preposted_value(name_of(s), wire::PREPOSTED_CLAIMED);
  if (!is_so || move_locked(s, preposted_event::claim) != preposted_action::begin) return false;
  claimed_.fetch_add(1, std::memory_order_relaxed);
  flag_words::give(std::exchange(s.word, nullptr));
  s.plan.user.status.size = size;
  credits_[static_cast<std::size_t>(s.plan.rank)].credit = PROVEN;
  bring_home_locked(s);
  return true;
}

void preposted_receives::on_claim(int rank, const wire::claim& body) {
  const awaited_flags::place room(flags_);
  {
    const std::lock_guard lock(lock_);
    slot* const s = find_locked(rank, body.receiver);
    // Also where a failure has overtaken it. The sender's word is not looked at then: it may be
    // another's by now.
    if (s == nullptr || !begin_locked(*s, body.size)) {
      ctx_.engine.dropped.add(1);
      return;
    }
  }
  flags_.on_claim(rank, body);
}

void preposted_receives::on_end(int rank, const wire::preposted_end& body) {
  {
    const std::lock_guard lock(lock_);
    slot* const s = find_locked(rank, body.receiver);
    if (s == nullptr || (!begin_locked(*s, body.size) && !is_claimed(*s))) {
      ctx_.engine.dropped.add(1);
      return;
    }
  }
  if (body.ok == 0)
    ctx_.engine.errors.keep_made([&] {
      return std::runtime_error("rank " + std::to_string(rank) + " could not write a message of " +
                                std::to_string(body.size) +
                                " bytes into the receive that it had claimed");
    });
  finish(body.receiver, body.ok != 0);
}

void preposted_receives::finish(wire::name preposted, bool ok) {
  recv_plan plan;
  {
    const std::lock_guard lock(lock_);
    slot* const s = find_locked(-1, preposted);
    if (s == nullptr) return;
    plan = s->plan;
    const preposted_action what = move_locked(*s, preposted_event::over);
    // Its end was noticed twice here, by a flag or message and by the end of the rank: no message
    // was dropped.
    if (what == preposted_action::drop) return;
    if (s->registered_here) ctx_.engine.shared.regions.erase(s->plan.region);
    s->registered_here = false;
    if (what == preposted_action::signal_and_free) free_locked(*s);
  }
  end_receive(ctx_.host, plan, ok);
  claimed_.fetch_sub(1, std::memory_order_relaxed);
}

void preposted_receives::forget(int rank) {
  std::array<wire::name, OPEN> claimed;
  std::size_t count = 0;
  {
    const std::lock_guard lock(lock_);
    for (slot& s : slots_) {
      if (s.state == preposted_state::free || s.plan.rank != rank) continue;
      if (take_back_locked(s)) continue;
      // What was claimed and not said will not be said any more.
      begin_locked(s, s.plan.user.status.size);
      // What still waits for its flag after those of that rank were forgotten has got its bytes.
      if (is_claimed(s) && !flags_.has(name_of(s))) claimed[count++] = name_of(s);
    }
  }
  for (std::size_t i = 0; i < count; ++i) finish(claimed[i], false);
}

}  // namespace lci::proto::gpu
