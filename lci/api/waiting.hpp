// How a blocking call waits: rounds of progress on one device, until what it waits for is there or
// a peer is lost. Threads: an instance belongs to one call. Included by the files of blocking
// calls. Always true: the call ends for a peer that is lost after it began, whichever thread
// noticed, and not for one that was lost before, unless the call before kept that to itself.
#pragma once

#include <cstdint>

#include "lci/base/spin.hpp"
#include "lci/proto/channel.hpp"

namespace lci::api {

class waiting {
 public:
  // needs_all: what is waited for needs every rank, so that one that is lost already ends it too.
  explicit waiting(proto::channel& via, bool needs_all = false)
      : via_(via), since_(via.lost.begin_wait()), next_loss_(needs_all ? 0 : since_) {}
  // A call may end well, or for another reason, although a peer was lost meanwhile: then the next
  // one of this thread tells, since nobody else may have noticed.
  ~waiting() {
    if (via_.lost.count() != since_) [[unlikely]]
      via_.lost.owe(since_);
  }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  // A round of progress; throws what it throws, and peer_failure_error for the lost.
  void round() {
    progress();
    check();
  }
  // The same for a caller that makes no progress.
  void pause() {
    spin_();
    via_.look_for_gone();
    check();
  }
  // A round for a call that decides by itself whose loss ends it.
  void progress() {
    if (error_t(via_.progress_in_wait()).is_done())
      spin_.reset();
    else
      spin_();
  }
  void check() {
    if (has_loss()) [[unlikely]]
      via_.throw_loss(next_loss_);
  }
  bool has_loss() const noexcept { return via_.lost.count() > next_loss_; }
  // What is waited for will not come, because that rank is gone.
  [[noreturn]] LCI_COLD void end_for(int rank) {
    via_.lost.heard(rank);
    via_.shared.throw_gone(rank);
  }

 private:
  proto::channel& via_;
  base::spin_wait spin_;
  const std::uint32_t since_;      // as losses::begin_wait() said
  const std::uint32_t next_loss_;  // the first entry that ends the call
};

}  // namespace lci::api
