// Both ends of a rendezvous up to their first message, and what the receiver's end does at the
// last.
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/undo.hpp"
#include "lci/completion.hpp"
#include "lci/proto/host/host_context.hpp"

namespace lci::proto {

// Makes the state of a sender and sends its request, an rts or a put_request.
template <class Body>
static errorcode_t start_as_sender(host_context& host, post_queue& queue, const send_plan& plan,
                                   wire::kind what, Body& body, bool may_retry) {
  const base::gate_pass making(host.rendezvous.making);
  // The search for what the peer leaves behind has been here already.
  if (host.engine.watch.has_ended(plan.rank)) [[unlikely]]
    return errorcode_t::fatal;
  const auto [self, side] = host.rendezvous.sends.insert(plan);
  side->queue = &queue;
  body.sender = self;
  host.engine.open.add(1);
  LCI_RACE_POINT("rendezvous.start_as_sender.before_request");
  // From the moment the request is out the state belongs to the polling thread.
  const errorcode_t code = queue.try_control(plan.rank, what, body);
  if (code == errorcode_t::done) return errorcode_t::posted;
  const bool is_left_to_progress = is_retry(code) && !may_retry;
  if (is_left_to_progress && queue.accept_control(plan.rank, what, body))
    return errorcode_t::posted_backlog;
  host.rendezvous.sends.erase(self);
  host.engine.open.add(-1);
  if (is_left_to_progress) throw std::bad_alloc();
  return code;
}

errorcode_t start_send(host_context& host, post_queue& queue, rcomp_t rcomp, const send_plan& plan,
                       bool may_retry) {
  wire::rts body;
  body.size = plan.user.status.size;
  body.tag = plan.user.status.tag;
  body.rcomp = rcomp;
  // What the network does not read is the receiver's business: it decides which way it goes.
  if (!is_for_network(host, plan)) body.flags = wire::FROM_DEVICE;
  return start_as_sender(host, queue, plan, wire::kind::rts, body, may_retry);
}

errorcode_t start_staged_put(host_context& host, post_queue& queue, const send_plan& plan,
                             wire::put_request body, bool may_retry) {
  return start_as_sender(host, queue, plan, wire::kind::put_request, body, may_retry);
}

// The network is to write host memory of the program. False: it cannot be registered, so the data
// has to come through slots. Throws std::bad_alloc.
static bool register_destination(host_context& host, const recv_plan& plan, network_key& key) {
  try {
    key = key_for(host, plan.rank, plan.user.status.buffer, plan.user.status.size, plan.kind);
    return true;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    base::log::info("proto", "a message of %zu bytes from rank %d comes in pieces: %s",
                    plan.user.status.size, plan.rank, problem.what());
    return false;
  }
}

// False: the peer has ended, and the search for what it leaves behind has been here already.
static bool keep_receive(host_context& host, const recv_plan& plan, bool registered_here,
                         wire::name& self) {
  const base::gate_pass making(host.rendezvous.making);
  if (host.engine.watch.has_ended(plan.rank)) [[unlikely]]
    return false;
  const auto made = host.rendezvous.recvs.insert(plan);
  made.object->registered_here = registered_here;
  self = made.name;
  return true;
}

void start_receive(host_context& host, wire::name sender, const recv_plan& plan) {
  mem::region target{plan.user.status.buffer, plan.user.status.size, plan.kind, {}, false};
  network_key key;
  const bool is_named = plan.region.generation != 0;
  try {
    if (plan.from_device || plan.kind != mem::mem_kind::host) [[unlikely]] {
      std::string why_not;
      const target_way way = host.accelerator->find_target(sender, plan, target, key, why_not);
      if (way == target_way::none) return;
      if (way == target_way::staged) return host.accelerator->receive_staged(sender, plan, why_not);
    } else if (!is_named && !register_destination(host, plan, key)) [[unlikely]] {
      return host.accelerator->receive_in_pieces(sender, plan);
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {  // there is no accelerator
    return give_up(host, sender, plan, std::current_exception());
  }
  recv_plan mine = plan;
  mine.local_key = key.get();
  if (!is_named) {
    try {
      mine.region = host.engine.shared.regions.insert(target);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (...) {
      return give_up(host, sender, plan, std::current_exception());
    }
  }
  base::undo insertion([&]() noexcept {
    if (!is_named) host.engine.shared.regions.erase(mine.region);
  });
  if (!is_named)
    host.engine.fabric.publish({mine.region.slot, mine.region.generation}, mine.local_key);
  wire::name self;
  if (!keep_receive(host, mine, !is_named, self)) [[unlikely]] {
    mine.local_key = 0;  // ends here
    return end_receive(host, mine, false);
  }
  insertion.keep();
  key.release();  // goes with the state
  wire::rtr body;
  body.sender = sender;
  body.receiver = self;
  body.region = {mine.region.slot, mine.region.generation};
  body.offset = plan.region_offset;
  body.at = target_of(host, plan.rank, body.region);
  if (host.gpu_path == attr_gpu_path_t::direct) body.through.bytes = wire::DIRECT_ONLY;
  host.engine.control.send_control(plan.rank, wire::kind::rtr, body);
}

// ---- the receiver ----

void give_up(host_context& host, wire::name sender, const recv_plan& plan,
             std::exception_ptr why) noexcept {
  host.engine.errors.keep(std::move(why));
  host.engine.say(plan.rank, wire::kind::drop_send, wire::drop{sender, 0, 0});
  end_receive(host, plan, false);
}

static void end_posted(host_context& host, const recv_plan& plan, bool ok) {
  // The message came over this device, and that of the receive may have been freed meanwhile: it
  // waits for the end, but not for ever.
  if (plan.counted == &host || host.engine.shared.has(plan.counted->engine))
    plan.counted->open_receives.add(-1);
  host.engine.signals.tell(plan.user, ok);
}

constexpr receiver POSTED = {&end_posted};

}  // namespace lci::proto
