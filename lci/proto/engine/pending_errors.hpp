// What progress on a device has to throw: problems that were kept where nothing could be thrown,
// and peers that ended. One per engine. Threads: shared. Always true: each problem is thrown
// once, and a loss as losses says; where there was no memory to keep a problem, std::bad_alloc
// stands for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/proto/engine/core.hpp"
#include "lci/proto/engine/losses.hpp"

namespace lci::proto {

class pending_errors {
 public:
  explicit pending_errors(core& shared);  // throws std::bad_alloc

  LCI_COLD void keep(std::exception_ptr problem) noexcept;
  // The same for one whose words have to be put together: make() answers the exception. Without
  // memory for them std::bad_alloc is kept. Answers what is kept.
  template <class Make>
  LCI_COLD std::exception_ptr keep_made(Make&& make) noexcept {
    std::exception_ptr made;
    try {
      made = std::make_exception_ptr(make());
    } catch (...) {
      made = std::current_exception();
    }
    keep(made);
    return made;
  }
  // An operation posted here was with `rank`, which is lost: progress reports it.
  LCI_COLD void concern(int rank) noexcept;
  // A collective without a call that waits has begun (1) or ended (-1): it needs all ranks, so that
  // progress reports every loss.
  void need_all(int change) noexcept { needs_all_.fetch_add(change, std::memory_order_relaxed); }
  // `rank` has ended, and was needed. False: there is no memory; it has to be called again.
  bool add_loss(int rank) noexcept;

  // Problems, or lost peers that progress has to report.
  bool any() const noexcept { return has_any_.load(std::memory_order_relaxed); }
  bool has_problems() const noexcept { return has_problems_.load(std::memory_order_relaxed); }
  // The last one that was kept, or null: for a call that waits and throws it by itself, which then
  // takes it away.
  LCI_COLD std::exception_ptr newest() noexcept;
  LCI_COLD void take_away(const std::exception_ptr& problem) noexcept;
  // Throws the oldest problem that was kept, if any.
  LCI_COLD void rethrow();
  // Throws for progress: a loss, else a problem, if the calling thread is to be told of one.
  LCI_COLD void tell();
  // Reports an entry of `lost` in a call that waits.
  [[noreturn]] LCI_COLD void throw_loss(std::uint32_t number);

  losses lost;  // peers that failed, or left too early

 private:
  void count_locked() noexcept;

  core& shared_;
  base::spinlock lock_;                       // guards what follows
  std::vector<std::exception_ptr> problems_;  // has room for some from the start
  bool was_problem_lost_ = false;             // there was no memory to keep another one
  std::vector<bool> concerned_;               // by rank: an operation posted here was lost with it
  std::atomic<bool> has_problems_{false};
  std::atomic<bool> has_any_{false};
  std::atomic<int> needs_all_{0};
};

}  // namespace lci::proto
