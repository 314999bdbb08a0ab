#include "lci/proto/rendezvous.hpp"

#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/undo.hpp"
#include "lci/completion.hpp"
#include "lci/proto/channel.hpp"

namespace lci::proto {

transfer* make_write(channel& via, wire::name self, send_side& side) noexcept {
  const send_plan& plan = side.plan;
  transfer* move = std::exchange(side.record, nullptr);
  *move = transfer{};
  move->via = side.via;
  move->op.rank = plan.rank;
  move->op.kind = plan.kind;
  move->gpu = plan.gpu;
  move->op.local_key = plan.local_key;
  move->op.remote = {side.ready.region.slot, side.ready.region.generation};
  move->op.at = read_target(side.ready.at);
  move->what = transfer::verb::put;
  move->end = ending::rendezvous;
  move->base = static_cast<std::byte*>(plan.buffer);
  move->total = plan.user.status.size;
  move->remote_base = side.ready.offset;
  if (via.rdv_by_immediate && wire::has_short_name(side.ready.receiver))
    move->imm = wire::kind_imm(wire::kind::fin_imm, wire::short_name(side.ready.receiver));
  move->local_state = self;
  move->peer_state = side.ready.receiver;
  return move;
}

recv_plan release(channel& via, wire::name self, recv_side& side) {
  recv_plan plan = side.plan;
  if (side.registered_here) via.shared.regions.erase(plan.region);
  if (plan.local_key != 0) via.fabric.deregister_region(std::exchange(plan.local_key, 0));
  const std::lock_guard lock(via.rendezvous.moving);
  via.rendezvous.recvs.erase(self);
  return plan;
}

namespace {

void step(channel& via, wire::name self, send_event event);

// ---- what the rows of the tables do ----

// The next RTR is acted on like the first.
void ask_for_slots(channel& via, wire::name self, send_side& side) {
  const int rank = side.plan.rank;
  const wire::restage said{self, side.ready.receiver};
  {
    const std::lock_guard lock(via.rendezvous.moving);
    side.state = send_state::rts_sent;
  }
  via.say(rank, wire::staged_kind::restage, said);
  // Who has noticed that it is gone may have left this one to its write.
  if (via.shared.is_gone(rank)) step(via, self, send_event::peer_gone);
}

// The receiver has lent slots. Without memory the message fails, and both ends hear of it.
void start_staged_send(channel& via, wire::name self, send_side& side) noexcept {
  via.shared.transfers.put(std::exchange(side.record, nullptr));
  const send_plan plan = side.plan;
  const wire::rtr ready = side.ready;
  try {
    via.staged.send(self, plan, ready);
  } catch (...) {
    via.keep(std::current_exception());
    via.say(plan.rank, wire::staged_kind::drop_receive, wire::drop{ready.receiver, 1, 0});
    on_written(via, self, false);
  }
}

void start_write(channel& via, wire::name self, send_side& side) {
  if (side.record == nullptr) [[unlikely]] {
    // A repeated RTR, while the sender waits for another one.
    const std::lock_guard lock(via.rendezvous.moving);
    side.state = send_state::rts_sent;
    return;
  }
  if (side.ready.through.count != 0) return start_staged_send(via, self, side);
  const bool is_for_gpu = !is_for_network(via, side.plan) || side.plan.rank == via.shared.me;
  if (is_for_gpu) [[unlikely]] {
    const write_way way = prepare_write(via, self, side);
    if (way == write_way::none) return;
    if (way == write_way::staged) return ask_for_slots(via, self, side);
  }
  if (side.write == nullptr) side.write = make_write(via, self, side);
  side.via->start(*side.write);
}

// Gives back what the operation held and forgets the state; the user's part is returned for
// signalling.
user_side release(channel& via, wire::name self, send_side& side) {
  const send_plan plan = side.plan;
  if (side.record != nullptr) via.shared.transfers.put(side.record);
  if (plan.registered_here) via.fabric.deregister_region(plan.local_key);
  if (plan.packet != nullptr) mem::release_packet(via.shared.arena, plan.packet);
  {
    const std::lock_guard lock(via.rendezvous.moving);
    via.rendezvous.sends.erase(self);
  }
  via.open.add(-1);
  return plan.user;
}

void finish_send(channel& via, wire::name self, send_side& side) {
  via.tell(release(via, self, side), true);
}

void drop_send(channel& via, wire::name self, send_side& side) {
  via.tell(release(via, self, side), false);
}

void ignore_send(channel&, wire::name, send_side&) {}

void deliver(channel& via, wire::name self, recv_side& side) {
  end_receive(via, release(via, self, side), true);
}

void drop_receive(channel& via, wire::name self, recv_side& side) {
  end_receive(via, release(via, self, side), false);
}

// Moves the state of that name, if there is one that has not ended, and does what the row says.
template <class States, class Table, class State, class Event>
void move(channel& via, States& states, const Table& table, State first_end, wire::name self,
          Event event) {
  decltype(states.find(self)) side = nullptr;
  typename Table::const_pointer row = nullptr;
  {
    const std::lock_guard lock(via.rendezvous.moving);
    side = states.find(self);
    if (side == nullptr || side->state >= first_end) return;
    row = &table[row_of(table, side->state, event)];
    side->state = row->to;
  }
  LCI_RACE_POINT("rendezvous.move.before_action");
  row->action(via, self, *side);
}

void step(channel& via, wire::name self, send_event event) {
  move(via, via.rendezvous.sends, SEND_TABLE, send_state::finished, self, event);
}

void step(channel& via, wire::name self, recv_event event) {
  move(via, via.rendezvous.recvs, RECV_TABLE, recv_state::finished, self, event);
}

// False: no such state, or another rank's: a forged or damaged name.
template <class States>
bool is_of(channel& via, States& states, wire::name name, int rank) {
  const std::lock_guard lock(via.rendezvous.moving);
  const auto* const side = states.find(name);
  return side != nullptr && side->rank.load(std::memory_order_relaxed) == rank;
}

}  // namespace

constexpr std::array<send_row, 8> SEND_TABLE = {{
    {send_state::rts_sent, send_event::rtr, send_state::writing, &start_write,
     "write the data where the RTR says"},
    {send_state::rts_sent, send_event::written, send_state::rts_sent, &ignore_send,
     "nothing was being written"},
    {send_state::rts_sent, send_event::write_failed, send_state::rts_sent, &ignore_send,
     "nothing was being written"},
    {send_state::rts_sent, send_event::peer_gone, send_state::failed, &drop_send,
     "give back what the message held"},
    {send_state::writing, send_event::rtr, send_state::writing, &ignore_send,
     "a repeated RTR changes nothing"},
    {send_state::writing, send_event::written, send_state::finished, &finish_send,
     "signal the sender's object"},
    {send_state::writing, send_event::write_failed, send_state::failed, &drop_send,
     "give back what the message held"},
    {send_state::writing, send_event::peer_gone, send_state::writing, &ignore_send,
     "the network reports the write as failed"},
}};
static_assert(table_is_sound(SEND_TABLE, send_state::finished, 4, 4));

constexpr std::array<recv_row, 2> RECV_TABLE = {{
    {recv_state::rtr_sent, recv_event::fin, recv_state::finished, &deliver,
     "signal the receiver's object"},
    {recv_state::rtr_sent, recv_event::peer_gone, recv_state::failed, &drop_receive,
     "withdraw the registration"},
}};
static_assert(table_is_sound(RECV_TABLE, recv_state::finished, 3, 2));

// Makes the state of a sender and sends its request, an rts or a put_request.
template <class Body>
static errorcode_t start_as_sender(port& via, const send_plan& plan, std::uint32_t imm, Body& body,
                                   bool may_retry) {
  channel& ch = via.via;
  const base::gate_pass making(ch.rendezvous.making);
  // Who looks for what the peer leaves behind has looked already.
  if (ch.shared.is_gone(plan.rank)) [[unlikely]]
    return errorcode_t::fatal;
  const auto [self, side] = ch.rendezvous.sends.insert(plan);
  side->via = &via;
  body.sender = self;
  ch.open.add(1);
  LCI_RACE_POINT("rendezvous.start_as_sender.before_request");
  // From the moment the request is out the state belongs to the polling thread.
  const errorcode_t code = via.try_control(plan.rank, imm, body);
  if (code == errorcode_t::done) return errorcode_t::posted;
  const bool is_left_to_progress = is_retry(code) && !may_retry;
  if (is_left_to_progress && via.accept_control(plan.rank, imm, body))
    return errorcode_t::posted_backlog;
  ch.rendezvous.sends.erase(self);
  ch.open.add(-1);
  if (is_left_to_progress) throw std::bad_alloc();
  return code;
}

errorcode_t start_send(port& via, rcomp_t rcomp, const send_plan& plan, bool may_retry) {
  wire::rts body;
  body.size = plan.user.status.size;
  body.tag = plan.user.status.tag;
  body.rcomp = rcomp;
  // What the network does not read is the receiver's business: it decides which way it goes.
  if (!is_for_network(via.via, plan)) body.flags = wire::FROM_DEVICE;
  return start_as_sender(via, plan, wire::kind_imm(wire::kind::rts), body, may_retry);
}

errorcode_t start_staged_put(port& via, const send_plan& plan, wire::put_request body,
                             bool may_retry) {
  return start_as_sender(via, plan, wire::staged_imm(wire::staged_kind::put_request), body,
                         may_retry);
}

// The network is to write host memory of the program. False: it cannot be registered, so the data
// has to come through slots. Throws std::bad_alloc.
static bool register_destination(channel& via, const recv_plan& plan, network_key& key) {
  try {
    key = key_for(via, plan.rank, plan.user.status.buffer, plan.user.status.size, plan.kind);
    return true;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    base::log::info("proto", "a message of %zu bytes from rank %d comes in pieces: %s",
                    plan.user.status.size, plan.rank, problem.what());
    return false;
  }
}

// False: the peer is gone, and who looks for what it leaves behind has looked already.
static bool keep_receive(channel& via, const recv_plan& plan, bool registered_here,
                         wire::name& self) {
  const base::gate_pass making(via.rendezvous.making);
  if (via.shared.is_gone(plan.rank)) [[unlikely]]
    return false;
  const auto made = via.rendezvous.recvs.insert(plan);
  made.object->registered_here = registered_here;
  self = made.name;
  return true;
}

void start_receive(channel& via, wire::name sender, const recv_plan& plan) {
  mem::region target{plan.user.status.buffer, plan.user.status.size, plan.kind, {}, false};
  network_key key;
  const bool is_named = plan.region.generation != 0;
  if (plan.from_device || plan.kind != mem::mem_kind::host) [[unlikely]] {
    std::string why_not;
    const target_way way = find_target(via, sender, plan, target, key, why_not);
    if (way == target_way::none) return;
    if (way == target_way::staged) return receive_staged(via, sender, plan, why_not);
  } else if (!is_named && !register_destination(via, plan, key)) [[unlikely]] {
    return via.staged.receive(sender, plan);
  }
  recv_plan mine = plan;
  mine.local_key = key.get();
  if (!is_named) {
    try {
      mine.region = via.shared.regions.insert(target);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      return give_up(via, sender, plan, std::current_exception());
    }
  }
  base::undo insertion([&]() noexcept {
    if (!is_named) via.shared.regions.erase(mine.region);
  });
  if (!is_named) via.fabric.publish({mine.region.slot, mine.region.generation}, mine.local_key);
  wire::name self;
  if (!keep_receive(via, mine, !is_named, self)) [[unlikely]] {
    mine.local_key = 0;  // ends here
    return end_receive(via, mine, false);
  }
  insertion.keep();
  key.release();  // goes with the state
  wire::rtr body;
  body.sender = sender;
  body.receiver = self;
  body.region = {mine.region.slot, mine.region.generation};
  body.offset = plan.region_offset;
  body.at = target_of(via, plan.rank, body.region);
  via.control.send_control(plan.rank, wire::kind_imm(wire::kind::rtr), body);
}

void on_rtr(channel& via, int rank, const wire::rtr& body) {
  if (!is_of(via, via.rendezvous.sends, body.sender, rank)) {
    via.dropped.add(1);
    return;
  }
  // First: once the state has moved nobody comes again.
  transfer* record = via.shared.transfers.get();
  {
    const std::lock_guard lock(via.rendezvous.moving);
    send_side* const side = via.rendezvous.sends.find(body.sender);
    if (side != nullptr && side->state == send_state::rts_sent) {
      side->ready = body;
      std::swap(side->record, record);
    }
  }
  if (record != nullptr) via.shared.transfers.put(record);
  step(via, body.sender, send_event::rtr);
}

void fail_sender(channel& via, wire::name sender_state) {
  step(via, sender_state, send_event::peer_gone);
}

void fail_receiver(channel& via, wire::name receiver_state) {
  step(via, receiver_state, recv_event::peer_gone);
}

void on_written(channel& via, wire::name sender_state, bool ok) {
  step(via, sender_state, ok ? send_event::written : send_event::write_failed);
}

void on_fin(channel& via, int rank, wire::name receiver_state) {
  if (!is_of(via, via.rendezvous.recvs, receiver_state, rank)) {
    via.dropped.add(1);
    return;
  }
  step(via, receiver_state, recv_event::fin);
}

void on_fin_imm(channel& via, int rank, std::uint32_t argument) {
  const wire::name full = via.rendezvous.recvs.name_at(wire::short_slot(argument));
  if (!wire::short_generation_is(argument, full.generation)) {
    via.dropped.add(1);
    return;
  }
  on_fin(via, rank, full);
}

// Calls with_name(name) for each state of that rank that is not being made.
template <class Table, class WithName>
static void for_each_of(Table& table, base::gate& making, int rank, WithName&& with_name) {
  std::array<wire::name, 64> found;
  for (std::uint32_t at = 0;;) {
    std::size_t n = 0;
    bool is_end = false;
    making.alone([&] {
      const std::uint32_t slots = table.slots();
      for (; at < slots && n < found.size(); ++at) {
        const wire::name name = table.name_at(at);
        const auto* const side = table.find(name);
        if (side != nullptr && side->rank.load(std::memory_order_relaxed) == rank)
          found[n++] = name;
      }
      is_end = at >= slots;
    });
    // Outside: what the user hears may make it post.
    for (std::size_t i = 0; i < n; ++i) with_name(found[i]);
    if (is_end) return;
  }
}

void on_peer_gone(channel& via, int rank) {
  rendezvous_states& all = via.rendezvous;
  for_each_of(all.sends, all.making, rank,
              [&](wire::name name) { step(via, name, send_event::peer_gone); });
  for_each_of(all.recvs, all.making, rank,
              [&](wire::name name) { step(via, name, recv_event::peer_gone); });
}

}  // namespace lci::proto
