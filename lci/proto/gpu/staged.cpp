// What both sides share, and the receiver. The sender is in staged_send.cpp.
#include "lci/proto/gpu/staged.hpp"

#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/staged_steps.hpp"
#include "lci/proto/host/arrival.hpp"

namespace lci::proto::gpu {

std::size_t staged_transfers::side::bytes_of(std::uint64_t index) const noexcept {
  return std::min<std::size_t>(through.bytes, size - index * through.bytes);
}

// False: the numbers make no sense, which may be a peer's doing.
bool staged_transfers::side::begin(std::size_t total, wire::slots cut) noexcept {
  if (total == 0 || cut.bytes == 0 || cut.count == 0 || cut.count > MAX_SLOTS) return false;
  size = total;
  through = cut;
  pieces = (total - 1) / cut.bytes + 1;
  for (std::size_t i = 0; i < MAX_SLOTS; ++i) slot[i].index = i;
  return true;
}

void staged_transfers::complain(int rank, std::string_view error) noexcept {
  if (ctx_.engine.watch.has_ended(rank)) return;  // said once, by the engine
  ctx_.engine.errors.keep_made([&] {
    return std::runtime_error("a transfer through host memory with rank " + std::to_string(rank) +
                              " failed: " + std::string(error));
  });
}

// ---- receiver ----

static void end_put(host_context& host, const recv_plan& plan, bool ok) {
  if (ok && plan.imm != 0) notify(host, plan.rank, plan.imm);
}

static void end_get(host_context& host, const recv_plan& plan, bool ok) {
  host.engine.open.add(-1);
  host.engine.signals.tell(plan.user, ok);
}

constexpr receiver PUT_RECEIVER = {&end_put};
constexpr receiver GET_RECEIVER = {&end_get};

LCI_COLD void staged_transfers::on_put_request(int rank, const wire::put_request& request) {
  const auto to = ctx_.engine.shared.find_range(request.region, request.offset, request.size);
  if (to.at == nullptr || request.size == 0)
    return ctx_.engine.say(rank, wire::kind::drop_send, wire::drop{request.sender, 0, 0});
  recv_plan plan;
  plan.rank = rank;
  plan.what = &PUT_RECEIVER;
  plan.user.status.buffer = to.at;
  plan.user.status.size = request.size;
  plan.kind = to.kind;
  plan.gpu = to.gpu;
  plan.imm = request.imm;
  receive(request.sender, plan);
}

void staged_transfers::receive(wire::name sender, const recv_plan& plan) {
  const auto [name, s] = recvs_.insert();
  {
    const std::lock_guard lock(lock_);
    s->plan = plan;
    s->sender = sender;
    s->rank = plan.rank;
    s->size = plan.user.status.size;
    s->busy = 1;  // us
  }
  start(name, *s);
}

// The caller holds the state by its `busy`, which is given up here.
void staged_transfers::start(wire::name name, recv_side& s) noexcept {
  const int rank = s.rank;
  const bool is_get = s.is_get;
  const wire::name sender = s.sender;
  const bool has_slots = lend_slots(name, s);
  staged_action then{};
  bool is_over = false;
  {
    const std::lock_guard lock(lock_);
    then = let_go_locked(s);
    is_over = has_ended(s.state);
  }
  end(name, s, then);
  if (is_over) return;
  if (!has_slots && !wait_for_slots(waiting_recvs_, name)) {
    complain(rank, NO_MEMORY);
    if (!is_get) ctx_.engine.say(rank, wire::kind::drop_send, wire::drop{sender, 0, 0});
    fail(recvs_, name, rank);
    return;
  }
  if (ctx_.engine.watch.end_of(rank) >= peer_end::all_here) end_without_sender(name, rank);
}

errorcode_t staged_transfers::get(const recv_plan& plan, const wire::get_request& body) {
  const auto [name, s] = recvs_.insert();
  {
    const std::lock_guard lock(lock_);
    s->plan = plan;
    s->is_get = true;
    s->size = plan.user.status.size;
    s->body = body;
    s->body.receiver = name;
    s->rank = plan.rank;
    s->busy = 1;  // us
  }
  ctx_.engine.open.add(1);
  start(name, *s);
  return errorcode_t::posted;
}

// Gets slots for the message and tells the sender. False: there are none now. The caller holds the
// state by its `busy`.
bool staged_transfers::lend_slots(wire::name self, recv_side& s) noexcept {
  bool never = false;
  slot_set* const set = ctx_.common.staging.take_to_lend(s.size, never);
  if (set == nullptr && !never) return false;
  if (set == nullptr) {
    complain(s.rank, "there is no memory for a staging buffer");
    if (!s.is_get) ctx_.engine.say(s.rank, wire::kind::drop_send, wire::drop{s.sender, 0, 0});
    fail(recvs_, self, s.rank);
    return true;
  }
  wire::rtr answer;
  wire::get_request request;
  int rank = -1;
  bool is_get = false;
  bool is_lent = false;
  {
    const std::lock_guard lock(lock_);
    is_lent = move_locked(s, staged_recv_event::lend) == staged_action::begin;
    if (is_lent) {
      s.set = set;
      s.begin(s.size, staging_store::cut(*set, s.size));
      for (slot_copy& one : s.slot) {
        one.home = this;
        one.owner = self;
        one.is_lent = s.number_of(one) < std::min<std::uint64_t>(s.pieces, s.through.count);
      }
      rank = s.rank;
      is_get = s.is_get;
      const wire::name region{set->region.slot, set->region.generation};
      answer = {s.sender, self, region, set->place, s.through, target_of(ctx_.host, rank, region)};
      s.body.slots_region = region;
      s.body.slots_place = set->place;
      s.body.through = s.through;
      s.body.at = answer.at;
      request = s.body;
    }
  }
  if (!is_lent) {
    ctx_.common.staging.give(set);
    return true;
  }
  // From here on the state belongs to the code that receives from the peer.
  if (is_get)
    ctx_.engine.say(rank, wire::kind::get_request, request);
  else
    ctx_.engine.control.send_control(rank, wire::kind::rtr, answer);
  return true;
}

// False: there is no memory.
bool staged_transfers::wait_for_slots(std::list<wire::name>& waiting, wire::name name) noexcept {
  const std::lock_guard lock(lock_);
  try {
    waiting.push_back(name);
  } catch (const std::bad_alloc&) {
    return false;
  }
  ctx_.expect_leftovers(1);
  return true;
}

// Each side by itself: a sender never waits behind a receiver, whose slots may come from a peer
// that waits for this very sender.
std::size_t staged_transfers::serve_waiting() noexcept {
  const auto send = [this](wire::name name, send_side& s) {
    bool never = false;
    const bool got = take_slots(s, never);
    if (got && !never) begin_send(name, s);
    return got;
  };
  const auto receive = [this](wire::name name, recv_side& s) { return lend_slots(name, s); };
  std::size_t served = 0;
  while (serve(waiting_sends_, sends_, send)) ++served;
  while (serve(waiting_recvs_, recvs_, receive)) ++served;
  return served;
}

// It has ended, and is this thread's alone.
void staged_transfers::over(wire::name name, recv_side& s, bool ok) noexcept {
  const recv_plan plan = s.plan;
  const wire::name peer = s.peer;
  slot_set* const set = s.set;
  {
    const std::lock_guard lock(lock_);
    recvs_.erase(name);
  }
  if (set != nullptr) ctx_.common.staging.give(set);
  if (ok && plan.began != 0)
    ctx_.common.shared_gpu.note(plan.rank, plan.user.status.size, true, shared_gpu_ways::BY_HOST,
                                plan.began);
  if (ok && plan.what == &PUT_RECEIVER)
    ctx_.engine.say(plan.rank, wire::kind::ack, wire::ack{peer});
  end_receive(ctx_.host, plan, ok);
}

void staged_transfers::emptied(wire::name name, std::uint64_t index,
                               std::string_view error) noexcept {
  recv_side* s = nullptr;
  wire::credit news;
  int rank = -1;
  bool goes_on = false;
  bool is_news = false;
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    s = recvs_.find(name);
    slot_copy& slot = s->slot[index % s->through.count];
    is_news = copied_locked(*s, slot, error);
    goes_on = s->state == staged_recv_state::emptying && slot.index < s->pieces;
    slot.is_lent = goes_on;
    rank = s->rank;
    news = {s->peer, index};
    then = settle_locked(*s);
  }
  if (goes_on) ctx_.engine.say(rank, wire::kind::credit, news);
  if (is_news) {
    complain(rank, error);
    ctx_.engine.say(rank, wire::kind::drop_send, wire::drop{news.sender, 1, 0});
  }
  end(name, *s, then);
}

// ---- from peers ----

void staged_transfers::on_piece(int rank, const wire::piece& body) noexcept {
  recv_side* s = nullptr;
  slot_copy* slot = nullptr;
  staged_action what = staged_action::drop;
  staged_action then{};
  {
    const std::lock_guard lock(lock_);
    s = find_locked(recvs_, body.receiver, rank);
    if (s != nullptr && s->set != nullptr && body.index < s->pieces)
      slot = &s->slot[body.index % s->through.count];
    if (slot != nullptr && slot->is_lent && slot->index == body.index)
      what = move_locked(*s, staged_recv_event::piece);
    if (what == staged_action::drop) {
      ctx_.engine.dropped.add(1);
      return;
    }
    slot->is_lent = false;
    if (what == staged_action::copy) {
      slot->is_busy = true;
      ++s->busy;
      s->peer = body.sender;
    } else {
      then = settle_locked(*s);
    }
  }
  if (what != staged_action::copy) return end(body.receiver, *s, then);
  std::byte* const from = s->set->at + s->number_of(*slot) * s->through.bytes;
  std::byte* const to =
      static_cast<std::byte*>(s->plan.user.status.buffer) + body.index * s->through.bytes;
  const std::size_t bytes = s->bytes_of(body.index);
  if (s->plan.kind != mem::mem_kind::device) {
    std::memcpy(to, from, bytes);
    return emptied(body.receiver, body.index, {});
  }
  slot->from = from;
  slot->to = to;
  slot->size = bytes;
  slot->device = s->plan.gpu;
  slot->way = mem::copy_way::to_device;
  ctx_.copy(*slot);
}

void staged_transfers::on_drop_receive(int rank, wire::name receiver) noexcept {
  if (fail(recvs_, receiver, rank)) complain(rank, "the sender has given up");
}

// ---- of ranks that have ended ----

bool staged_transfers::recv_side::needs_sender() const noexcept {
  return set == nullptr || std::any_of(slot.begin(), slot.end(), [&](const slot_copy& one) {
           return one.is_lent || (one.is_busy && one.index + through.count < pieces);
         });
}

// No piece comes any more. Where all have come only our own copies are waited for.
void staged_transfers::end_without_sender(wire::name name, int rank) noexcept {
  {
    const std::lock_guard lock(lock_);
    const recv_side* const s = find_locked(recvs_, name, rank);
    if (s == nullptr || !s->needs_sender()) return;
  }
  fail(recvs_, name, rank);
}

bool staged_transfers::send_side::ends_at(peer_end how) const noexcept {
  using in = staged_send_state;
  // The ack may be what is still to be read.
  if (state == in::filling_put || state == in::filled) return how >= peer_end::all_here;
  if (!plan.is_put || state != in::filling) return true;
  // It was acknowledged: only the ends of our own copies are waited for.
  const auto copied =
      std::count_if(slot.begin(), slot.end(), [](const slot_copy& one) { return one.is_busy; });
  return done + static_cast<std::uint64_t>(copied) < pieces;
}

void staged_transfers::end_without_receiver(wire::name name, int rank, peer_end how) noexcept {
  {
    const std::lock_guard lock(lock_);
    const send_side* const s = find_locked(sends_, name, rank);
    if (s == nullptr || !s->ends_at(how)) return;
  }
  fail(sends_, name, rank);
}

void staged_transfers::end_sends_to(int rank, peer_end how) noexcept {
  for (std::uint32_t i = 0, n = sends_.slots(); i < n; ++i)
    end_without_receiver(sends_.name_at(i), rank, how);
}

void staged_transfers::end_receives_from(int rank) noexcept {
  for (std::uint32_t i = 0, n = recvs_.slots(); i < n; ++i)
    end_without_sender(recvs_.name_at(i), rank);
}

}  // namespace lci::proto::gpu
