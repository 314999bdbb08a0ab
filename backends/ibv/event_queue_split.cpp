// The part of an event queue that deals with operations in pieces over several cards.
#include <utility>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/event_queue.hpp"
#include "backends/ibv/work.hpp"

namespace lci::ibv {
namespace {

constexpr char SIDE_LOST[] = "the completion queue of one of several cards cannot be polled";

}  // namespace

void event_queue::serve_splits(net::sink& to) noexcept {
  split* all = take_waiting();
  while (all != nullptr) {
    split& s = *std::exchange(all, all->next);
    if (s.done == s.count)
      conclude(to, s);
    else
      go_on(to, s);
  }
}

// Posts what is left. Once one part has failed the rest is of no use.
void event_queue::go_on(net::sink& to, split& s) noexcept {
  while (s.posted < s.count) {
    const bool is_last = s.posted + 1 == s.count;
    connection& by = *s.parts[s.posted].on;
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

void event_queue::part_done(net::sink& to, split& s, const char* error) noexcept {
  if (s.error == nullptr) s.error = error;
  if (++s.done == s.count) conclude(to, s);
}

// All parts have ended. The target hears of it behind them.
void event_queue::conclude(net::sink& to, split& s) noexcept {
  if (!s.has_imm || s.error != nullptr) return finish_split(to, s, s.error);
  work one(IBV_WR_RDMA_WRITE_WITH_IMM, 0, s.imm);
  one.aim(s.remote, s.rkey);
  const errorcode_t code = s.main->post(one.wr, {.context = &s, .what = purpose::news});
  if (code == errorcode_t::fatal) return finish_split(to, s, "the connection has failed");
  if (code != errorcode_t::done) await_room(s);
}

void event_queue::finish_split(net::sink& to, split& s, const char* error) noexcept {
  connection& main = *s.main;
  void* const context = s.context;
  if (s.key != 0) memory_.remove(s.key);
  splits_.put(s);
  if (error == nullptr)
    to.on_complete(context);
  else
    to.on_error(main.rank, context, error);
  // Last: who sees that nothing is open may take all of this down.
  main.end_split();
}

// One event at a time, since a sink may poll again: the next one would be taken for all before it.
void event_queue::poll_sides(net::sink& to, bool is_dry) noexcept {
  for (const auto& one : sides()) {
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
void event_queue::side_event(net::sink& to, const side& from, const ibv_wc& what) noexcept {
  connection* const on = from.by_qpn(what.qp_num);
  if (on == nullptr || is_receive(what.wr_id)) return;
  on->hear(now_);
  const bool is_good = what.status == IBV_WC_SUCCESS;
  connection* const main = find(on->rank);
  if (!is_good && main != nullptr) fail(to, *main, meaning_of(what.status));
  finish_done(to, *on, number_of(what.wr_id), is_good ? nullptr : meaning_of(what.status).data());
}

// Nobody will hear of anything that was posted on that card.
LCI_COLD void event_queue::lose_side(net::sink& to, const side& lost, const char* reason) noexcept {
  fail_all(to, reason);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    connection* const on = lost.find(static_cast<int>(rank));
    if (on != nullptr) lose(to, *on, reason);
  }
}

}  // namespace lci::ibv
