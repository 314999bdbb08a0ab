// The steps of a rendezvous that only GPU memory needs: can a copy engine reach from end to end,
// and what if not.
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/completion.hpp"
#include "lci/errors.hpp"
#include "lci/proto/arrival.hpp"
#include "lci/proto/channel.hpp"

namespace lci::proto {

std::optional<mem::region> region_to_share(channel& via, const recv_plan& plan,
                                           std::string& why_not) {
  if (via.way == attr_gpu_path_t::staged || plan.kind != mem::mem_kind::device) return {};
  if (plan.region.generation != 0) {
    std::optional<mem::region> known = via.shared.regions.look_up(plan.region);
    if (known && known->share.record != 0) return known;
    why_not = "the registration is gone, or its memory cannot be shared with other processes";
    return {};
  }
  mem::region made{plan.user.status.buffer, plan.user.status.size, mem::mem_kind::device, {}, true};
  made.share = via.shared.gpus.running()->share(made.address, made.size, why_not);
  if (made.share.record == 0) {
    via.shared.paths.through_host(plan.rank, why_not);
    return {};
  }
  return made;
}

namespace {

// Whether the network writes the destination. The sender's network reads the data, so this is about
// our end alone. Throws what network_key throws.
bool is_written_by_network(channel& via, const recv_plan& plan, network_key& key) {
  if (plan.from_device || !is_for_network(via, plan.rank, plan.kind)) return false;
  if (plan.region.generation != 0) {
    const std::optional<mem::region> known = via.shared.regions.look_up(plan.region);
    return known && !known->off_network;
  }
  key = key_for(via, plan.rank, plan.user.status.buffer, plan.user.status.size, plan.kind);
  return !key.is_off();
}

}  // namespace

void give_up(channel& via, wire::name sender, const recv_plan& plan,
             std::exception_ptr why) noexcept {
  via.keep(std::move(why));
  via.say(plan.rank, wire::staged_kind::drop_send, wire::drop{sender, 0, 0});
  end_receive(via, plan, false);
}

target_way find_target(channel& via, wire::name sender, const recv_plan& plan, mem::region& target,
                       network_key& key, std::string& why_not) {
  try {
    if (is_written_by_network(via, plan, key)) return target_way::network;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    give_up(via, sender, plan, std::current_exception());
    return target_way::none;
  }
  target.off_network = plan.kind != mem::mem_kind::host;
  // Within one process every end is in reach.
  if (plan.rank == via.shared.me && via.way != attr_gpu_path_t::staged) return target_way::gpu;
  if (!plan.from_device) return target_way::staged;
  const std::optional<mem::region> shared = region_to_share(via, plan, why_not);
  if (!shared) return target_way::staged;
  target = *shared;
  if (plan.what == receiver::posted) via.offered.encourage(plan.rank);
  return target_way::gpu;
}

void receive_staged(channel& via, wire::name sender, const recv_plan& plan,
                    const std::string& why_not) {
  if (via.way == attr_gpu_path_t::staged)
    via.shared.paths.through_host(plan.rank, "as gpu_path says");
  if (via.way != attr_gpu_path_t::direct) return via.staged.receive(sender, plan);
  give_up(
      via, sender, plan,
      std::make_exception_ptr(backend_error(
          "gpu_path is direct, but a message of " + std::to_string(plan.user.status.size) +
          " bytes from rank " + std::to_string(plan.rank) + " can only go through host memory: " +
          (why_not.empty() ? "not both ends are GPU memory that can be mapped" : why_not))));
}

// The message fails, and both ends hear of it.
static write_way fail_write(send_side& side, transfer& move) noexcept {
  move.is_direct = true;
  move.failed = true;
  side.via->conclude(move);
  return write_way::none;
}

write_way prepare_write(channel& via, wire::name self, send_side& side) noexcept {
  const wire::rtr& to = side.ready;
  if (to.through.count != 0 || via.shared.gpus.running() == nullptr) return write_way::ready;
  const net::remote_view view =
      via.fabric.check_remote(side.plan.rank, {to.region.slot, to.region.generation});
  if (is_for_network(via, side.plan) && is_for_network(via, side.plan.rank, view))
    return write_way::ready;
  transfer* const move = make_write(via, self, side);
  try {
    std::string why_not = "the registration is gone";
    if (view.what == net::remote_view::answer::ok && move->remote_base <= view.size &&
        move->total <= view.size - move->remote_base && make_direct(via, *move, view, why_not)) {
      side.write = move;
      return write_way::ready;
    }
    // The receiver would only say that it cannot be; why is known here.
    if (via.way == attr_gpu_path_t::direct)
      throw backend_error("gpu_path is direct, but a message of " + std::to_string(move->total) +
                          " bytes for rank " + std::to_string(move->op.rank) +
                          " can only go through host memory: " + why_not);
  } catch (...) {
    via.keep(std::current_exception());
    return fail_write(side, *move);
  }
  via.shared.transfers.put(move);
  return write_way::staged;
}

// In that state; null: that rank has none. Under the lock of the states.
template <class States, class State>
static auto* find_open(States& states, int rank, wire::name name, State in) {
  auto* side = states.find(name);
  const bool is_his = side != nullptr && side->rank.load(std::memory_order_relaxed) == rank;
  return is_his && side->state == in ? side : nullptr;
}

void on_restage(channel& via, int rank, const wire::restage& body) {
  recv_side* side = nullptr;
  {
    const std::lock_guard lock(via.rendezvous.moving);
    side = find_open(via.rendezvous.recvs, rank, body.receiver, recv_state::rtr_sent);
    if (side != nullptr) side->state = recv_state::finished;
  }
  if (side == nullptr) {
    via.dropped.add(1);
    return;
  }
  const recv_plan plan = release(via, body.receiver, *side);
  try {
    receive_staged(via, body.sender, plan, "the sender's GPU cannot map it");
  } catch (...) {
    give_up(via, body.sender, plan, std::current_exception());
  }
}

// Bytes of the message with that state; nothing: that rank has none in that state.
template <class States, class State>
static std::optional<std::size_t> size_of(channel& via, States& states, int rank, wire::name name,
                                          State in) {
  const std::lock_guard lock(via.rendezvous.moving);
  const auto* const side = find_open(states, rank, name, in);
  return side != nullptr ? std::optional(side->plan.user.status.size) : std::nullopt;
}

void on_dropped_send(channel& via, int rank, wire::name sender_state) {
  const auto size = size_of(via, via.rendezvous.sends, rank, sender_state, send_state::rts_sent);
  if (!size) {
    via.dropped.add(1);
    return;
  }
  via.keep_made([&] {
    return std::runtime_error("rank " + std::to_string(rank) + " cannot take a message of " +
                              std::to_string(*size) + " bytes that was sent to it");
  });
  fail_sender(via, sender_state);
}

void on_dropped_receive(channel& via, int rank, wire::name receiver_state) {
  const auto size = size_of(via, via.rendezvous.recvs, rank, receiver_state, recv_state::rtr_sent);
  if (!size) {
    via.dropped.add(1);
    return;
  }
  via.keep_made([&] {
    return std::runtime_error("rank " + std::to_string(rank) + " could not send a message of " +
                              std::to_string(*size) + " bytes that was announced");
  });
  fail_receiver(via, receiver_state);
}

void end_receive(channel& via, const recv_plan& plan, bool ok) {
  switch (plan.what) {
    case receiver::posted:
      plan.counted->open_receives.add(-1);
      break;
    case receiver::active_message:
      if (!ok)
        give_back(via.shared, plan.user.status.buffer, plan.allocator);
      else if (plan.payload != nullptr)
        mem::home_of(*plan.payload).leave_operation(*plan.payload);
      if (!ok) break;
      return via.signal_given(plan.user.comp, plan.user.serial, plan.user.status, false,
                              news::message);
    case receiver::put:
      if (ok && plan.imm != 0) notify(via, plan.rank, plan.imm);
      return;
    case receiver::get:
      via.open.add(-1);
      break;
  }
  via.tell(plan.user, ok);
}

}  // namespace lci::proto
