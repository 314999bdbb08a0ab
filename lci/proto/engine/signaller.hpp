// Delivers statuses to completion objects of the program, on behalf of one engine: at once, or in
// turn where handlers are as deep as they may be; what user code throws is kept for the end of the
// progress call. Threads: any. Always true: an object that was freed is not touched; the buffer of
// a message that it would have got goes back, as does that of a message of which an object of the
// library keeps no status.
#pragma once

#include <cstdint>
#include <exception>

#include "lci/base/platform.hpp"
#include "lci/comp/counter.hpp"
#include "lci/comp/kind.hpp"
#include "lci/proto/engine/handler_queue.hpp"
#include "lci/proto/engine/op.hpp"
#include "lci/proto/engine/peer_watch.hpp"
#include "lci/proto/engine/pending_errors.hpp"

namespace lci::proto {

class signaller {
 public:
  signaller(core& shared, handler_queue& handlers, pending_errors& errors,
            peer_watch& watch) noexcept
      : shared_(shared), handlers_(handlers), errors_(errors), watch_(watch) {}

  // User code may have to wait for its turn. is_completion: of an operation posted here, and not of
  // an arrival.
  void signal(comp_impl_t* to, const status_t& status, bool is_completion = true,
              news what = news::operation) noexcept {
    if (handlers_.open_to() < handler_depth::now() && comp::runs_user_code(*to)) [[unlikely]]
      return signal_in_turn(*to, status, is_completion, what);
    // Counters are frequent, and nothing can go wrong with them.
    if (to->attr.comp_type == attr_comp_type_t::counter) {
      if (!is_completion && what == news::message) drop_buffer(status, what);
      return static_cast<comp::counter*>(to)->add_one();
    }
    signal_now(to, status, what, is_completion);
  }
  // The same to an object that was given a while ago, and had that serial number then. from: as
  // core::give_back(), of the buffer of a message.
  void signal_given(comp_impl_t* to, std::uint32_t serial, const status_t& status,
                    bool is_completion, news what, allocator_base_t* from = nullptr) noexcept {
    if (to->attr.serial != serial) [[unlikely]] {
      keep_freed(to, status, what);
      if (what == news::message) shared_.give_back(status.buffer, from);
      return;
    }
    signal(to, status, is_completion, what);
  }
  // The same for a counter, without a call. False: it is none, or was freed, and nothing happened.
  static bool count_given(comp_impl_t* to, std::uint32_t serial) noexcept {
    if (to->attr.comp_type != attr_comp_type_t::counter || to->attr.serial != serial) return false;
    static_cast<comp::counter*>(to)->add_one();
    return true;
  }
  // Another object is in its place, or none: it was freed before.
  LCI_COLD void keep_freed(const comp_impl_t* to, const status_t& status, news what) noexcept;
  // The buffer of a message whose object was freed or keeps no status goes back, to where messages
  // get theirs now.
  LCI_COLD void drop_buffer(const status_t& status, news what) noexcept;
  // The same, but whatever waits. What a completion queue has no memory for it gets in a later
  // round.
  void signal_now(comp_impl_t* to, const status_t& status, news what = news::operation,
                  bool is_completion = false) noexcept;
  // The end of a user's operation: signals its object, or fail().
  void tell(const user_side& user, bool ok) noexcept {
    if (!ok) [[unlikely]]
      fail(user);
    else if (user.comp != nullptr)
      signal_given(user.comp, user.serial, user.status, true, user.what);
  }
  // The operation of this user has failed; why was kept, or is about to be. Its object is not
  // signalled (api 6.13), but a call that waits for it ends; one that waits for a synchronizer only
  // if the peer has ended. An object of the library is told.
  LCI_COLD void fail(const user_side& user) noexcept;
  // The same where the reason, which was kept, lies here, so that nothing is lost by the end of the
  // peer.
  LCI_COLD void fail_here(const user_side& user, std::exception_ptr why) noexcept;

 private:
  // why: null if by a loss.
  LCI_COLD void end_failed(const user_side& user, bool is_by_loss, std::exception_ptr why) noexcept;
  LCI_COLD void drop_refused(const comp_impl_t& to, const status_t& status, news what) noexcept;
  LCI_COLD void signal_in_turn(comp_impl_t& to, const status_t& status, bool is_completion,
                               news what) noexcept;

  core& shared_;
  handler_queue& handlers_;
  pending_errors& errors_;
  peer_watch& watch_;
};

}  // namespace lci::proto
