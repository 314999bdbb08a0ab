// The part of a port that deals with operations in pieces over several cards.
#include <mutex>
#include <utility>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/fabric.hpp"
#include "backends/ibv/port.hpp"
#include "backends/ibv/work.hpp"

namespace lci::ibv {
namespace {

constexpr char SIDE_LOST[] = "the completion queue of one of several cards cannot be polled";

}  // namespace

split* splits::take() noexcept {
  const std::lock_guard lock(lock_);
  try {
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);
      free_.push_back(&all_.emplace_back());
    }
  } catch (...) {
    return nullptr;
  }
  split* const out = free_.back();
  free_.pop_back();
  return out;
}

void splits::put(split& used) noexcept {
  used = {};
  const std::lock_guard lock(lock_);
  free_.push_back(&used);  // there is room for all of them
}

errorcode_t port::post_part(split& s) noexcept {
  const split::part& p = s.parts[s.posted];
  work one(s.is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE);
  one.add(p.local, p.size, p.lkey);
  one.aim(p.remote, p.rkey);
  // Before the post: once the last part is posted, `s` is the polling thread's.
  ++s.posted;
  const errorcode_t code = p.on->post(one.wr, {.context = &s, .what = purpose::part});
  if (code != errorcode_t::done) --s.posted;
  return code;
}

errorcode_t port::start(const split& what) noexcept {
  split* const s = splits_.take();
  if (s == nullptr) return errorcode_t::retry_nomem;
  *s = what;
  link& main = *s->main;
  const std::size_t count = s->count;
  main.begin_split();
  for (std::size_t i = 0; i < count; ++i) {
    const errorcode_t code = post_part(*s);
    if (code == errorcode_t::done) continue;
    // What a card beside the first refuses for good, only polls look at.
    const link& by = *s->parts[i].on;
    if (i != 0 || (&by != &main && by.refused() != 0)) {
      await_room(*s);
      break;
    }
    main.end_split();
    splits_.put(*s);
    return code;
  }
  return errorcode_t::done;
}

void port::await_room(split& s) noexcept {
  {
    const std::lock_guard lock(waiting_lock_);
    s.next = std::exchange(waiting_, &s);
  }
  pending_errors_.raise();
}

void port::serve_splits(net::sink& to) noexcept {
  split* all;
  {
    const std::lock_guard lock(waiting_lock_);
    all = std::exchange(waiting_, nullptr);
  }
  while (all != nullptr) {
    split& s = *std::exchange(all, all->next);
    if (s.done == s.count)
      conclude(to, s);
    else
      go_on(to, s);
  }
}

// Posts what is left. Once one part has failed the rest is of no use.
void port::go_on(net::sink& to, split& s) noexcept {
  while (s.posted < s.count) {
    const bool is_last = s.posted + 1 == s.count;
    link& by = *s.parts[s.posted].on;
    const errorcode_t code = s.error == nullptr ? post_part(s) : errorcode_t::fatal;
    if (code == errorcode_t::done) {
      by.forgive();
      if (is_last) return;
      continue;
    }
    // Tried twice: by the poster, and here.
    if (code != errorcode_t::fatal && by.refused() == 0) return await_room(s);
    if (by.refused() != 0) fail(to, *s.main, "a card refuses to send on this connection");
    ++s.posted;
    part_done(to, s, "the connection has failed");
    if (is_last) return;
  }
}

void port::part_done(net::sink& to, split& s, const char* error) noexcept {
  if (s.error == nullptr) s.error = error;
  if (++s.done == s.count) conclude(to, s);
}

// All parts have ended. The target hears of it behind them.
void port::conclude(net::sink& to, split& s) noexcept {
  if (!s.has_imm || s.error != nullptr) return finish_split(to, s, s.error);
  work one(IBV_WR_RDMA_WRITE_WITH_IMM, 0, s.imm);
  one.aim(s.remote, s.rkey);
  const errorcode_t code = s.main->post(one.wr, {.context = &s, .what = purpose::news});
  if (code == errorcode_t::fatal) return finish_split(to, s, "the connection has failed");
  if (code != errorcode_t::done) await_room(s);
}

void port::finish_split(net::sink& to, split& s, const char* error) noexcept {
  link& main = *s.main;
  void* const context = s.context;
  if (s.key != 0) fabric_.memory().remove(s.key);
  splits_.put(s);
  if (error == nullptr)
    to.on_complete(context);
  else
    to.on_error(main.rank, context, error);
  // Last: who sees that nothing is open may take all of this down.
  main.end_split();
}

// One event at a time, since a sink may poll again: the next one would be taken for all before it.
void port::poll_sides(net::sink& to, bool is_dry) noexcept {
  for (const auto& one : sides_) {
    for (int i = 0; i < BATCH; ++i) {
      ibv_wc what;
      const int n = one->next(what, is_dry);
      if (n < 0) lose_side(to, *one, SIDE_LOST);
      if (n <= 0) break;
      side_event(to, *one, what);
    }
  }
}

// What fails on one card is the end of the whole connection.
void port::side_event(net::sink& to, const side& from, const ibv_wc& what) noexcept {
  link* const on = from.by_qpn(what.qp_num);
  if (on == nullptr || is_receive(what.wr_id)) return;
  on->heard_ticks = now_;
  const bool is_good = what.status == IBV_WC_SUCCESS;
  link* const main = find(on->rank);
  if (!is_good && main != nullptr) fail(to, *main, meaning_of(what.status));
  finish_done(to, *on, number_of(what.wr_id), is_good ? nullptr : meaning_of(what.status).data());
}

// Nobody will hear of anything that was posted on that card.
LCI_COLD void port::lose_side(net::sink& to, const side& lost, const char* reason) noexcept {
  fail_all(to, reason);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    link* const on = lost.find(static_cast<int>(rank));
    if (on != nullptr) lose(to, *on, reason);
  }
}

}  // namespace lci::ibv
