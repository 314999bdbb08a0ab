// Send, receive and active message: arguments are checked, handles become objects, and a protocol
// is started.
#include <string>

#include "lci/api/post_run.hpp"
#include "lci/base/race_point.hpp"
#include "lci/errors.hpp"

namespace lci {

namespace {

using detail::post_args;

// The most frequent case, tried before anything is gathered: a few bytes that the network takes at
// once. Everything else, refusals and wrong arguments included, takes the long path. Worth a
// function of its own: it costs a third of the instructions of the long path.
inline bool inject_now(const post_args& a, endpoint_impl_t& end, rcomp_t rcomp) noexcept {
  const proto::core& core = end.core;
  if (a.size > end.inject_now_limit || a.mr.p_impl != nullptr || a.packet_pool.p_impl != nullptr ||
      a.comp_semantic != comp_semantic_t::memory || !a.allow_done)
    return false;
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n) ||
      core.peers.has_ended(a.rank))
    return false;
  if (!core.imm.fits(rcomp, a.tag) || end.queue->log.any() ||
      core.arena.packet_window().covers(a.local_buffer))
    return false;
  if (!base::is_near(a.local_buffer, a.size) ||
      !(a.local_comp.is_empty() || comp::is_live(a.local_comp)))
    return false;
  return end.net.send_inline(a.rank, core.imm.encode(rcomp, a.tag), nullptr, 0, a.local_buffer,
                             a.size) == errorcode_t::done;
}

// Send and active message.
[[gnu::noinline]] status_t post_message(const post_args& a, rcomp_t rcomp, endpoint_impl_t& end,
                                        proto::news what) {
  const api::permission allow(a);
  proto::device_queues& queues = end.device.queues;
  api::check_rank(what == proto::news::am ? "post_am" : "post_send", a, queues.engine());
  api::check_given(a);
  const auto start = [&](const proto::user_side& user, bool may_retry, status_t&) {
    proto::outgoing out = api::describe(a, end, user, may_retry);
    out.rcomp = rcomp;
    out.extended = !queues.engine().shared.imm.fits(rcomp, a.tag);
    api::spent_packet packet(out.packet);
    return packet.answered(proto::start_message(out));
  };
  return api::run(a, allow, queues, what, start);
}

// The same for a receive: into host memory from one rank and with one tag, with an object that is
// told later. Anything else takes the long path, wrong arguments included.
inline bool is_ordinary_receive(const post_args& a, const endpoint_impl_t& end) noexcept {
  const proto::core& core = end.core;
  if (reinterpret_cast<std::uintptr_t>(a.local_comp.p_impl) <= 1 || !comp::is_live(a.local_comp) ||
      !a.allow_posted || a.mr.p_impl != nullptr || a.packet_pool.p_impl != nullptr ||
      end.checks_pointers)
    return false;
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n) || a.tag == ANY_TAG ||
      core.peers.epoch() != 0 || a.matching_policy != matching_policy_t::rank_tag ||
      static_cast<unsigned>(a.comp_semantic) > static_cast<unsigned>(comp_semantic_t::network))
    return false;
  return a.local_buffer != nullptr && base::is_surely_in_space(a.local_buffer, a.size) &&
         !core.arena.packet_window().covers(a.local_buffer);
}

inline proto::early_receive ordinary_receive(const post_args& a) noexcept {
  return {a.local_comp.p_impl, a.rank, a.tag, a.local_buffer, a.size, a.user_context};
}

// Any receive. The other two take an ordinary one further: where threads share the engine or no
// record is at hand; and when a rank has ended since it was filed.
[[gnu::noinline]] status_t post_receive(const post_args& a, endpoint_impl_t& end);
[[gnu::noinline]] status_t post_shared_receive(const post_args& a, endpoint_impl_t& end);
LCI_COLD status_t end_receive(const post_args& a, endpoint_impl_t& end, proto::receive& filed);

}  // namespace

namespace detail {

status_t post_send(const post_args& a) {
  endpoint_impl_t& end = api::find_endpoint("post_send", a.runtime, a.device, a.endpoint);
  api::check_policy(a);
  const matching_engine_impl_t& engine = api::find_engine(a, end);
  const rcomp_t rcomp = engine.match.first_rcomp + static_cast<rcomp_t>(a.matching_policy);
  if (inject_now(a, end, rcomp)) [[likely]]
    return api::status_of(a, errorcode_t::done);
  return post_message(a, rcomp, end, proto::news::send);
}

status_t post_am(const post_args& a) {
  endpoint_impl_t& end = api::find_endpoint("post_am", a.runtime, a.device, a.endpoint);
  api::check_names_object("post_am", a.remote_comp, end.core);
  if (inject_now(a, end, a.remote_comp)) [[likely]]
    return api::status_of(a, errorcode_t::done);
  return post_message(a, a.remote_comp, end, proto::news::am);
}

status_t post_recv(const post_args& a) {
  endpoint_impl_t& end = api::find_endpoint("post_recv", a.runtime, a.device, a.endpoint);
  if (!is_ordinary_receive(a, end)) [[unlikely]]
    return post_receive(a, end);
  const auto posted = api::find_engine(a, end).match.post_alone(
      end.device.queues.host, a.rank, a.tag, [&a]() noexcept { return ordinary_receive(a); });
  if (posted.filed == nullptr) [[unlikely]]
    return posted.message_waits ? post_receive(a, end) : post_shared_receive(a, end);
  LCI_RACE_POINT("post.post_recv.after_filing");
  if (end.core.peers.epoch() != 0) [[unlikely]]
    return end_receive(a, end, *posted.filed);
  return api::status_of(a, errorcode_t::posted);
}

}  // namespace detail

namespace {

// How an ordinary receive was posted; retry: not at all, which is left to the long path.
status_t told(const post_args& a, endpoint_impl_t& end, errorcode_t code) {
  if (code == errorcode_t::posted) [[likely]]
    return api::status_of(a, code);
  if (code == errorcode_t::fatal) end.core.peers.throw_ended(a.rank);
  return post_receive(a, end);
}

status_t post_shared_receive(const post_args& a, endpoint_impl_t& end) {
  return told(
      a, end,
      api::find_engine(a, end).match.post_early(end.device.queues.host, ordinary_receive(a)));
}

status_t end_receive(const post_args& a, endpoint_impl_t& end, proto::receive& filed) {
  return told(a, end,
              api::find_engine(a, end).match.end_early(end.device.queues.host, filed, a.rank));
}

status_t post_receive(const post_args& a, endpoint_impl_t& end) {
  api::permission allow(a);
  // Programs that give an object do not expect retry of a receive: without posted it waits.
  if (!a.local_comp.is_empty()) allow.retry = false;
  proto::device_queues& queues = end.device.queues;
  api::check_source("post_recv", a, queues.engine().shared);
  api::check_given(a);
  api::check_room("local_buffer", a.local_buffer, a.size, queues.engine().shared.arena);
  api::check_policy(a);
  matching_engine_impl_t& engine = api::find_engine(a, end);
  mem::memory_place place;
  if (a.mr.p_impl != nullptr && a.mr.is_empty() && a.size != 0) [[unlikely]]
    place =
        api::find_place("local_buffer", a.local_buffer, a.size, a.mr, end.device.owner().shared);
  if (end.checks_pointers) api::check_pointer("local_buffer", a.local_buffer, a.size, a.mr);
  const auto start = [&](const proto::user_side& user, bool, status_t& got) {
    proto::receive& record = *queues.host.common.receives.get();
    record.user = user;
    record.host = &queues.host;
    record.region = {};
    record.region_offset = 0;
    record.kind = place.kind;
    record.gpu = place.device;
    if (!a.mr.is_empty()) {
      const mr_impl_t& mr = *a.mr.p_impl;
      record.kind = mr.place.kind;
      record.gpu = mr.place.device;
      record.region = mr.name;
      record.region_offset = static_cast<std::uint64_t>(static_cast<std::byte*>(a.local_buffer) -
                                                        static_cast<std::byte*>(mr.address));
    }
    return engine.match.post(record, a.rank, a.tag, a.matching_policy, got);
  };
  return api::run(a, allow, queues, proto::news::receive, start, &engine.match);
}

}  // namespace
}  // namespace lci
