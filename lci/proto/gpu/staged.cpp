// What both sides share, and the receiver. The sender is in staged_send.cpp.
#include "lci/proto/gpu/staged.hpp"

#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "lci/proto/gpu/common.hpp"
#include "lci/proto/host/arrival.hpp"

namespace lci::proto::gpu {

std::size_t staged_transfers::state::bytes_of(std::uint64_t index) const noexcept {
  return std::min<std::size_t>(through.bytes, size - index * through.bytes);
}

// False: the numbers make no sense, which may be a peer's doing.
bool staged_transfers::state::begin(std::size_t total, wire::slots cut) noexcept {
  if (total == 0 || cut.bytes == 0 || cut.count == 0 || cut.count > MAX_SLOTS) return false;
  size = total;
  through = cut;
  pieces = (total - 1) / cut.bytes + 1;
  for (std::size_t i = 0; i < MAX_SLOTS; ++i) slot[i].index = i;
  return true;
}

void staged_transfers::complain(int rank, std::string_view error) noexcept {
  if (via_.engine.shared.peers.has_ended(rank)) return;  // said once, by the engine
  via_.engine.errors.keep_made([&] {
    return std::runtime_error("a transfer through host memory with rank " + std::to_string(rank) +
                              " failed: " + std::string(error));
  });
}

// ---- receiver ----

static void end_put(host_context& via, const recv_plan& plan, bool ok) {
  if (ok && plan.imm != 0) notify(via, plan.rank, plan.imm);
}

static void end_get(host_context& via, const recv_plan& plan, bool ok) {
  via.engine.open.add(-1);
  via.engine.signals.tell(plan.user, ok);
}

constexpr receiver PUT_RECEIVER = {&end_put};
constexpr receiver GET_RECEIVER = {&end_get};

LCI_COLD void staged_transfers::on_put_request(int rank, const wire::put_request& request) {
  const auto to = via_.engine.shared.find_range(request.region, request.offset, request.size);
  if (to.at == nullptr || request.size == 0)
    return via_.engine.say(rank, wire::kind::drop_send, wire::drop{request.sender, 0, 0});
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
void staged_transfers::start(wire::name name, recv_state& s) noexcept {
  const int rank = s.rank;
  const bool is_get = s.is_get;
  const wire::name sender = s.sender;
  const bool has_slots = preposted(name, s);
  ended_receive over;
  {
    const std::lock_guard lock(lock_);
    --s.busy;
    over = settle_locked(name, s);
  }
  if (over.is_over) return end(over);
  if (!has_slots && !wait_for_slots(name, false)) {
    complain(rank, NO_MEMORY);
    if (!is_get) via_.engine.say(rank, wire::kind::drop_send, wire::drop{sender, 0, 0});
    fail_receive(name, rank);
    return;
  }
  if (via_.engine.shared.peers.has_ended(rank)) fail_receive(name, rank);
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
  via_.engine.open.add(1);
  start(name, *s);
  return errorcode_t::posted;
}

// Gets slots for the message and tells the sender. False: there are none now.
bool staged_transfers::preposted(wire::name self, recv_state& s) noexcept {
  bool never = false;
  slot_set* const set = via_.common.staging.take_to_lend(s.size, never);
  if (set == nullptr && !never) return false;
  if (set == nullptr) {
    complain(s.rank, "there is no memory for a staging buffer");
    if (!s.is_get) via_.engine.say(s.rank, wire::kind::drop_send, wire::drop{s.sender, 0, 0});
    fail_receive(self, s.rank);
    return true;
  }
  wire::rtr answer;
  wire::get_request request;
  int rank = -1;
  bool is_get = false;
  {
    const std::lock_guard lock(lock_);
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
    answer = {s.sender, self, region, set->place, s.through, target_of(via_.host, rank, region)};
    s.body.slots_region = region;
    s.body.slots_place = set->place;
    s.body.through = s.through;
    s.body.at = answer.at;
    request = s.body;
  }
  // From here on the state belongs to whoever hears from the peer.
  if (is_get)
    via_.engine.say(rank, wire::kind::get_request, request);
  else
    via_.engine.control.send_control(rank, wire::kind::rtr, answer);
  return true;
}

// False: there is no memory.
bool staged_transfers::wait_for_slots(wire::name name, bool is_send) noexcept {
  const std::lock_guard lock(lock_);
  try {
    (is_send ? waiting_sends_ : waiting_recvs_).push_back(name);
  } catch (const std::bad_alloc&) {
    return false;
  }
  via_.expect_leftovers(1);
  return true;
}

// Each side by itself: a sender never waits behind a receiver, whose slots may come from a peer
// that waits for this very sender.
std::size_t staged_transfers::serve_waiting() noexcept {
  std::size_t served = 0;
  while (serve_send()) ++served;
  while (serve_receive()) ++served;
  return served;
}

// The one that waits longest gets slots, if there are some.
bool staged_transfers::serve_send() noexcept {
  wire::name name;
  send_state* s = nullptr;
  std::list<wire::name> first;
  {
    const std::lock_guard lock(lock_);
    if (waiting_sends_.empty()) return false;
    first.splice(first.begin(), waiting_sends_, waiting_sends_.begin());
    name = first.front();
    via_.expect_leftovers(-1);
    s = sends_.find(name);
    if (s == nullptr) return true;
    ++s->busy;  // nobody ends it meanwhile
  }
  bool never = false;
  const bool got = take_slots(*s, never);
  if (got && !never) begin_send(name, *s);
  ended_send over;
  {
    const std::lock_guard lock(lock_);
    --s->busy;
    over = settle_locked(name, *s);
    if (!got && !over.is_over) {
      waiting_sends_.splice(waiting_sends_.begin(), first);
      via_.expect_leftovers(1);
    }
  }
  end(over);
  return got;
}

bool staged_transfers::serve_receive() noexcept {
  wire::name name;
  recv_state* s = nullptr;
  std::list<wire::name> first;
  {
    const std::lock_guard lock(lock_);
    if (waiting_recvs_.empty()) return false;
    first.splice(first.begin(), waiting_recvs_, waiting_recvs_.begin());
    name = first.front();
    via_.expect_leftovers(-1);
    s = recvs_.find(name);
    if (s == nullptr) return true;
    ++s->busy;
  }
  const bool got = s->has_failed || preposted(name, *s);
  ended_receive over;
  {
    const std::lock_guard lock(lock_);
    --s->busy;
    over = settle_locked(name, *s);
    if (!got && !over.is_over) {
      waiting_recvs_.splice(waiting_recvs_.begin(), first);
      via_.expect_leftovers(1);
    }
  }
  end(over);
  return got;
}

staged_transfers::ended_receive staged_transfers::settle_locked(wire::name name,
                                                                recv_state& s) noexcept {
  if (s.pieces == 0 && !s.has_failed) return {};  // has not begun
  if (!s.is_over() || s.is_lent()) return {};
  const ended_receive out{s.plan, s.peer, s.set, !s.has_failed, true};
  recvs_.erase(name);
  return out;
}

void staged_transfers::end(const ended_receive& what) noexcept {
  if (!what.is_over) return;
  if (what.set != nullptr) via_.common.staging.give(what.set);
  if (what.ok && what.plan.what == &PUT_RECEIVER)
    via_.engine.say(what.plan.rank, wire::kind::ack, wire::ack{what.peer});
  end_receive(via_.host, what.plan, what.ok);
}

void staged_transfers::emptied(wire::name name, std::uint64_t index,
                               std::string_view error) noexcept {
  ended_receive over;
  wire::credit news;
  int rank = -1;
  bool goes_on = false;
  bool is_news = false;
  {
    const std::lock_guard lock(lock_);
    recv_state* const s = recvs_.find(name);
    slot_copy& slot = s->slot[index % s->through.count];
    slot.is_busy = false;
    slot.index += s->through.count;
    --s->busy;
    ++s->done;
    is_news = !error.empty() && !s->has_failed;
    if (is_news) s->has_failed = true;
    goes_on = !s->has_failed && slot.index < s->pieces;
    slot.is_lent = goes_on;
    rank = s->rank;
    news = {s->peer, index};
    over = settle_locked(name, *s);
  }
  if (goes_on) via_.engine.say(rank, wire::kind::credit, news);
  if (is_news) {
    complain(rank, error);
    via_.engine.say(rank, wire::kind::drop_send, wire::drop{news.sender, 1, 0});
  }
  end(over);
}

// ---- from peers ----

void staged_transfers::on_piece(int rank, const wire::piece& body) noexcept {
  recv_state* s = nullptr;
  slot_copy* slot = nullptr;
  ended_receive over;
  bool is_wanted = false;
  {
    const std::lock_guard lock(lock_);
    s = recvs_.find(body.receiver);
    const bool is_ours =
        s != nullptr && s->rank == rank && s->set != nullptr && body.index < s->pieces;
    if (is_ours) slot = &s->slot[body.index % s->through.count];
    if (!is_ours || !slot->is_lent || slot->index != body.index) {
      via_.engine.dropped.add(1);
      return;
    }
    slot->is_lent = false;
    is_wanted = !s->has_failed;
    if (is_wanted) {
      slot->is_busy = true;
      ++s->busy;
      s->peer = body.sender;
    } else {
      over = settle_locked(body.receiver, *s);
    }
  }
  if (!is_wanted) return end(over);
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
  via_.common.gpus.copy(*slot);
}

void staged_transfers::on_drop_receive(int rank, wire::name receiver) noexcept {
  if (fail_receive(receiver, rank)) complain(rank, "the sender has given up");
}

// The sender is over, in one way or the other, and writes no slot of ours.
bool staged_transfers::fail_receive(wire::name name, int rank) noexcept {
  ended_receive over;
  bool is_news = false;
  {
    const std::lock_guard lock(lock_);
    recv_state* const s = recvs_.find(name);
    if (s == nullptr || s->rank != rank) return false;
    is_news = !s->has_failed;
    s->has_failed = true;
    for (slot_copy& one : s->slot) one.is_lent = false;
    over = settle_locked(name, *s);
  }
  end(over);
  return is_news;
}

void staged_transfers::on_peer_gone(int rank) noexcept {
  for (std::uint32_t i = 0, n = sends_.slots(); i < n; ++i) fail_send(sends_.name_at(i), rank);
  for (std::uint32_t i = 0, n = recvs_.slots(); i < n; ++i) fail_receive(recvs_.name_at(i), rank);
}

}  // namespace lci::proto::gpu
