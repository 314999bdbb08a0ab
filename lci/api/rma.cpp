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
status_t post_rma(const post_args& a, rcomp_t rcomp, proto::news what, Start&& start) {
  const api::permission allow(a);
  endpoint_impl_t& end = api::find_endpoint(a.runtime, a.device, a.endpoint);
  proto::channel& via = end.device.channel;
  api::check_rank(a, via.shared);
  api::check_given(a);
  api::check_room("local_buffer", a.local_buffer, a.size, via.shared.arena);
  api::check_rmr(a.rmr, a.rank, via.shared);
  if (rcomp != 0 && rcomp < via.shared.rcomps.end_of_engines())
    api::check_names_object("post_put", rcomp, via.shared);
  if (rcomp != 0 && !via.shared.imm.fits(rcomp, a.tag))
    throw argument_error("tag " + std::to_string(a.tag) + " and remote_comp " +
                         std::to_string(rcomp) +
                         " do not fit the notification of a put; the largest are " +
                         std::to_string(via.shared.imm.max_tag()) + " and " +
                         std::to_string(via.shared.imm.max_rcomp()));
  const auto begin = [&](const proto::user_side& user, bool may_retry, status_t&) {
    // Before the first contact the bounds cannot be checked, and a wrong post must throw here and
    // not later, so it has to wait for the contact even if it may not be refused.
    net::remote_view there;
    net::fabric& fabric = *end.device.context.fabric;
    const api::remote_span at{a.rank, a.rmr, a.remote_disp, a.size, "remote_disp"};
    if (!api::check_remote(at, fabric, there)) {
      // Now, not after progress, which may hand a packet that was put back to somebody else.
      api::check_packet(a, via.shared);
      if (may_retry) return errorcode_t::retry_nomem;
      api::waiting wait(via);
      while (!api::check_remote(at, fabric, there)) {
        wait.progress();
        api::check_peer(via, a.rank);
      }
    }
    proto::outgoing out = api::describe(a, end, user, may_retry);
    out.rcomp = rcomp;
    out.remote = key_of(a.rmr);
    out.remote_offset = a.remote_disp;
    out.there = there;
    api::spent_packet packet(what == proto::news::put ? out.packet : nullptr);
    return packet.answered(start(out));
  };
  return api::run(a, allow, via, what, begin);
}

}  // namespace

namespace detail {

status_t post_put(const post_args& a) {
  return post_rma(a, a.remote_comp, proto::news::put, &proto::start_put);
}

status_t post_get(const post_args& a) {
  if (a.remote_comp != 0)
    throw argument_error("remote_comp " + std::to_string(a.remote_comp) +
                         " with a get: not supported");
  return post_rma(a, 0, proto::news::get, &proto::start_get);
}

status_t post_comm(const post_args& a) {
  api::check_given(a.matching_engine);  // also where none is needed
  if (static_cast<unsigned>(a.direction) > static_cast<unsigned>(direction_t::IN)) [[unlikely]]
    throw argument_error("post_comm: direction is " +
                         std::to_string(static_cast<unsigned>(a.direction)) +
                         "; legal are OUT (0) and IN (1)");
  const bool has_rmr = !a.rmr.is_empty();
  if (a.direction == direction_t::OUT) {
    if (has_rmr) return post_put(a);
    return a.remote_comp != 0 ? post_am(a) : post_send(a);
  }
  if (has_rmr) return post_get(a);
  if (a.remote_comp != 0)
    throw argument_error(
        "post_comm: direction IN with a remote completion and no remote memory is no operation");
  return post_recv(a);
}

}  // namespace detail
}  // namespace lci
