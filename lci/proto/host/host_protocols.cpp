#include "lci/proto/host/host_protocols.hpp"

#include <exception>
#include <new>
#include <utility>

#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/arrival.hpp"
#include "lci/proto/host/large_arrival.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/proto/host/rendezvous_answer.hpp"

namespace lci::proto {

host_protocols::host_protocols(host_context& host) : host_(host) {
  host.protocols = this;
  host.engine.add_part(*this);
  host.engine.handlers.set_arrivals(*this);
  control_dispatch& to = host.engine.dispatch;
  to.add<wire::rts, &on_rts>(wire::kind::rts, host);
  to.add<wire::rtr, &on_rtr>(wire::kind::rtr, host);
  to.add<wire::fin, &on_fin>(wire::kind::fin, host);
  to.add<wire::signal_body, &on_signal>(wire::kind::signal, host);
  to.add<wire::restage, &on_restage>(wire::kind::restage, host);
  to.add<wire::drop, &on_drop_send>(wire::kind::drop_send, host);
  to.add<wire::drop, &on_drop_receive>(wire::kind::drop_receive, host);
}

host_protocols::~host_protocols() {
  message* all = host_.take_answers();
  while (all != nullptr) {
    message& request = *std::exchange(all, all->pool_next);
    receive& to = *request.met;
    if (to.host == &host_) {
      abandon(to.user.comp);
    } else if (host_.engine.shared.has(to.host->engine)) {  // the call that posted it may wait
      to.host->open_receives.add(-1);
      to.host->engine.errors.keep(std::make_exception_ptr(std::bad_alloc()));
      to.host->engine.signals.fail(to.user);
    }
    host_.common.receives.put(&to);
    host_.common.messages.put(&request);
  }
}

std::size_t host_protocols::serve_waiting() noexcept {
  std::size_t served = 0;
  for (message* all = host_.take_answers(); all != nullptr; ++served) {
    message& request = *std::exchange(all, all->pool_next);
    host_.expect_leftovers(-1);
    give_answer(*request.met, request);
  }
  // One each time: where there still is no memory it is starved again.
  if (const int rank = host_.window.take_starved(); rank >= 0) {
    host_.expect_leftovers(-1);
    grant_arrivals(host_, rank);
    ++served;
  }
  return served;
}

net::verdict host_protocols::deliver_in_turn(const net::arrival& from, rcomp_t rcomp,
                                             tag_t tag) noexcept {
  return single_arrival(host_).deliver_in_turn(from, rcomp, tag);
}

void host_protocols::on_peer_ended(int rank, peer_end how) noexcept {
  end_sends_to(host_, rank);
  // Before, the word that the bytes are there may be what is still to be read.
  if (how >= peer_end::all_here) end_receives_from(host_, rank);
  host_.engine.shared.rcomps.for_each_engine(
      [&](match_target& one) { matcher::of(one).forget_requests_of(host_.common, rank); });
  if (how == peer_end::failed) end_receives(take_lost(rank));
}

// Once, when nothing of that rank is on its way any more.
bool host_protocols::on_all_in(int rank) noexcept {
  if (!host_.begin_parting(rank)) return false;
  const std::size_t ended = end_receives(take_lost(rank));
  host_.end_parting(rank);
  return ended != 0;
}

// Those for which only that rank could send, out of all engines.
receive* host_protocols::take_lost(int rank) noexcept {
  receive* taken = nullptr;
  host_.engine.shared.rcomps.for_each_engine(
      [&](match_target& one) { taken = matcher::of(one).take_lost(host_, rank, taken); });
  return taken;
}

namespace {

using base::report::kind;
using base::report::record;
using base::report::sheet;

// The state of that name, copied by take() with no lock: kept only if the name is still its own.
template <class Table, class Take>
void look_at(const Table& table, sheet& to, kind what, Take&& take) noexcept {
  if (table.size() == 0) return;
  const std::uint32_t slots = table.slots();
  for (std::uint32_t i = 0; i < slots; ++i) {
    const wire::name name = table.name_at(i);
    const auto* const side = table.find(name);
    if (side == nullptr) continue;
    record copy{};
    take(*side, copy);
    if (table.find(name) != side) continue;
    record* const r = to.add(what);
    if (r == nullptr) return;
    copy.what = what;
    copy.age_ms = -1;
    *r = copy;
  }
}

template <class Plan>
void take_plan(const Plan& plan, record& out) noexcept {
  out.tag = plan.user.status.tag;
  out.size = plan.user.status.size;
  out.object = reinterpret_cast<std::uintptr_t>(plan.user.comp);
}

}  // namespace

void host_protocols::report(sheet& to) noexcept {
  if (record* const r = to.add(kind::device)) {
    r->number = static_cast<std::uint64_t>(host_.engine.open.sum());
    r->size = static_cast<std::uint64_t>(host_.open_receives.sum());
  }
  look_at(host_.rendezvous.sends, to, kind::send, [](const send_side& side, record& out) {
    out.rank = side.rank.load(std::memory_order_relaxed);
    out.how = side.state == send_state::rts_sent ? 0 : 1;
    if (!side.plan.has_receive) out.flags = base::report::NO_RECEIVE;
    take_plan(side.plan, out);
  });
  look_at(host_.rendezvous.recvs, to, kind::incoming, [](const recv_side& side, record& out) {
    out.rank = side.rank.load(std::memory_order_relaxed);
    take_plan(side.plan, out);
  });
  if (host_.window.waiting() == 0) return;
  const bool has_window =
      host_.window.try_look([&](int rank, std::uint64_t messages, std::uint64_t bytes) {
        record* const r = to.add(kind::turn);
        if (r == nullptr) return;
        r->rank = rank;
        r->number = messages;
        r->size = bytes;
      });
  if (!has_window) to.add(kind::busy, "a list of messages");
}

}  // namespace lci::proto
