// The sender of a staged transfer, and the target of a get.
#include "lci/proto/gpu/staged.hpp"

#include <cstring>
#include <mutex>
#include <new>

#include "lci/base/log.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/staged_steps.hpp"

namespace lci::proto::gpu {

void staged_transfers::send(wire::name self, const send_plan& plan, const wire::rtr& to) {
  const auto [name, s] = sends_.insert();
  const net::remote_key key{to.region.slot, to.region.generation};
  // Where the peer has said its target, its network checks the bounds, and nothing is mapped.
  const bool is_told = to.at.key != 0;
  const net::remote_view view =
      is_told ? net::remote_view{}
              : ctx_.engine.fabric.check_remote(plan.rank, key, ctx_.engine.index);
  std::byte* const there = view.what == net::remote_view::answer::ok
                               ? ctx_.engine.fabric.reach(plan.rank, to.offset, view.size)
                               : nullptr;
  const std::uint64_t needed = std::uint64_t{to.through.bytes} * to.through.count;
  bool is_sound;
  {
    const std::lock_guard lock(lock_);
    is_sound = s->begin(plan.user.status.size, to.through) &&
               needed <= (is_told ? staging_store::MOST : view.size);
    s->plan = plan;
    s->self = self;
    s->receiver = to.receiver;
    s->key = key;
    s->at = read_target(to.at);
    s->there = there;
    for (slot_copy& one : s->slot) {
      one.home = this;
      one.owner = name;
      one.is_send = true;
    }
    s->rank = plan.rank;
    s->busy = 1;  // us
  }
  bool has_slots = true;
  bool never = false;
  if (is_sound) {
    const bool from_gpu = plan.kind == mem::mem_kind::device;
    if (there != nullptr) {
      if (from_gpu) ctx_.common.staging.pin_view(there, view.size);
    } else if (from_gpu || plan.off_network) {
      has_slots = take_slots(*s, never);
    }
    if (has_slots && !never) begin_send(name, *s);
  }
  staged_action then{};
  bool is_over = false;
  {
    const std::lock_guard lock(lock_);
    if (!is_sound) (void)move_locked(*s, staged_send_event::fail);
    then = let_go_locked(*s);
    is_over = has_ended(s->state);
  }
  // Without a connection the peer has ended, which the engine says.
  if (!is_sound && (is_told || view.what != net::remote_view::answer::not_connected))
    complain(plan.rank, "the peer's slots are invalid, or were freed");
  end(name, *s, then);
  if (is_over) return;
  if (!has_slots && !wait_for_slots(waiting_sends_, name)) {
    complain(plan.rank, NO_MEMORY);
    fail(sends_, name, plan.rank);
    return;
  }
  if (ctx_.engine.watch.has_ended(plan.rank))
    end_without_receiver(name, plan.rank, ctx_.engine.watch.end_of(plan.rank));
}

// Slots of our own, for data that neither a GPU nor the network brings to those of the receiver
// from where it is. False: later. never: the send has failed.
bool staged_transfers::take_slots(send_side& s, bool& never) noexcept {
  const std::size_t wanted = std::size_t{s.through.bytes} * s.through.count;
  slot_set* set = ctx_.common.staging.take(wanted, never);
  if (set != nullptr && set->bytes < wanted) {
    ctx_.common.staging.give(set);
    set = nullptr;
    never = true;
  }
  if (never) {
    complain(s.rank, "there is no memory for a staging buffer");
    const std::lock_guard lock(lock_);
    (void)move_locked(s, staged_send_event::fail);
    return true;
  }
  s.set = set;
  return set != nullptr;
}

// The caller holds the state by its `busy`.
void staged_transfers::begin_send(wire::name name, send_side& s) noexcept {
  const std::size_t first = std::min<std::uint64_t>(s.pieces, s.through.count);
  {
    const std::lock_guard lock(lock_);
    using event = staged_send_event;
    if (move_locked(s, s.plan.is_put ? event::begin_put : event::begin) != staged_action::begin)
      return;
    for (std::size_t i = 0; i < first; ++i) s.slot[i].is_busy = true;
    s.busy += static_cast<unsigned>(first);
  }
  for (std::size_t i = 0; i < first; ++i) fill(name, s, s.slot[i]);
}

// The slot is busy, so the state stays until filled().
void staged_transfers::fill(wire::name name, send_side& s, slot_copy& slot) noexcept {
  const std::uint64_t index = slot.index;
  const std::size_t in_set = s.number_of(slot) * s.through.bytes;
  std::byte* const from = static_cast<std::byte*>(s.plan.buffer) + index * s.through.bytes;
  std::byte* to = nullptr;
  if (s.there != nullptr)
    to = s.there + in_set;
  else if (s.set != nullptr)
    to = s.set->at + in_set;
  if (s.plan.kind != mem::mem_kind::device) {
    if (to != nullptr) std::memcpy(to, from, s.bytes_of(index));
    if (s.there != nullptr) return filled(name, index, {});
    return put_piece(name, s, slot, to != nullptr ? to : from);
  }
  slot.from = from;
  slot.to = to;
  slot.size = s.bytes_of(index);
  slot.device = s.plan.gpu;
  slot.way = mem::copy_way::to_host;
  ctx_.copy(slot);
}

// The network has put a piece, or will not, which is reported elsewhere.
static bool tell_filled(transfer& move) noexcept {
  static_cast<staged_transfers*>(move.owner)->arrived(move.local_state, move.piece, true);
  return true;
}

static void tell_not_filled(transfer& move) noexcept {
  static_cast<staged_transfers*>(move.owner)->arrived(move.local_state, move.piece, false);
}

constexpr protocol PIECE = {"piece", &tell_filled, &tell_not_filled, false};

void staged_transfers::put_piece(wire::name name, send_side& s, const slot_copy& slot,
                                 std::byte* from) noexcept {
  transfer* const move = ctx_.engine.shared.transfers.try_get();
  if (move == nullptr) return filled(name, slot.index, NO_MEMORY);
  *move = transfer{};
  move->queue = &ctx_.engine.control;
  move->of = &PIECE;
  move->owner = this;
  move->op.rank = s.plan.rank;
  move->op.remote = s.key;
  move->op.at = s.at;
  move->what = transfer::verb::put;
  move->base = from;
  move->total = s.bytes_of(slot.index);
  move->remote_base = s.number_of(slot) * s.through.bytes;
  move->local_state = name;
  move->piece = slot.index;
  // Slots lie in the arena, which the network has registered.
  if (s.set == nullptr) move->op.local_key = s.plan.local_key;
  ctx_.engine.control.start(*move);
}

void staged_transfers::slot_copy::ended(std::string_view error) noexcept {
  if (!is_send) return home->emptied(owner, index, error);
  send_side* const s = home->sends_.find(owner);
  if (s->is_landing) return home->landed(owner, error);
  if (error.empty() && s->there == nullptr) return home->put_piece(owner, *s, *this, to);
  home->filled(owner, index, error);
}

void staged_transfers::filled(wire::name name, std::uint64_t index, std::string_view error,
                              bool is_said) noexcept {
  send_side* s = nullptr;
  wire::piece news;
  int rank = -1;
  bool is_news = false;
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    s = sends_.find(name);
    if (s == nullptr) return;
    is_news = copied_locked(*s, s->slot[index % s->through.count], error);
    rank = s->rank;
    news = {s->receiver, name, index};
    then = settle_locked(*s);
  }
  if (error.empty())
    ctx_.engine.say(rank, wire::kind::piece, news);
  else if (is_news && !is_said)
    complain(rank, error);
  end(name, *s, then);
}

// It has ended, and is this thread's alone.
void staged_transfers::over(wire::name name, send_side& s, bool ok) noexcept {
  const wire::name self = s.self;
  const wire::name receiver = s.receiver;
  const int rank = s.rank;
  const bool is_landing = s.is_landing;
  const user_side user = s.plan.user;
  slot_set* const set = s.set;
  if (ok && s.plan.began != 0)
    ctx_.common.shared_gpu.note(rank, s.size, false, shared_gpu_ways::BY_HOST, s.plan.began);
  // Of the answer to a get, which goes with the state.
  const std::uint64_t local_key =
      self.generation == 0 && s.plan.registered_here ? s.plan.local_key : 0;
  {
    const std::lock_guard lock(lock_);
    sends_.erase(name);
  }
  if (set != nullptr) ctx_.common.staging.give(set);
  if (local_key != 0) ctx_.engine.fabric.deregister_region(local_key);
  // Only now: no copy of this process writes the receiver's slots any more.
  if (!ok && !is_landing)
    ctx_.engine.say(rank, wire::kind::drop_receive, wire::drop{receiver, 1, 0});
  if (self.generation != 0) on_written(ctx_.host, self, ok);
  if (!is_landing) return;
  ctx_.engine.open.add(-1);
  ctx_.engine.signals.tell(user, ok);
}

bool staged_transfers::land(const send_plan& plan, wire::landing body) {
  common& all = ctx_.common;
  bool never = false;
  slot_set* const set = all.staging.take(body.size, never);
  if (set == nullptr || !set->is_pinned || set->bytes < body.size) {
    if (set != nullptr) all.staging.give(set);
    return false;
  }
  data::slot_table<send_side>::inserted made;
  try {
    made = sends_.insert();
  } catch (...) {
    all.staging.give(set);
    throw;
  }
  const auto [name, s] = made;
  body.sender = name;
  body.place = set->place;
  flag_word* const flag =
      all.flags.take_for(plan.rank, ctx_.engine.fabric, ctx_.engine.shared.peers);
  if (flag != nullptr) body.flag = all.flags.place_of(flag);
  slot_copy& job = s->slot[0];
  {
    const std::lock_guard lock(lock_);
    s->begin(body.size, {static_cast<std::uint32_t>(set->bytes), 1});
    s->plan = plan;
    s->set = set;
    s->is_landing = true;
    s->flag = flag;
    s->body = body;
    s->busy = 1;
    (void)move_locked(*s, staged_send_event::begin_put);
    job.home = this;
    job.owner = name;
    job.is_send = job.is_busy = true;
    job.from = static_cast<const std::byte*>(plan.buffer);
    job.to = set->at;
    job.size = body.size;
    job.device = plan.gpu;
    job.way = mem::copy_way::to_host;
    s->rank = plan.rank;
  }
  ctx_.engine.open.add(1);
  // Once the job is handed over the state may end at any time.
  if (flag != nullptr && ctx_.copy_and_flag(job, flag)) {
    ctx_.engine.say(plan.rank, wire::kind::landing, body);
  } else {
    if (flag != nullptr) flag_words::give(flag);
    s->flag = nullptr;
    s->body.flag = 0;
    ctx_.copy(job);
  }
  if (ctx_.engine.watch.has_ended(plan.rank))
    end_without_receiver(name, plan.rank, ctx_.engine.watch.end_of(plan.rank));
  return true;
}

// The bytes are in our slot. The target has been told to look for the flag, or is told now.
void staged_transfers::landed(wire::name name, std::string_view error) noexcept {
  send_side* s = nullptr;
  wire::landing news;
  int rank = -1;
  bool is_flagged = false;
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    s = sends_.find(name);
    (void)copied_locked(*s, s->slot[0], error);
    rank = s->rank;
    news = s->body;
    is_flagged = s->flag != nullptr;
    // edge flag.set: partner is awaited_flags::poll() of the target.
    if (!error.empty() && is_flagged) s->flag->store(wire::FLAG_VOID, std::memory_order_release);
    then = settle_locked(*s);
  }
  if (!error.empty())
    complain(rank, error);
  else if (!is_flagged)
    ctx_.engine.say(rank, wire::kind::landing, news);
  end(name, *s, then);
}

// ---- from peers ----

// The network reads host memory where it is. What it cannot register goes through our own slots.
void staged_transfers::register_source(send_plan& plan) {
  try {
    network_key key = key_for(ctx_.host, plan.rank, plan.buffer, plan.user.status.size, plan.kind);
    plan.registered_here = key.get() != 0;
    plan.local_key = key.release();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    plan.off_network = true;
    base::log::info("proto", "%zu bytes for a get of rank %d are copied: %s", plan.user.status.size,
                    plan.rank, problem.what());
  }
}

void staged_transfers::on_get_request(int rank, const wire::get_request& body) {
  const auto from = ctx_.engine.shared.find_range(body.region, body.offset, body.size);
  if (from.at == nullptr) {
    return ctx_.engine.say(rank, wire::kind::drop_receive, wire::drop{body.receiver, 1, 0});
  }
  send_plan plan;
  plan.rank = rank;
  plan.buffer = from.at;
  plan.user.status.size = body.size;
  plan.kind = from.kind;
  plan.gpu = from.gpu;
  if (from.kind == mem::mem_kind::host) register_source(plan);
  try {
    send({}, plan, {{}, body.receiver, body.slots_region, body.slots_place, body.through, body.at});
  } catch (...) {
    if (plan.registered_here) ctx_.engine.fabric.deregister_region(plan.local_key);
    throw;
  }
}

void staged_transfers::on_credit(int rank, const wire::credit& body) noexcept {
  send_side* s = nullptr;
  slot_copy* slot = nullptr;
  {
    const std::lock_guard lock(lock_);
    s = find_locked(sends_, body.sender, rank);
    if (s != nullptr && body.index < s->pieces && s->through.count < s->pieces - body.index)
      slot = &s->slot[body.index % s->through.count];
    const bool is_due =
        slot != nullptr && !slot->is_busy && slot->index == body.index + s->through.count;
    if (!is_due || move_locked(*s, staged_send_event::credit) == staged_action::drop) {
      ctx_.engine.dropped.add(1);
      return;
    }
    slot->is_busy = true;
    ++s->busy;
  }
  fill(body.sender, *s, *slot);
}

void staged_transfers::on_ack(int rank, const wire::ack& body) noexcept {
  send_side* s = nullptr;
  staged_action what = staged_action::drop;
  {
    const std::lock_guard lock(lock_);
    s = find_locked(sends_, body.sender, rank);
    if (s != nullptr) what = move_locked(*s, staged_send_event::ack);
    if (what == staged_action::drop) {
      ctx_.engine.dropped.add(1);
      return;
    }
  }
  end(body.sender, *s, what);
}

void staged_transfers::on_drop_send(int rank, wire::name sender) noexcept {
  if (fail(sends_, sender, rank)) complain(rank, "the receiver has given up");
}

}  // namespace lci::proto::gpu
