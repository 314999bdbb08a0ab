#include "experimental/ibv/multi_rail/side_queues.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "backends/ibv/errors.hpp"
#include "backends/ibv/queue_pair.hpp"
#include "backends/ibv/work.hpp"
#include "experimental/ibv/multi_rail/near_cards.hpp"

namespace lci::ibv {
namespace {

constexpr int BATCH = 32;
constexpr char SIDE_LOST[] = "the completion queue of one of several cards cannot be polled";

}  // namespace

std::unique_ptr<rail_queues> make_rail_queues(event_queue& of) {
  return of.behind().rails().empty() ? nullptr : std::make_unique<side_queues>(of);
}

side_queues::side_queues(event_queue& of)
    : main_(of),
      cards_(of.behind()),
      memory_(of.memory()),
      ranks_(static_cast<std::size_t>(cards_.config().book->size())),
      least_(least_to_cut()) {
  const auto depth = static_cast<std::uint32_t>(of.config().max_sends);
  for (const rail& one : cards_.rails())
    sides_.push_back(std::make_unique<side>(one, depth, ranks_));
}

side_queues::~side_queues() {
  splits_.for_each_left([&](split& one) { memory_.remove(one.key); });
}

template <class Use>
void side_queues::for_each_to(int rank, Use&& use) const {
  for (std::size_t i = 0; i < sides_.size(); ++i)
    if (connection* const on = sides_[i]->find(rank); on != nullptr) use(*on, i);
}

// ---- connecting ----

void side_queues::make_connection(int rank) {
  for (const auto& one : sides_) one->make_connection(rank);
}

void side_queues::describe(int rank, hello& out) const {
  for_each_to(rank, [&](const connection& on, std::size_t i) {
    out.others[out.rails++] = {on.qp->qp_num, place_of(sides_[i]->on().card)};
  });
  // Each serves as many.
  for (const auto& one : sides_)
    out.reads =
        static_cast<std::uint8_t>(std::min<int>(out.reads, one->on().card.limits.max_qp_rd_atom));
}

void side_queues::accept(connection& on, const hello& said) {
  for_each_to(on.rank, [&](connection& beside, std::size_t i) {
    if (i >= said.rails || said.others[i].qpn == 0) return;
    if (beside.peer_qpn == 0)
      connect_queue_pair(beside, {sides_[i]->on().card, said.others[i].where, said.others[i].qpn},
                         said, on.psn, cards_.tries());
    beside.move(connection::stage::ready);
    on.rails |= 2u << i;
  });
}

// ---- posts ----

// Over which cards: those that both ends have registered it with, and of them not the first if our
// end is memory of a GPU that others are nearer to. What is in order at once keeps its place among
// what comes behind it, and what is fenced, or comes behind such a put, its place behind others:
// all of these go whole.
pieces side_queues::cut_for(const rail_op& one, regions::by_card& local) const noexcept {
  const net::net_op& op = one.op;
  const bool is_in_order = op.in_order || op.context == nullptr;
  if (op.size < least_ || is_in_order || op.fence || one.on.has_open_puts()) return {};
  const std::uint64_t key = one.registered != 0 ? one.registered : op.local_key;
  local = memory_.find_on_all(op.buffer, op.size, key);
  unsigned usable = 0;
  for (std::size_t i = 0; i < MAX_RAILS; ++i)
    if ((one.on.rails >> i & 1u) != 0 && key_in(one.at, i) != 0 && local[i] != nullptr)
      usable |= 1u << i;
  const near_cards::set without_first = usable & ~1u;
  const bool is_far = key != 0 && reinterpret_cast<const registration*>(key)->is_far_from_first;
  if (is_far && without_first != 0) usable = without_first;
  return cut(op.size, usable);
}

bool side_queues::post(const rail_op& one, errorcode_t& answer) noexcept {
  const net::net_op& op = one.op;
  regions::by_card local{};
  const pieces parts = cut_for(one, local);
  if (parts.count == 0) return false;
  split s;
  s.main = &one.on;
  s.context = op.context;
  s.key = one.registered;
  s.is_read = one.what == IBV_WR_RDMA_READ;
  s.has_imm = one.what == IBV_WR_RDMA_WRITE_WITH_IMM;
  s.imm = op.imm;
  s.remote = one.at.address + op.remote_offset;
  s.rkey = key_in(one.at, 0);
  for (const piece& part : parts) {
    connection* const by = part.rail == 0 ? &one.on : sides_[part.rail - 1]->find(op.rank);
    s.parts[s.count++] = {by,
                          static_cast<const std::byte*>(op.buffer) + part.at,
                          part.size,
                          s.remote + part.at,
                          local[part.rail]->lkey,
                          key_in(one.at, part.rail)};
  }
  answer = start(s);
  return true;
}

errorcode_t side_queues::post_part(split& s) noexcept {
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

// Of the parts the first may be refused: then it is as if nothing had happened. The answer is done,
// and the sink hears of the end.
errorcode_t side_queues::start(const split& what) noexcept {
  split* const s = splits_.take();
  if (s == nullptr) return errorcode_t::retry_nomem;
  *s = what;
  connection& main = *s->main;
  const std::size_t count = s->count;
  main.begin_split();
  for (std::size_t i = 0; i < count; ++i) {
    const errorcode_t code = post_part(*s);
    if (code == errorcode_t::done) continue;
    // What a card beside the first refuses for good, only polls look at.
    const connection& by = *s->parts[i].on;
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

void side_queues::await_room(split& s) noexcept {
  {
    const std::lock_guard lock(waiting_lock_);
    s.next = std::exchange(waiting_, &s);
  }
  main_.serve_rails_soon();
}

split* side_queues::take_waiting() noexcept {
  const std::lock_guard lock(waiting_lock_);
  return std::exchange(waiting_, nullptr);
}

// ---- the polling thread ----

void side_queues::serve(net::sink& to) noexcept {
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
void side_queues::go_on(net::sink& to, split& s) noexcept {
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
    if (by.refused() != 0) main_.fail(to, *s.main, "a card refuses to send on this connection");
    ++s.posted;
    part_done(to, s, "the connection has failed");
    if (is_last) return;
  }
}

void side_queues::part_done(net::sink& to, split& s, const char* error) noexcept {
  if (s.error == nullptr) s.error = error;
  if (++s.done == s.count) conclude(to, s);
}

// All parts have ended. The target hears of it behind them.
void side_queues::conclude(net::sink& to, split& s) noexcept {
  if (!s.has_imm || s.error != nullptr) return finish_split(to, s, s.error);
  work one(IBV_WR_RDMA_WRITE_WITH_IMM, 0, s.imm);
  one.aim(s.remote, s.rkey);
  const errorcode_t code = s.main->post(one.wr, {.context = &s, .what = purpose::news});
  if (code == errorcode_t::fatal) return finish_split(to, s, "the connection has failed");
  if (code != errorcode_t::done) await_room(s);
}

void side_queues::finish_split(net::sink& to, split& s, const char* error) noexcept {
  connection& main = *s.main;
  void* const context = s.context;
  if (s.key != 0) memory_.remove(s.key);
  splits_.put(s);
  if (context != nullptr) {
    if (error == nullptr)
      to.on_complete(context);
    else
      to.on_error(main.rank, context, error);
  }
  // Last: who sees that nothing is open may take all of this down.
  main.end_split();
}

void side_queues::finish(net::sink& to, const send_record& record, const char* error) noexcept {
  split& s = *static_cast<split*>(record.context);
  if (record.what == purpose::part)
    part_done(to, s, error);
  else
    finish_split(to, s, error);
}

// One event at a time, since a sink may poll again: the next one would be taken for all before it.
void side_queues::poll(net::sink& to, bool is_first_dry) noexcept {
  for (const auto& one : sides_) {
    for (int i = 0; i < BATCH; ++i) {
      ibv_wc what;
      const int n = one->next(what, is_first_dry);
      if (n < 0) lose_side(to, *one, SIDE_LOST);
      if (n <= 0) break;
      side_event(to, *one, what);
    }
  }
}

void side_queues::side_event(net::sink& to, const side& from, const ibv_wc& what) noexcept {
  connection* const on = from.by_qpn(what.qp_num);
  if (on == nullptr || is_receive(what.wr_id)) return;
  on->hear(base::cpu_ticks());
  const bool is_good = what.status == IBV_WC_SUCCESS;
  connection* const main = main_.find(on->rank);
  if (!is_good && main != nullptr) main_.fail(to, *main, meaning_of(what.status));
  main_.finish_done(to, *on, number_of(what.wr_id),
                    is_good ? nullptr : meaning_of(what.status).data());
}

// Nobody will hear of anything that was posted on that card.
LCI_COLD void side_queues::lose_side(net::sink& to, const side& lost, const char* reason) noexcept {
  main_.fail_all(to, reason);
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    connection* const on = lost.find(static_cast<int>(rank));
    if (on != nullptr) main_.lose(to, *on, reason);
  }
}

// ---- the end of the connection on the first card, or of a card ----

void side_queues::stop(const connection& on) noexcept {
  for_each_to(on.rank, [&](connection& beside, std::size_t) {
    beside.move(on.state());
    stop_queue_pair(beside);
  });
}

void side_queues::drop_posted(net::sink& to, const connection& on, const char* reason) noexcept {
  for_each_to(on.rank, [&](connection& beside, std::size_t) {
    if (!beside.is_stopped) main_.lose(to, beside, reason);
  });
}

void side_queues::lose_all(net::sink& to, const char* reason) noexcept {
  for (const auto& one : sides_) lose_side(to, *one, reason);
}

bool side_queues::is_beyond_hope(int rank, std::uint64_t now) noexcept {
  bool out = false;
  for_each_to(rank, [&](connection& beside, std::size_t i) {
    // Nobody is asked there: since when it is seen to be busy, and nothing was done.
    if (beside.is_idle())
      beside.hear(0);
    else if (beside.heard_ticks() == 0)
      beside.hear(now);
    else if (!out)
      out = cards_.is_beyond_hope(i + 1, beside.heard_ticks(), now);
  });
  return out;
}

}  // namespace lci::ibv
