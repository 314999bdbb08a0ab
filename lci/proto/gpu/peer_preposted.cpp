// The sender's side of pre-posted receives.
#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/peer_copy.hpp"
#include "lci/proto/gpu/preposted_receives.hpp"
#include "lci/proto/host/transfers.hpp"

namespace lci::proto::gpu {

peer_preposted::peer_slots* peer_preposted::find_locked(int rank) const noexcept {
  return peers_.empty() ? nullptr : peers_[static_cast<std::size_t>(rank)].get();
}

peer_preposted::peer_slots& peer_preposted::slots_of_locked(int rank) {
  if (peers_.empty()) peers_.resize(static_cast<std::size_t>(ctx_.engine.shared.n));
  std::unique_ptr<peer_slots>& of = peers_[static_cast<std::size_t>(rank)];
  if (of == nullptr) of = std::make_unique<peer_slots>();
  return *of;
}

void peer_preposted::on_preposted(int rank, const wire::preposted& body) {
  if (body.receiver.slot >= preposted_receives::OPEN || body.since >= body.number) {
    ctx_.engine.dropped.add(1);
    return;
  }
  const std::lock_guard lock(lock_);
  peer_slots& of = slots_of_locked(rank);
  of.heard.hear(body.number, body.since);
  std::uint64_t& order = of.order[body.receiver.slot];
  if (body.number <= order) return;  // a later one of this slot was faster
  if (order == 0) count_.fetch_add(1, std::memory_order_relaxed);
  of.at[body.receiver.slot] = body;
  order = body.number;
}

void peer_preposted::forget(int rank) noexcept {
  const std::lock_guard lock(lock_);
  peer_slots* const of = find_locked(rank);
  if (of == nullptr) return;
  for (std::uint64_t& order : of->order) {
    if (std::exchange(order, 0) != 0) count_.fetch_sub(1, std::memory_order_relaxed);
  }
}

// Messages of one thread to one key meet receives in their order as far as networks keep it, so a
// claim does not overtake what is on its way. An endpoint that cannot tell answers what is never
// clear.
bool peer_preposted::is_clear(post_queue& from, int rank) noexcept {
  if (from.log.pending(rank)) return false;
  const std::uint64_t last = from.end().unconsumed(rank);
  if (last == 0 || last == net::endpoint::UNKNOWN) return last == 0;
  const std::lock_guard lock(lock_);
  const peer_slots* const of = find_locked(rank);
  return of != nullptr && of->clear == last;
}

void peer_preposted::set_clear(post_queue& from, int rank) noexcept {
  const std::uint64_t last = from.end().unconsumed(rank);
  const std::lock_guard lock(lock_);
  try {
    slots_of_locked(rank).clear = last;
  } catch (const std::bad_alloc&) {  // then later claims wait
  }
}

template <class Body>
void peer_preposted::say_as(int rank, wire::kind what, const Body& body) noexcept {
  const bool was_clear = is_clear(ctx_.engine.control, rank);
  ctx_.engine.say(rank, what, body);
  if (was_clear) set_clear(ctx_.engine.control, rank);
}
void peer_preposted::say(int rank, const wire::preposted& body) noexcept {
  say_as(rank, wire::kind::preposted, body);
}
void peer_preposted::say(int rank, const wire::claim& body) noexcept {
  say_as(rank, wire::kind::claim, body);
}

// The oldest pre-posted receive for such a message, which leaves its slot. One that is too small
// stays for the request to find, which makes it the error that it is.
std::optional<wire::preposted> peer_preposted::take(const outgoing& out) noexcept {
  const std::lock_guard lock(lock_);
  peer_slots* const found = find_locked(out.rank);
  if (found == nullptr) return {};
  peer_slots& of = *found;
  if (!of.heard.is_whole()) return {};  // an older one is on its way
  std::size_t oldest = preposted_receives::OPEN;
  for (std::size_t i = 0; i < preposted_receives::OPEN; ++i) {
    if (of.order[i] == 0 || of.at[i].rcomp != out.rcomp || of.at[i].tag != out.tag) continue;
    if (oldest == preposted_receives::OPEN || of.order[i] < of.order[oldest]) oldest = i;
  }
  if (oldest == preposted_receives::OPEN || of.at[oldest].room < out.size) return {};
  of.order[oldest] = 0;
  count_.fetch_sub(1, std::memory_order_relaxed);
  return of.at[oldest];
}

// ---- a claim ----

static bool tell_claimed(transfer& move) noexcept {
  return is_told_by_gpu(move) || move.queue->engine.control.accept_control(
                                     move.op.rank, wire::kind::preposted_end,
                                     wire::preposted_end{move.peer_state, move.total, 1, 0});
}

static void tell_not_claimed(transfer& move) noexcept {
  move.queue->engine.say(move.op.rank, wire::kind::preposted_end,
                         wire::preposted_end{move.peer_state, move.total, 0, 0});
}

constexpr protocol CLAIM = {"claim", &tell_claimed, &tell_not_claimed, true};

// The copy into the receive, if that is ours now.
peer_preposted::answer peer_preposted::make(const outgoing& out, const wire::preposted& preposted,
                                            transfer*& made) {
  flag_word* const word = find_word(ctx_.engine.fabric, out.rank, preposted.word);
  const net::remote_key key{preposted.region.slot, preposted.region.generation};
  const net::remote_view view = ctx_.engine.fabric.check_remote(out.rank, key, ctx_.engine.index);
  if (word == nullptr) return answer::unreachable;
  // The request that finds the receive decides.
  if (ctx_.common.shared_gpu.pick(out.rank, out.size, false) == shared_gpu_ways::BY_HOST)
    return answer::unreachable;
  if (view.what != net::remote_view::answer::ok || preposted.offset > view.size ||
      out.size > view.size - preposted.offset)
    return answer::gone;
  transfer* const move = make_transfer(out, transfer::verb::put, CLAIM);
  move->packet = out.packet;
  move->op.remote = key;
  move->remote_base = preposted.offset;
  move->peer_state = preposted.receiver;
  bool is_made = false;
  try {
    std::string why_not;
    is_made = make_direct(ctx_, *move, view, CLAIM, false, why_not) == direct_answer::made;
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  if (!is_made) {
    undo_transfer(move);
    return answer::unreachable;
  }
  std::uint64_t value = wire::preposted_value(preposted.receiver, wire::PREPOSTED_OPEN);
  // Relaxed: only which side has it is asked; partner is preposted_receives::take_back_locked().
  if (!word->compare_exchange_strong(
          value, wire::preposted_value(preposted.receiver, wire::PREPOSTED_CLAIMED),
          std::memory_order_relaxed)) {
    undo_transfer(move);
    return answer::gone;
  }
  static_cast<direct_copy*>(move->carrier)->claims = this;
  made = move;
  return answer::ours;
}

std::optional<errorcode_t> peer_preposted::claim(outgoing& out) {
  if (count_.load(std::memory_order_relaxed) == 0 || !is_clear(out.queue, out.rank)) return {};
  while (const std::optional<wire::preposted> preposted = take(out)) {
    transfer* move = nullptr;
    const answer is = make(out, *preposted, move);
    if (is == answer::unreachable) return {};  // the request finds the receive
    if (is == answer::gone) continue;
    move->begun = true;
    return out.queue.advance(*move);
  }
  return {};
}

}  // namespace lci::proto::gpu
