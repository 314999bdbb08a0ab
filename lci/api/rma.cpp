// Put and get, and the general post that stands for all five operations.
#include <string>

#include "lci/api/post_run.hpp"
#include "lci/errors.hpp"

namespace lci {

namespace {

using detail::post_args;

net::remote_key key_of(const rmr_t& rmr) noexcept {
  return {static_cast<std::uint32_t>(rmr.opaque_rkey),
          static_cast<std::uint32_t>(rmr.opaque_rkey >> 32)};
}

[[noreturn]] LCI_COLD void throw_unknown_key(const post_args& a) {
  throw argument_error("rmr names no memory that rank " + std::to_string(a.rank) +
                       " has registered (slot " + std::to_string(key_of(a.rmr).slot) +
                       ", generation " + std::to_string(key_of(a.rmr).generation) + ")");
}

[[noreturn]] LCI_COLD void throw_out_of_region(const post_args& a, std::size_t region) {
  throw argument_error("remote_disp " + std::to_string(a.remote_disp) + " with size " +
                       std::to_string(a.size) + " is not inside the region of " +
                       std::to_string(region) + " bytes that rank " + std::to_string(a.rank) +
                       " has registered");
}

// False: the peer is not connected yet, so its registrations cannot be seen.
bool check_remote(const post_args& a, net::fabric& fabric, net::remote_view& view) {
  view = fabric.check_remote(a.rank, key_of(a.rmr));
  using answer = net::remote_view::answer;
  if (view.what == answer::not_connected) return false;
  if (view.what == answer::unknown_key) throw_unknown_key(a);
  if (a.remote_disp > view.size || a.size > view.size - a.remote_disp)
    throw_out_of_region(a, view.size);
  return true;
}

template <class Start>
status_t post_rma(const post_args& a, rcomp_t rcomp, Start&& start) {
  const api::permission allow(a);
  endpoint_impl_t& end = api::find_endpoint(a.runtime, a.device, a.endpoint);
  proto::channel& via = end.device.channel;
  api::check_rank(a, via.shared);
  api::check_buffer(a);
  if (a.rmr.is_empty()) throw argument_error("rmr is empty: it names no remote memory");
  if (rcomp != 0 && !via.shared.imm.fits(rcomp, a.tag))
    throw argument_error("tag " + std::to_string(a.tag) + " and remote_comp " +
                         std::to_string(rcomp) +
                         " do not fit the notification of a put; the largest are " +
                         std::to_string(via.shared.imm.max_tag()) + " and " +
                         std::to_string(via.shared.imm.max_rcomp()));
  return api::run(a, allow, via, [&](const proto::user_side& user, bool may_retry, status_t&) {
    // Before the first contact the bounds cannot be checked, and a wrong post must throw here and
    // not later, so it has to wait for the contact even if it may not be refused.
    net::remote_view there;
    if (!check_remote(a, *end.device.context.fabric, there)) {
      if (may_retry) return errorcode_t::retry_nomem;
      api::waiting wait(via);
      while (!check_remote(a, *end.device.context.fabric, there)) {
        wait.progress();
        api::check_peer(via, a.rank);
      }
    }
    proto::outgoing out = api::describe(a, end, user, may_retry);
    out.rcomp = rcomp;
    out.remote = key_of(a.rmr);
    out.remote_offset = a.remote_disp;
    out.there = there;
    return start(out);
  });
}

}  // namespace

namespace detail {

status_t post_put(const post_args& a) { return post_rma(a, a.remote_comp, &proto::start_put); }

status_t post_get(const post_args& a) {
  if (a.remote_comp != 0)
    throw argument_error("remote_comp " + std::to_string(a.remote_comp) +
                         " with a get: not supported");
  return post_rma(a, 0, &proto::start_get);
}

status_t post_comm(const post_args& a) {
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
