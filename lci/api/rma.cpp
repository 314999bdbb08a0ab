// Put and get, and the general post that stands for all five operations.
#include <string>

#include "lci/api/post_run.hpp"
#include "lci/api/remote_name.hpp"
#include "lci/errors.hpp"

namespace lci {

namespace {

using api::key_of;
using detail::post_args;

template <class Start>
status_t post_rma(const post_args& a, endpoint_impl_t& end, proto::news what, Start&& start) {
  const api::permission allow(a);
  proto::device_queues& queues = end.device.queues;
  api::check_rank(what == proto::news::put ? "post_put" : "post_get", a, queues.engine());
  api::check_given(a);
  api::check_room("local_buffer", a.local_buffer, a.size, queues.engine().shared.arena);
  api::check_rmr(a.rmr, a.rank, queues.engine().shared);
  if (what == proto::news::put) api::check_notification(a, queues.engine().shared);
  const auto begin = [&](const proto::user_side& user, bool may_retry, status_t&) {
    // Before the first contact the bounds cannot be checked, and a wrong post must throw here and
    // not later, so it waits for the contact even if it may not be refused.
    net::remote_view there;
    const api::remote_span at{a.rank, a.rmr, a.remote_disp, a.size, "remote_disp"};
    if (!api::check_remote(at, queues.engine(), there)) {
      if (may_retry) return errorcode_t::retry_nomem;
      api::waiting wait(queues);
      while (!api::check_remote(at, queues.engine(), there)) {
        wait.progress([&]() noexcept {
          return base::waiting_call{"first contact", nullptr, a.rank};
        });
        api::check_peer(queues, a.rank);
      }
    }
    proto::outgoing out = api::describe(a, end, user, may_retry);
    out.rcomp = a.remote_comp;
    out.remote = key_of(a.rmr);
    out.remote_offset = a.remote_disp;
    out.there = there;
    api::spent_packet packet(what == proto::news::put ? out.packet : nullptr);
    return packet.answered(start(out));
  };
  return api::run(a, allow, queues, what, begin);
}

// The most frequent put, tried before anything is gathered: a few bytes that the network copies at
// once. Everything else, refusals and wrong arguments included, takes the long way.
inline bool put_now(const post_args& a, endpoint_impl_t& end) noexcept {
  const proto::core& core = end.core;
  if (a.size > end.inject_now_limit || a.size == 0 || a.mr.p_impl != nullptr ||
      a.packet_pool.p_impl != nullptr || a.comp_semantic != comp_semantic_t::memory ||
      !a.allow_done)
    return false;
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n) ||
      core.peers.has_ended(a.rank) || end.queue->log.any() ||
      core.arena.packet_window().covers(a.local_buffer) || !base::is_near(a.local_buffer, a.size) ||
      !(a.local_comp.is_empty() || comp::is_live(a.local_comp)))
    return false;
  if (core.seal.check_of(a.rmr.base, a.rmr.opaque_rkey, a.rank) != a.rmr.mr_base) return false;
  net::small_put what{a.rank, key_of(a.rmr), a.remote_disp, a.local_buffer, a.size, false, 0};
  if (a.remote_comp != 0) {
    if (a.remote_comp < core.rcomps.end_of_engines() || !core.imm.fits(a.remote_comp, a.tag))
      return false;
    what.has_imm = true;
    what.imm = core.imm.encode(a.remote_comp, a.tag);
  }
  return end.net.put_inline(what) == errorcode_t::done;
}

}  // namespace

detail::post_kind_t api::find_operation(const post_args& a) {
  using kind = detail::post_kind_t;
  if (static_cast<unsigned>(a.direction) > static_cast<unsigned>(direction_t::IN)) [[unlikely]]
    throw argument_error("post_comm: direction is " +
                         std::to_string(static_cast<unsigned>(a.direction)) +
                         "; legal are OUT (0) and IN (1)");
  const bool has_rmr = !a.rmr.is_empty();
  if (a.direction == direction_t::OUT) {
    if (has_rmr) return kind::put;
    return a.remote_comp != 0 ? kind::am : kind::send;
  }
  if (has_rmr) return kind::get;
  if (a.remote_comp != 0)
    throw argument_error(
        "post_comm: direction IN with a remote completion and no remote memory is no operation");
  return kind::recv;
}

namespace detail {

status_t post_put(const post_args& a) {
  endpoint_impl_t& end = api::find_endpoint("post_put", a.runtime, a.device, a.endpoint);
  if (put_now(a, end)) [[likely]]
    return api::status_of(a, errorcode_t::done);
  return post_rma(a, end, proto::news::put, &proto::start_put);
}

status_t post_get(const post_args& a) {
  api::check_no_notification(a);
  return post_rma(a, api::find_endpoint("post_get", a.runtime, a.device, a.endpoint),
                  proto::news::get, &proto::start_get);
}

status_t post_comm(const post_args& a) {
  api::check_given(a.matching_engine);  // even where none is needed
  switch (api::find_operation(a)) {
    case post_kind_t::put:
      return post_put(a);
    case post_kind_t::get:
      return post_get(a);
    case post_kind_t::am:
      return post_am(a);
    case post_kind_t::recv:
      return post_recv(a);
    default:
      return post_send(a);
  }
}

}  // namespace detail
}  // namespace lci
