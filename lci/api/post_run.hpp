// What all posts share: checks, answers, and waiting for the calls that must not answer "posted".
// Threads: any. Included by the files that implement posts, nothing else.
#pragma once

#include "lci/api/resolve.hpp"
#include "lci/api/waiting.hpp"
#include "lci/comp/signal.hpp"
#include "lci/post.hpp"
#include "lci/proto/outgoing.hpp"

namespace lci::api {

using detail::post_args;

[[noreturn]] LCI_COLD void throw_no_answer_allowed();
[[noreturn]] LCI_COLD void throw_bad_rank(int rank, int n);
[[noreturn]] LCI_COLD void throw_null_buffer(std::size_t size);
[[noreturn]] LCI_COLD void throw_bad_policy(const post_args& a);

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

inline void check_buffer(const post_args& a) {
  if (a.local_buffer == nullptr && a.size != 0) [[unlikely]]
    throw_null_buffer(a.size);
}

// The caller promises host memory: throws argument_error if it is a GPU's. Attribute
// check_pointers.
LCI_COLD void check_pointer(const post_args& a);

inline void check_rank(const post_args& a, const proto::core& core) {
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n)) [[unlikely]]
    throw_bad_rank(a.rank, core.n);
  core.check_alive(a.rank);
}

// A receive may still take what its peer sent before it took leave; the dead are refused.
inline void check_source(const post_args& a, const proto::core& core) {
  if (a.rank == ANY_SOURCE) return;
  if (static_cast<unsigned>(a.rank) >= static_cast<unsigned>(core.n)) [[unlikely]]
    throw_bad_rank(a.rank, core.n);
  if (core.has_died(a.rank)) [[unlikely]]
    core.throw_gone(a.rank);
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

// Ends a call that waits for that rank if it is gone.
inline void check_peer(proto::channel& via, int rank) {
  if (!via.shared.is_gone(rank)) [[likely]]
    return;
  via.lost.heard(rank);
  via.shared.throw_gone(rank);
}

// Waits until `w`, the object of an operation under way, is signalled. Ends with an exception when
// the peer is gone, or for ANY_SOURCE when any was lost since `wait` was made. A receive is filed
// in an engine, out of which it is taken then; if a message has met it already, the call goes on to
// the end of that.
status_t wait_for(proto::waiter* w, proto::channel& via, int rank, waiting& wait,
                  proto::matcher* filed_in);

// Fills in what all outgoing operations have in common.
proto::outgoing describe(const post_args& a, endpoint_impl_t& end, const proto::user_side& user,
                         bool may_retry);

// Runs start(user_side, may_retry, got) until it is more than refused, and until it is finished,
// because the caller wants no "posted". filed_in: of a receive.
template <class Start>
LCI_COLD status_t run_blocking(const post_args& a, const permission& allow, proto::channel& via,
                               proto::matcher* filed_in, Start&& start) {
  proto::waiter* w = via.shared.waiters.get();
  w->arm(via.shared.waiters);
  const proto::user_side user{w, status_of(a, errorcode_t::done), true};
  waiting wait(via);
  status_t got = user.status;
  errorcode_t code = errorcode_t::retry;
  try {
    while (proto::is_retry(code = start(user, true, got)) && !allow.retry) {
      // Nothing is under way yet, so whatever progress throws may end the call.
      wait.progress();
      if (a.rank >= 0) check_peer(via, a.rank);
    }
  } catch (...) {
    via.shared.waiters.put(w);
    throw;
  }
  if (error_t(code).is_posted()) return wait_for(w, via, a.rank, wait, filed_in);
  via.shared.waiters.put(w);
  if (proto::is_retry(code)) return status_t(code);
  if (!error_t(code).is_done()) via.shared.throw_gone(a.rank);
  got.error = code;
  return got;
}

// start() has answered.
inline status_t answer(const post_args& a, const permission& allow, proto::channel& via,
                       errorcode_t code, status_t& got) {
  if (error_t(code).is_done()) {
    got.error = code;
    if (allow.done) return got;
    got.error = errorcode_t::done;
    comp::signal(a.local_comp.p_impl, got);
    got.error = errorcode_t::posted;
    return got;
  }
  if (proto::is_retry(code)) return status_t(code);
  if (!error_t(code).is_posted()) via.shared.throw_gone(a.rank);
  return status_of(a, code);
}

// run() once a rank is gone. The object may be that of an operation that was lost.
template <class Start>
LCI_COLD status_t run_after_loss(const post_args& a, const permission& allow, proto::channel& via,
                                 Start& start) {
  comp::renewal given(a.local_comp.p_impl);
  proto::user_side user{a.local_comp.p_impl, status_of(a, errorcode_t::done)};
  user.number = given.number();
  status_t got = user.status;
  const errorcode_t code = start(user, allow.retry, got);
  if (error_t(code).is_done() || error_t(code).is_posted()) given.keep();
  return answer(a, allow, via, code, got);
}

// Runs start() and turns its code into the answer of the post.
template <class Start>
status_t run(const post_args& a, const permission& allow, proto::channel& via, Start&& start,
             proto::matcher* filed_in = nullptr) {
  if (!allow.posted) return run_blocking(a, allow, via, filed_in, start);
  if (via.shared.failure_epoch() != 0) [[unlikely]]
    return run_after_loss(a, allow, via, start);
  const proto::user_side user{a.local_comp.p_impl, status_of(a, errorcode_t::done)};
  status_t got = user.status;
  const errorcode_t code = start(user, allow.retry, got);
  return answer(a, allow, via, code, got);
}

}  // namespace lci::api
