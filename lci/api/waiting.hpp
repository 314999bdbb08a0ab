// How a blocking call waits: rounds of progress on one device, until what it waits for is there or
// a peer is lost. Threads: an instance belongs to one call. Included by the files of blocking
// calls. Always true: the call ends for a peer that is lost after it began, whichever thread
// noticed, and not for one that was lost before, unless the previous call did not report that.
#pragma once

#include <cstdint>
#include <exception>

#include "lci/base/platform.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/waiting_calls.hpp"
#include "lci/proto/device_queues.hpp"

namespace lci::api {

// The call waits for something that only a handler beyond the greatest depth can bring.
[[noreturn]] LCI_COLD void throw_held_up(const proto::device_queues& queues, const char* what);
// The call may wait for something else as well, but has done so for as long as the program allows.
[[noreturn]] LCI_COLD void throw_waited_out(const proto::device_queues& queues, const char* what);
LCI_COLD void warn_held_up(const proto::device_queues& queues, const char* what) noexcept;
// Whether something under way on this device may signal that object without a handler of the
// held-up device: an operation with it; a collective; where other threads use the library, anything
// that may set one of them to work. Not what only this process itself can send. Walks all receives.
LCI_COLD bool may_signal(proto::device_queues& queues, const comp_impl_t& object,
                         const proto::device_queues& held_up);

class waiting {
 public:
  // needs_all: what is waited for needs every rank, so a rank that is lost already ends it too.
  explicit waiting(proto::device_queues& queues, bool needs_all = false)
      : queues_(queues),
        since_(queues.engine().errors.lost.begin_wait()),
        next_loss_(needs_all ? 0 : since_) {}
  // A call may end well, or for another reason, although a peer was lost meanwhile: then the next
  // call of this thread reports it, since no other thread may have noticed.
  ~waiting() {
    if (queues_.engine().errors.lost.count() != since_) [[unlikely]]
      end();
  }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  // A round of progress, made while what is waited for is not there; throws what progress throws,
  // and peer_failure_error for lost peers. Between the round that noticed a loss and the one that
  // throws, the caller checks once more: what came before the loss may have ended the wait.
  //
  // describe() returns a base::waiting_call that says what is waited for; called if that takes
  // long.
  template <class Describe>
  void round(Describe&& describe) {
    end_if_lost();
    progress(describe);
    is_lost_ = has_loss();
  }
  // The same for a caller that makes no progress.
  template <class Describe>
  void pause(Describe&& describe) {
    end_if_lost();
    rest(describe);
    queues_.engine().watch.look_for_ended();
    is_lost_ = has_loss();
  }
  // A round for a call that decides for itself whose loss ends it.
  template <class Describe>
  void progress(Describe&& describe) {
    go_on(error_t(queues_.progress_in_wait()).is_done(), describe);
  }
  // The same for a caller that has its exception already: others stay with the device.
  template <class Describe>
  void progress_unheard(Describe&& describe) {
    go_on(queues_.progress_unheard(), describe);
  }
  // progress() for a call whose buffers are in use until what it waits for is there: exceptions of
  // handlers or of others' operations must not end it. The first is kept for the end; those behind
  // it stay with the device, for the next call of progress.
  template <class Describe>
  void progress_and_keep(Describe&& describe, std::exception_ptr& kept) {
    if (kept != nullptr) return progress_unheard(describe);
    try {
      progress(describe);
    } catch (...) {
      kept = std::current_exception();
    }
  }
  // round() for such a call: only lost peers end it.
  template <class Describe>
  void round_and_keep(Describe&& describe, std::exception_ptr& kept) {
    end_if_lost();
    progress_and_keep(describe, kept);
    is_lost_ = has_loss();
  }
  // True if this thread is in a handler at the greatest depth, other handlers wait for it to
  // return, and nothing has come for a while: what is waited for may be what one of those would
  // bring. True only now and then, since it takes a while to find out what else could bring it.
  bool is_held_up() noexcept {
    if (idle_ms_ < next_judgement_ms_) [[likely]]
      return false;
    next_judgement_ms_ = idle_ms_ + JUDGE_EVERY_MS;
    return true;
  }
  // After is_held_up(). is_certain: nothing else can bring it. Otherwise another rank may, however
  // slow it is, and the call ends only when it has lasted as long as the program allows.
  bool has_to_end(bool is_certain) const noexcept {
    const auto limit = static_cast<std::uint64_t>(queues_.engine().shared.max_handler_wait_s);
    return is_certain || (limit != 0 && idle_ms_ >= 1000 * limit);
  }
  // After is_held_up(): ends the call if it has to end. If not, warns the user, once per call, that
  // it may never end by itself.
  void tell_held_up(const char* what, bool is_certain) {
    if (is_certain) throw_held_up(queues_, what);
    if (has_to_end(false)) throw_waited_out(queues_, what);
    if (!was_told_) warn_held_up(queues_, what);
    was_told_ = true;
  }
  void check() {
    is_lost_ = has_loss();
    end_if_lost();
  }
  bool has_loss() const noexcept { return queues_.engine().errors.lost.count() > next_loss_; }
  // What is waited for has failed, not for the loss of a peer that the call knows of. The device
  // has kept the reason, which was thrown by our own rounds of progress or by those of another
  // thread.
  [[noreturn]] LCI_COLD void throw_failed(const std::exception_ptr& kept);
  // What is waited for will not come, because that rank is lost.
  [[noreturn]] LCI_COLD void end_for(int rank) {
    queues_.engine().errors.lost.heard(rank);
    queues_.engine().shared.peers.throw_ended(rank);
  }

 private:
  static constexpr std::uint64_t PATIENCE_MS = 2000, JUDGE_EVERY_MS = 100;
  static constexpr std::uint32_t ENTERED = ~std::uint32_t{0};
  LCI_COLD void count_idle() noexcept;
  template <class Describe>
  void go_on(bool has_moved, Describe&& describe) {
    if (has_moved) {
      spin_.reset();
      idle_ms_ = idle_ticks_ = 0;
      next_judgement_ms_ = PATIENCE_MS;
      return;
    }
    if (queues_.engine().handlers.is_out_of_reach()) [[unlikely]]
      count_idle();
    rest(describe);
  }
  template <class Describe>
  void rest(Describe&& describe) {
    if (spin_() && since_ != ENTERED) [[unlikely]]
      enter(describe());
  }
  LCI_COLD void enter(const base::waiting_call& call) noexcept;
  LCI_COLD void end() noexcept;
  void end_if_lost() {
    if (is_lost_) [[unlikely]]
      queues_.engine().errors.throw_loss(next_loss_);
  }

  proto::device_queues& queues_;
  base::spin_wait spin_;
  // How long rounds of progress have found nothing while handlers were out of reach. A thread that
  // was stopped does not count as idle for more than a moment.
  std::uint64_t idle_ms_ = 0, idle_ticks_ = 0, last_ticks_ = 0;
  std::uint64_t next_judgement_ms_ = PATIENCE_MS;
  bool was_told_ = false;
  bool is_lost_ = false;  // has_loss() after the last round
  // The result of losses::begin_wait(), or ENTERED, which no count equals: the call is listed in
  // base/waiting_calls, and its end, which compares this with the count anyway, removes it there.
  std::uint32_t since_;
  std::uint32_t entered_since_;    // the value of since_ before that
  const std::uint32_t next_loss_;  // the first entry that ends the call
};

}  // namespace lci::api
