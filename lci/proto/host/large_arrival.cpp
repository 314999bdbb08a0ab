#include "lci/proto/host/large_arrival.hpp"

#include <new>
#include <optional>
#include <stdexcept>
#include <string>

#include "lci/completion.hpp"
#include "lci/proto/host/arrival_buffer.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/proto/host/rendezvous.hpp"

namespace lci::proto {

namespace {

// Answers the request of a message for a completion object. is_in_turn: it is under way in the
// window of its rank. Throws std::bad_alloc: nothing has changed.
LCI_COLD net::verdict start_arrival(host_context& host, int rank, const wire::rts& request,
                                    bool is_in_turn) {
  progress_engine& engine = host.engine;
  const remote_target to = engine.shared.rcomps.find(request.rcomp);
  const auto is_over = [&] {
    if (is_in_turn) host.window.leave(rank, request.size);
    return net::verdict::taken;
  };
  if (to.comp == nullptr) {
    drop_message(engine, rank, request.rcomp);
    // The sender waits for an answer.
    engine.say(rank, wire::kind::drop_send, wire::drop{request.sender, 0, 0});
    return is_over();
  }
  const std::uint32_t serial = to.comp->attr.serial;  // the allocator may run code that frees it
  if (to.comp->attr.zero_copy_am && host.payloads.load(std::memory_order_relaxed) != nullptr) {
    host.accelerator->on_rts(*to.comp, rank, request);
    return is_over();
  }
  am_place at;
  if (to.comp->attr.zero_copy_am && request.size <= engine.max_in_packet) {
    // The sink's spare one is not looked at: a later poll finds it in the pool.
    mem::packet* const packet = engine.pool.get();
    if (packet == nullptr) return net::verdict::deferred;
    at.buffer = packet->payload();
  } else if (!take_buffer(host, request.size, at)) {
    engine.errors.keep_made([&] {
      return std::runtime_error("the allocator has no buffer for an active message of " +
                                std::to_string(request.size) + " bytes from rank " +
                                std::to_string(rank) + "; the message was dropped");
    });
    engine.say(rank, wire::kind::drop_send, wire::drop{request.sender, 0, 0});
    return is_over();
  }
  recv_plan plan = plan_of_arrival(*to.comp, serial, rank, request, at);
  plan.is_in_turn = is_in_turn;
  try {
    start_receive(host, request.sender, plan);
  } catch (...) {
    engine.shared.give_back(at.buffer, at.allocator);
    throw;
  }
  return net::verdict::taken;
}

// Bytes that such a message and others of its rank may have under way at once; 0: any number. What
// goes into a packet takes no part: the pool may be empty.
std::size_t window_of(const host_context& host, int rank, const wire::rts& request) noexcept {
  if ((request.flags & wire::FROM_DEVICE) != 0 || request.size <= host.engine.max_in_packet ||
      host.engine.shared.allocator.load(std::memory_order_relaxed) != &g_allocator_default)
    return 0;
  return host.engine.fabric.caps_of(rank).best_at_once;
}

}  // namespace

void grant_arrivals(host_context& host, int rank) noexcept {
  if (!host.window.begin(rank)) return;
  const std::size_t limit = host.engine.fabric.caps_of(rank).best_at_once;
  while (const std::optional<wire::rts> request = host.window.next(rank, limit)) {
    try {
      start_arrival(host, rank, *request, true);
    } catch (const std::bad_alloc&) {
      if (host.window.put_back(rank, *request)) host.expect_leftovers(1);
      return;
    }
  }
}

LCI_COLD net::verdict on_rts(host_context& host, int rank, const wire::rts& request) {
  const remote_target to = host.engine.shared.rcomps.find(request.rcomp);
  if (to.match != nullptr) return matcher::of(*to.match).on_rts(host, rank, request, to.policy);
  if (window_of(host, rank, request) == 0) return start_arrival(host, rank, request, false);
  host.window.add(rank, request);
  grant_arrivals(host, rank);
  return net::verdict::taken;
}

// ---- the end ----

static void end_active_message(host_context& host, const recv_plan& plan, bool ok) {
  // Before the handler, which may wait for a message that waits here.
  if (plan.is_in_turn) {
    host.window.leave(plan.rank, plan.user.status.size);
    grant_arrivals(host, plan.rank);
  }
  if (!ok) {
    host.engine.shared.give_back(plan.user.status.buffer, plan.allocator);
    return host.engine.signals.tell(plan.user, false);
  }
  if (plan.payload != nullptr) mem::home_of(*plan.payload).leave_operation(*plan.payload);
  host.engine.signals.signal_given(plan.user.comp, plan.user.serial, plan.user.status, false,
                                   news::message, plan.allocator);
}

constexpr receiver ACTIVE_MESSAGE = {&end_active_message};

}  // namespace lci::proto
