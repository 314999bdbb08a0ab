// The sender's side of offers.
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/direct.hpp"
#include "lci/proto/gpu/offers.hpp"
#include "lci/proto/host/transfers.hpp"

namespace lci::proto::gpu {

peer_offers::shelf* peer_offers::find_locked(int rank) const noexcept {
  return shelves_.empty() ? nullptr : shelves_[static_cast<std::size_t>(rank)].get();
}

peer_offers::shelf& peer_offers::shelf_locked(int rank) {
  if (shelves_.empty()) shelves_.resize(static_cast<std::size_t>(via_.engine.shared.n));
  std::unique_ptr<shelf>& of = shelves_[static_cast<std::size_t>(rank)];
  if (of == nullptr) of = std::make_unique<shelf>();
  return *of;
}

void peer_offers::on_offer(int rank, const wire::offer& body) {
  if (body.receiver.slot >= offers::OPEN) {
    via_.engine.dropped.add(1);
    return;
  }
  const std::lock_guard lock(lock_);
  shelf& of = shelf_locked(rank);
  if (of.order[body.receiver.slot] == 0) count_.fetch_add(1, std::memory_order_relaxed);
  of.at[body.receiver.slot] = body;
  of.order[body.receiver.slot] = next_++;
}

void peer_offers::forget(int rank) noexcept {
  const std::lock_guard lock(lock_);
  shelf* const of = find_locked(rank);
  if (of == nullptr) return;
  for (std::uint64_t& order : of->order) {
    if (std::exchange(order, 0) != 0) count_.fetch_sub(1, std::memory_order_relaxed);
  }
}

// Messages of one thread to one key meet receives in their order as far as networks keep it, so a
// claim does not overtake what is on its way. An endpoint that cannot tell answers what is never
// clear.
bool peer_offers::is_clear(post_queue& from, int rank) noexcept {
  if (from.log.pending(rank)) return false;
  const std::uint64_t last = from.end().unconsumed(rank);
  if (last == 0 || last == net::endpoint::UNKNOWN) return last == 0;
  const std::lock_guard lock(lock_);
  const shelf* const of = find_locked(rank);
  return of != nullptr && of->clear == last;
}

void peer_offers::set_clear(post_queue& from, int rank) noexcept {
  const std::uint64_t last = from.end().unconsumed(rank);
  const std::lock_guard lock(lock_);
  try {
    shelf_locked(rank).clear = last;
  } catch (const std::bad_alloc&) {  // then later claims wait
  }
}

template <class Body>
void peer_offers::say_as(int rank, wire::kind what, const Body& body) noexcept {
  const bool was_clear = is_clear(via_.engine.control, rank);
  via_.engine.say(rank, what, body);
  if (was_clear) set_clear(via_.engine.control, rank);
}
void peer_offers::say(int rank, const wire::offer& body) noexcept {
  say_as(rank, wire::kind::offer, body);
}
void peer_offers::say(int rank, const wire::claim& body) noexcept {
  say_as(rank, wire::kind::claim, body);
}

// The oldest offer for such a message, which leaves its shelf. One that is too small stays for the
// request to find, which makes it the error that it is.
std::optional<wire::offer> peer_offers::take(const outgoing& out) noexcept {
  const std::lock_guard lock(lock_);
  shelf* const found = find_locked(out.rank);
  if (found == nullptr) return {};
  shelf& of = *found;
  std::size_t oldest = offers::OPEN;
  for (std::size_t i = 0; i < offers::OPEN; ++i) {
    if (of.order[i] == 0 || of.at[i].rcomp != out.rcomp || of.at[i].tag != out.tag) continue;
    if (oldest == offers::OPEN || of.order[i] < of.order[oldest]) oldest = i;
  }
  if (oldest == offers::OPEN || of.at[oldest].room < out.size) return {};
  of.order[oldest] = 0;
  count_.fetch_sub(1, std::memory_order_relaxed);
  return of.at[oldest];
}

// ---- a claim ----

static bool tell_claimed(transfer& move) noexcept {
  return is_told_by_gpu(move) || move.via->engine.control.accept_control(
                                     move.op.rank, wire::kind::offer_end,
                                     wire::offer_end{move.peer_state, move.total, 1, 0});
}

static void tell_not_claimed(transfer& move) noexcept {
  move.via->engine.say(move.op.rank, wire::kind::offer_end,
                       wire::offer_end{move.peer_state, move.total, 0, 0});
}

constexpr protocol CLAIM = {"claim", &tell_claimed, &tell_not_claimed, true};

// The copy into the receive, if that is ours now.
peer_offers::answer peer_offers::make(const outgoing& out, const wire::offer& offer,
                                      transfer*& made) {
  flag_word* const word = find_word(via_.engine.fabric, out.rank, offer.word);
  const net::remote_key key{offer.region.slot, offer.region.generation};
  const net::remote_view view = via_.engine.fabric.check_remote(out.rank, key);
  if (word == nullptr) return answer::unreachable;
  if (view.what != net::remote_view::answer::ok || offer.offset > view.size ||
      out.size > view.size - offer.offset)
    return answer::gone;
  transfer* const move = make_transfer(out, transfer::verb::put, CLAIM);
  move->packet = out.packet;
  move->op.remote = key;
  move->remote_base = offer.offset;
  move->peer_state = offer.receiver;
  bool is_made = false;
  try {
    std::string why_not;
    is_made = make_direct(via_, *move, view, CLAIM, why_not);
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  if (!is_made) {
    undo_transfer(move);
    return answer::unreachable;
  }
  std::uint64_t value = wire::offer_value(offer.receiver, wire::OFFER_OPEN);
  // Relaxed: only who has it is asked; partner is offers::take_back_locked().
  if (!word->compare_exchange_strong(value, wire::offer_value(offer.receiver, wire::OFFER_CLAIMED),
                                     std::memory_order_relaxed)) {
    undo_transfer(move);
    return answer::gone;
  }
  static_cast<direct_copy*>(move->carrier)->claims = this;
  made = move;
  return answer::ours;
}

std::optional<errorcode_t> peer_offers::claim(outgoing& out) {
  if (count_.load(std::memory_order_relaxed) == 0 || !is_clear(out.via, out.rank)) return {};
  while (const std::optional<wire::offer> offer = take(out)) {
    transfer* move = nullptr;
    const answer is = make(out, *offer, move);
    if (is == answer::unreachable) return {};  // the request finds the receive
    if (is == answer::gone) continue;
    move->begun = true;
    return out.via.advance(*move);
  }
  return {};
}

}  // namespace lci::proto::gpu
