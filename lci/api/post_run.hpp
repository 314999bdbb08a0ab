// What all posts share: checks, results, and waiting for calls that must not return "posted".
// Threads: any. Included by the files that implement posts, nothing else.
#pragma once

#include <new>

#include "lci/api/buffer_kind.hpp"
#include "lci/api/buffers.hpp"
#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/comp/signal.hpp"
#include "lci/post.hpp"
#include "lci/proto/host/select.hpp"
#include "lci/stream.hpp"

namespace lci::api {

using detail::post_args;

// For people.
inline constexpr const char* BLOCKING_POST = "a blocking post";

[[noreturn]] LCI_COLD void throw_no_answer_allowed();
[[noreturn]] LCI_COLD void throw_bad_rank(const char* who, int rank, int n);
[[noreturn]] LCI_COLD void throw_bad_policy(const post_args& a);
[[noreturn]] LCI_COLD void throw_bad_semantic(comp_semantic_t semantic);

// What the caller allows, with the meaning of the null completion objects applied.
struct permission {
  bool done;
  bool posted;
  bool retry;

  explicit permission(const post_args& a)
      : done(a.allow_done), posted(a.allow_posted), retry(a.allow_retry) {
    const auto comp = reinterpret_cast<std::uintptr_t>(a.local_comp.p_impl);
    if (comp <= 1) posted = false;
    if (comp == 0) retry = false;
    if (comp > 1) comp::any(a.local_comp, "local_comp");  // throws for one that was freed
    if (!done && !posted) [[unlikely]]
      throw_no_answer_allowed();
  }
};

// Checks the arguments that find_endpoint() does not look at.
inline void check_given(const post_args& a) {
  check_buffer("local_buffer", a.local_buffer, a.size, a.mr);
  check_given(a.packet_pool);
  if (static_cast<unsigned>(a.comp_semantic) > static_cast<unsigned>(comp_semantic_t::network))
      [[unlikely]]
    throw_bad_semantic(a.comp_semantic);
}

LCI_COLD void look_at_number(const char* who, rcomp_t number, const proto::core& core);
// Throws argument_error for a number that names nothing, and for that of a matching engine, in
// which a message would look like a send.
inline void check_names_object(const char* who, rcomp_t number, const proto::core& core) {
  if (number < core.rcomps.end_of_engines()) [[unlikely]]
    look_at_number(who, number, core);
}

[[noreturn]] LCI_COLD void throw_too_wide(const post_args& a, const proto::core& core);
// For a put: checks the number that it signals, if any, and its tag.
inline void check_notification(const post_args& a, const proto::core& core) {
  if (a.remote_comp == 0) return;
  check_names_object("post_put", a.remote_comp, core);
  if (!core.imm.fits(a.remote_comp, a.tag)) throw_too_wide(a, core);
}

[[noreturn]] LCI_COLD void throw_get_with_number(const post_args& a);
inline void check_no_notification(const post_args& a) {
  if (a.remote_comp != 0) throw_get_with_number(a);
}

inline void check_policy(const post_args& a) {
  if (static_cast<unsigned>(a.matching_policy) >= static_cast<unsigned>(matching_policy_t::max))
      [[unlikely]]
    throw_bad_policy(a);
}

inline matching_engine_impl_t& find_engine(const post_args& a, endpoint_impl_t& end) {
  if (a.matching_engine.p_impl != nullptr)
    return *base::check_live(a.matching_engine.p_impl, "matching_engine");
  const matching_engine_t engine = end.device.owner().default_matching_engine;
  if (engine.p_impl == nullptr) throw_no_default("matching_engine");
  return *engine.p_impl;
}

// The operation that the general post stands for. Throws argument_error if it is none.
detail::post_kind_t find_operation(const post_args& a);

inline void check_rank(const char* who, const post_args& a, const proto::progress_engine& engine) {
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(engine.shared.n)) [[unlikely]]
    throw_bad_rank(who, a.rank, engine.shared.n);
  engine.watch.check(a.rank);
}

// A receive may still take what its peer sent before it left; ranks that have failed are refused.
inline void check_source(const char* who, const post_args& a, const proto::core& core) {
  if (a.rank == ANY_SOURCE) return;
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n)) [[unlikely]]
    throw_bad_rank(who, a.rank, core.n);
  if (core.peers.has_failed(a.rank)) [[unlikely]]
    core.peers.throw_ended(a.rank);
}

inline status_t status_of(const post_args& a, errorcode_t code) noexcept {
  status_t status(code);
  status.rank = a.rank;
  status.buffer = a.local_buffer;
  status.size = a.size;
  status.tag = a.tag;
  status.user_context = a.user_context;
  return status;
}

// Ends a call that waits for that rank if the rank is lost.
inline void check_peer(proto::device_queues& queues, int rank) {
  if (!queues.engine().watch.has_ended(rank)) [[likely]]
    return;
  queues.engine().errors.lost.heard(rank);
  queues.engine().shared.peers.throw_ended(rank);
}

// Waits until `w`, the object of an operation under way, is signalled. Ends with an exception when
// the peer is lost or, for ANY_SOURCE, when any rank was lost since `wait` was made. A receive is
// filed in an engine and is taken out of it then; if a message has met it already, the call goes on
// until it completes.
status_t wait_for(proto::waiter* w, proto::device_queues& queues, int rank, waiting& wait,
                  proto::matcher* filed_in);

// For a receive that may return retry: after one round of progress it is taken out of its engine
// again, unless a message has met it.
LCI_COLD bool is_taken_back(proto::waiter* w, proto::device_queues& queues, waiting& wait,
                            proto::matcher& filed_in);

// A packet that a post consumes no longer belongs to the program, unless the post returns retry or
// throws. One that was borrowed, or whose payload is apart, is marked in its own way.
class spent_packet {
 public:
  explicit spent_packet(mem::packet* packet) noexcept : packet_(packet) {
    if (packet_ != nullptr) [[unlikely]]
      begin();
  }
  ~spent_packet() {
    if (packet_ != nullptr) [[unlikely]]
      end();
  }
  spent_packet(const spent_packet&) = delete;
  spent_packet& operator=(const spent_packet&) = delete;
  errorcode_t answered(errorcode_t code) noexcept {
    if (error_t(code).is_done() || error_t(code).is_posted()) packet_ = nullptr;
    return code;
  }

 private:
  LCI_COLD void begin() noexcept;
  LCI_COLD void end() noexcept;
  mem::packet* packet_;
};

// Fills in what all outgoing operations have in common.
proto::outgoing describe(const post_args& a, endpoint_impl_t& end, const proto::user_side& user,
                         bool may_retry);

// The result of a post that is refused: retry.
LCI_COLD status_t refused(const post_args& a, proto::device_queues& queues,
                          errorcode_t why) noexcept;

// For the report of what waits.
inline base::waiting_call refused_call(const post_args& a, errorcode_t why) noexcept {
  return {BLOCKING_POST, nullptr, a.rank, a.tag, a.size, static_cast<std::uint8_t>(why)};
}

// Runs start(user_side, may_retry, got) until it is not refused any more, then waits until the
// operation is finished, because the caller does not want "posted". filed_in: for a receive.
template <class Start>
LCI_COLD status_t run_blocking(const post_args& a, const permission& allow,
                               proto::device_queues& queues, proto::matcher* filed_in,
                               Start&& start) {
  proto::no_progress_here::check(proto::handler_depth::now() + 1);
  proto::waiter* w = queues.engine().shared.waiters.get();
  w->arm(queues.engine().shared.waiters);
  const proto::user_side user{w, status_of(a, errorcode_t::done), true};
  waiting wait(queues);
  status_t got = user.status;
  errorcode_t code = errorcode_t::retry;
  try {
    while (proto::is_retry(code = start(user, true, got)) && !allow.retry) {
      // Nothing is under way yet, so an exception from progress may end the call.
      wait.progress([&]() noexcept { return refused_call(a, code); });
      if (a.rank >= 0) check_peer(queues, a.rank);
      if (wait.is_held_up()) [[unlikely]]
        wait.tell_held_up(BLOCKING_POST, queues.engine().shared.n == 1);
    }
  } catch (...) {
    queues.engine().shared.waiters.put(w);
    throw;
  }
  if (error_t(code).is_posted()) {
    if (filed_in != nullptr && allow.retry && is_taken_back(w, queues, wait, *filed_in))
      return status_t(errorcode_t::retry);
    return wait_for(w, queues, a.rank, wait, filed_in);
  }
  queues.engine().shared.waiters.put(w);
  if (proto::is_retry(code)) return refused(a, queues, code);
  if (!error_t(code).is_done()) queues.engine().shared.peers.throw_ended(a.rank);
  got.error = code;
  return got;
}

// A handler that a post runs is nested one deeper than the place of the post; it may have to wait.
inline void signal_from_post(proto::device_queues& queues, comp_impl_t& to, const status_t& status,
                             proto::news what) {
  const proto::handler_depth here;
  if (here.value() > queues.engine().handlers.limit() && comp::runs_user_code(to) &&
      queues.engine().handlers.add(to, status, true, what))
    return;
  try {
    comp::signal(&to, status);
  } catch (const std::bad_alloc&) {
    // The operation has happened. A queue that could not grow gets its status in a later round of
    // progress; exceptions of the program's code are passed on.
    if (to.attr.comp_type != attr_comp_type_t::cq ||
        !queues.engine().handlers.add(to, status, true, what))
      throw;
  }
}

// Turns the code that start() returned into the status of the post.
inline status_t answer(const post_args& a, const permission& allow, proto::device_queues& queues,
                       proto::news what, errorcode_t code, status_t& got) {
  if (error_t(code).is_done()) {
    got.error = code;
    if (allow.done) return got;
    got.error = errorcode_t::done;
    signal_from_post(queues, *a.local_comp.p_impl, got, what);
    got.error = errorcode_t::posted;
    return got;
  }
  if (proto::is_retry(code)) return refused(a, queues, code);
  if (!error_t(code).is_posted()) queues.engine().shared.peers.throw_ended(a.rank);
  return status_of(a, code);
}

// run() once a rank is lost. The object may have belonged to an operation that was lost.
template <class Start>
LCI_COLD status_t run_after_loss(const post_args& a, const permission& allow,
                                 proto::device_queues& queues, proto::news what, Start& start) {
  comp::renewal given(a.local_comp.p_impl);
  proto::user_side user{a.local_comp.p_impl, status_of(a, errorcode_t::done)};
  user.what = what;
  user.number = given.number();
  user.serial = a.local_comp.p_impl->attr.serial;
  status_t got = user.status;
  const errorcode_t code = start(user, allow.retry, got);
  if (error_t(code).is_done() || error_t(code).is_posted()) given.keep();
  return answer(a, allow, queues, what, code, got);
}

// Runs start() and turns its code into the status of the post. what: the operation, for errors.
template <class Start>
status_t run(const post_args& a, const permission& allow, proto::device_queues& queues,
             proto::news what, Start&& start, proto::matcher* filed_in = nullptr) {
  if (!allow.posted) return run_blocking(a, allow, queues, filed_in, start);
  if (queues.engine().shared.peers.epoch() != 0) [[unlikely]]
    return run_after_loss(a, allow, queues, what, start);
  proto::user_side user{a.local_comp.p_impl, status_of(a, errorcode_t::done)};
  user.what = what;
  user.serial = a.local_comp.p_impl->attr.serial;
  status_t got = user.status;
  const errorcode_t code = start(user, allow.retry, got);
  return answer(a, allow, queues, what, code, got);
}

}  // namespace lci::api
