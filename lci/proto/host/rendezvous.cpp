#include "lci/proto/host/rendezvous.hpp"

#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/undo.hpp"
#include "lci/completion.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

transfer* make_write(host_context& host, wire::name self, send_side& side) noexcept {
  const send_plan& plan = side.plan;
  transfer* move = std::exchange(side.record, nullptr);
  *move = transfer{};
  move->queue = side.queue;
  move->of = &RENDEZVOUS_WRITE;
  move->owner = &host;
  move->op.rank = plan.rank;
  move->op.kind = plan.kind;
  move->gpu = plan.gpu;
  move->op.local_key = plan.local_key;
  move->op.remote = {side.ready.region.slot, side.ready.region.generation};
  move->op.at = read_target(side.ready.at);
  move->what = transfer::verb::put;
  move->base = static_cast<std::byte*>(plan.buffer);
  move->total = plan.user.status.size;
  move->remote_base = side.ready.offset;
  if (host.rdv_by_immediate && wire::has_short_name(side.ready.receiver))
    move->imm = wire::kind_imm(wire::kind::fin_imm, wire::short_name(side.ready.receiver));
  move->local_state = self;
  move->peer_state = side.ready.receiver;
  return move;
}

namespace {

void step(host_context& host, wire::name self, send_event event);

// Forgets the state of a receiver; what it brought is the caller's.
recv_plan release(host_context& host, wire::name self, recv_side& side) {
  recv_plan plan = side.plan;
  if (side.registered_here) host.engine.shared.regions.erase(plan.region);
  if (plan.local_key != 0) host.engine.fabric.deregister_region(std::exchange(plan.local_key, 0));
  const std::lock_guard lock(host.rendezvous.moving);
  host.rendezvous.recvs.erase(self);
  return plan;
}

// ---- what the rows of the tables do ----

// The receiver has lent slots. Without memory the message fails, and both ends are told.
LCI_COLD void start_in_pieces(host_context& host, wire::name self, send_side& side) noexcept {
  host.engine.shared.transfers.put(std::exchange(side.record, nullptr));
  const send_plan plan = side.plan;
  const wire::rtr ready = side.ready;
  try {
    host.accelerator->send_in_pieces(self, plan, ready);
  } catch (...) {
    host.engine.errors.keep(std::current_exception());
    host.engine.say(plan.rank, wire::kind::drop_receive, wire::drop{ready.receiver, 1, 0});
    on_written(host, self, false);
  }
}

// Within one process a receive may be in GPU memory although the data is not. What the network
// reads goes to others without a look at their registration: the RTR says where it is.
bool needs_accelerator(const host_context& host, const send_side& side) noexcept {
  if (!is_for_network(host, side.plan)) return true;
  if (side.plan.rank != host.engine.shared.me) [[likely]]
    return false;
  if (side.plan.kind != mem::mem_kind::host) return true;
  const auto there =
      host.engine.shared.regions.look_up({side.ready.region.slot, side.ready.region.generation});
  return there && there->kind != mem::mem_kind::host;
}

// The next RTR is acted on like the first. Once the state has moved it may end at any time.
LCI_COLD void ask_for_slots(host_context& host, wire::name self, send_side& side) {
  const int rank = side.plan.rank;
  const wire::restage said{self, side.ready.receiver};
  step(host, self, send_event::unreachable);
  host.engine.say(rank, wire::kind::restage, said);
  // A thread that has noticed its end may have left this one to its write.
  if (host.engine.watch.has_ended(rank)) step(host, self, send_event::peer_ended);
}

void start_write(host_context& host, wire::name self, send_side& side) {
  if (side.ready.through.count != 0) [[unlikely]]
    return start_in_pieces(host, self, side);
  if (needs_accelerator(host, side)) [[unlikely]] {
    const write_way way = host.accelerator->prepare_write(self, side);
    if (way == write_way::none) return;
    if (way == write_way::staged) return ask_for_slots(host, self, side);
  }
  if (side.write == nullptr) side.write = make_write(host, self, side);
  side.queue->start(*side.write);
}

// Gives back what the operation held and forgets the state; the user's part is returned for
// signalling.
user_side release(host_context& host, wire::name self, send_side& side) {
  const send_plan plan = side.plan;
  if (side.record != nullptr) host.engine.shared.transfers.put(side.record);
  if (plan.registered_here) host.engine.fabric.deregister_region(plan.local_key);
  if (plan.packet != nullptr) mem::release_packet(host.engine.shared.arena, plan.packet);
  {
    const std::lock_guard lock(host.rendezvous.moving);
    host.rendezvous.sends.erase(self);
  }
  host.engine.open.add(-1);
  return plan.user;
}

void finish_send(host_context& host, wire::name self, send_side& side) {
  host.engine.signals.tell(release(host, self, side), true);
}

void drop_send(host_context& host, wire::name self, send_side& side) {
  host.engine.signals.tell(release(host, self, side), false);
}

void ignore_send(host_context&, wire::name, send_side&) {}

void deliver(host_context& host, wire::name self, recv_side& side) {
  end_receive(host, release(host, self, side), true);
}

void drop_receive(host_context& host, wire::name self, recv_side& side) {
  end_receive(host, release(host, self, side), false);
}

// The sender is told again where to write: into slots.
void receive_again(host_context& host, wire::name self, recv_side& side) {
  const wire::name sender = side.sender;
  const recv_plan plan = release(host, self, side);
  try {
    host.accelerator->receive_staged(sender, plan, "the sender's GPU cannot map it");
  } catch (...) {
    give_up(host, sender, plan, std::current_exception());
  }
}

// Moves the state of that name, if there is one that has not ended, and does what the row says.
// before(side) runs first, under the lock.
template <class States, class Table, class State, class Event, class Before>
void move(host_context& host, States& states, const Table& table, State first_end, wire::name self,
          Event event, Before&& before) {
  decltype(states.find(self)) side = nullptr;
  typename Table::const_pointer row = nullptr;
  {
    const std::lock_guard lock(host.rendezvous.moving);
    side = states.find(self);
    if (side == nullptr || side->state >= first_end) return;
    before(*side);
    row = &take_step(table, side->state, event);
  }
  LCI_RACE_POINT("rendezvous.move.before_action");
  row->action(host, self, *side);
}

template <class Before>
void step(host_context& host, wire::name self, send_event event, Before&& before) {
  move(host, host.rendezvous.sends, SEND_TABLE, send_state::finished, self, event, before);
}
void step(host_context& host, wire::name self, send_event event) {
  step(host, self, event, [](send_side&) {});
}

template <class Before>
void step(host_context& host, wire::name self, recv_event event, Before&& before) {
  move(host, host.rendezvous.recvs, RECV_TABLE, recv_state::finished, self, event, before);
}
void step(host_context& host, wire::name self, recv_event event) {
  step(host, self, event, [](recv_side&) {});
}

// False: no such state, or another rank's: a forged or damaged name.
template <class States>
bool is_of(host_context& host, States& states, wire::name name, int rank) {
  const std::lock_guard lock(host.rendezvous.moving);
  const auto* const side = states.find(name);
  return side != nullptr && side->rank.load(std::memory_order_relaxed) == rank;
}

}  // namespace

constexpr std::array<send_row, 10> SEND_TABLE = {{
    {send_state::rts_sent, send_event::rtr, send_state::writing, &start_write,
     "write the data where the RTR says"},
    {send_state::rts_sent, send_event::unreachable, send_state::rts_sent, &ignore_send,
     "no write was under way"},
    {send_state::rts_sent, send_event::written, send_state::rts_sent, &ignore_send,
     "no write was under way"},
    {send_state::rts_sent, send_event::write_failed, send_state::rts_sent, &ignore_send,
     "no write was under way"},
    {send_state::rts_sent, send_event::peer_ended, send_state::failed, &drop_send,
     "give back what the message held"},
    {send_state::writing, send_event::rtr, send_state::writing, &ignore_send,
     "a repeated RTR changes nothing"},
    {send_state::writing, send_event::unreachable, send_state::rts_sent, &ignore_send,
     "it asked for slots in host memory: another RTR follows"},
    {send_state::writing, send_event::written, send_state::finished, &finish_send,
     "signal the sender's object"},
    {send_state::writing, send_event::write_failed, send_state::failed, &drop_send,
     "give back what the message held"},
    {send_state::writing, send_event::peer_ended, send_state::writing, &ignore_send,
     "the network reports the write as failed"},
}};
static_assert(base::table_is_sound(SEND_TABLE, send_state::finished, 4, 5));

constexpr std::array<recv_row, 3> RECV_TABLE = {{
    {recv_state::rtr_sent, recv_event::fin, recv_state::finished, &deliver,
     "signal the receiver's object"},
    {recv_state::rtr_sent, recv_event::restage, recv_state::restaged, &receive_again,
     "the sender cannot reach the buffer: lend it slots in host memory"},
    {recv_state::rtr_sent, recv_event::peer_ended, recv_state::failed, &drop_receive,
     "withdraw the registration"},
}};
static_assert(base::table_is_sound(RECV_TABLE, recv_state::finished, 4, 3));

void on_rtr(host_context& host, int rank, const wire::rtr& body) {
  if (!is_of(host, host.rendezvous.sends, body.sender, rank)) {
    host.engine.dropped.add(1);
    return;
  }
  // First: once the state has moved no thread comes again.
  transfer* record = host.engine.shared.transfers.get();
  step(host, body.sender, send_event::rtr, [&](send_side& side) {
    if (side.state != send_state::rts_sent) return;
    side.ready = body;
    std::swap(side.record, record);
  });
  if (record != nullptr) host.engine.shared.transfers.put(record);
}

void on_written(host_context& host, wire::name sender_state, bool ok) {
  step(host, sender_state, ok ? send_event::written : send_event::write_failed);
}

void on_fin(host_context& host, int rank, const wire::fin& body) {
  if (!is_of(host, host.rendezvous.recvs, body.receiver, rank)) {
    host.engine.dropped.add(1);
    return;
  }
  step(host, body.receiver, recv_event::fin);
}

// ---- the write of a rendezvous ----

// FIN, unless it travelled with the data.
static bool finish_write(transfer& move) noexcept {
  auto& host = *static_cast<host_context*>(move.owner);
  const int rank = move.op.rank;
  if (!tells_with_data(move, host.engine.fabric.caps_of(rank)) &&
      !move.queue->accept_control(rank, wire::kind::fin, wire::fin{move.peer_state}))
    return false;
  on_written(host, move.local_state, true);
  return true;
}

static void fail_write(transfer& move) noexcept {
  on_written(*static_cast<host_context*>(move.owner), move.local_state, false);
}

constexpr protocol RENDEZVOUS_WRITE = {"rendezvous_write", &finish_write, &fail_write, false};

void on_fin_imm(host_context& host, int rank, std::uint32_t argument) {
  const wire::name full = host.rendezvous.recvs.name_at(wire::short_slot(argument));
  if (!wire::short_generation_is(argument, full.generation)) {
    host.engine.dropped.add(1);
    return;
  }
  on_fin(host, rank, wire::fin{full});
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
    // Outside: what the user is told may make it post.
    for (std::size_t i = 0; i < n; ++i) with_name(found[i]);
    if (is_end) return;
  }
}

void end_sends_to(host_context& host, int rank) {
  rendezvous_states& all = host.rendezvous;
  for_each_of(all.sends, all.making, rank,
              [&](wire::name name) { step(host, name, send_event::peer_ended); });
}

void end_receives_from(host_context& host, int rank) {
  rendezvous_states& all = host.rendezvous;
  for_each_of(all.recvs, all.making, rank, [&](wire::name name) {
    // Its bytes are there, and the thread that acts on that ends it.
    const bool is_whole = wire::has_short_name(name) &&
                          host.accelerator->has_heard(
                              rank, wire::kind_imm(wire::kind::fin_imm, wire::short_name(name)));
    if (!is_whole) step(host, name, recv_event::peer_ended);
  });
}

// In that state; null: that rank has none. Under the lock of the states.
template <class States, class State>
static auto* find_open(States& states, int rank, wire::name name, State in) {
  auto* side = states.find(name);
  const bool is_his = side != nullptr && side->rank.load(std::memory_order_relaxed) == rank;
  return is_his && side->state == in ? side : nullptr;
}

void on_restage(host_context& host, int rank, const wire::restage& body) {
  if (!is_of(host, host.rendezvous.recvs, body.receiver, rank)) {
    host.engine.dropped.add(1);
    return;
  }
  step(host, body.receiver, recv_event::restage,
       [&](recv_side& side) { side.sender = body.sender; });
}

// Bytes of the message with that state; nothing: that rank has none in that state.
template <class States, class State>
static std::optional<std::size_t> size_of(host_context& host, States& states, int rank,
                                          wire::name name, State in) {
  const std::lock_guard lock(host.rendezvous.moving);
  const auto* const side = find_open(states, rank, name, in);
  return side != nullptr ? std::optional(side->plan.user.status.size) : std::nullopt;
}

void on_drop_send(host_context& host, int rank, const wire::drop& body) {
  if (body.staged != 0) return host.accelerator->on_drop_send(rank, body.whose);
  const auto size = size_of(host, host.rendezvous.sends, rank, body.whose, send_state::rts_sent);
  if (!size) {
    host.engine.dropped.add(1);
    return;
  }
  host.engine.errors.keep_made([&] {
    return std::runtime_error("rank " + std::to_string(rank) + " cannot take a message of " +
                              std::to_string(*size) + " bytes that was sent to it");
  });
  step(host, body.whose, send_event::peer_ended);
}

void on_drop_receive(host_context& host, int rank, const wire::drop& body) {
  if (body.staged != 0) return host.accelerator->on_drop_receive(rank, body.whose);
  const auto size = size_of(host, host.rendezvous.recvs, rank, body.whose, recv_state::rtr_sent);
  if (!size) {
    host.engine.dropped.add(1);
    return;
  }
  host.engine.errors.keep_made([&] {
    return std::runtime_error("rank " + std::to_string(rank) + " could not send a message of " +
                              std::to_string(*size) + " bytes that was announced");
  });
  step(host, body.whose, recv_event::peer_ended);
}

}  // namespace lci::proto
