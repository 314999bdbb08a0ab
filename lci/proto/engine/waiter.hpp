// What a post that must not answer "posted" waits on. It comes from a pool and not from the
// caller's stack, because a call that ends with an exception leaves it behind for an operation that
// may still complete. Threads: the poster waits, a thread in progress signals; the thread that
// comes second gives it back.
#pragma once

#include <atomic>
#include <exception>
#include <utility>

#include "lci/data/object_pool.hpp"
#include "lci/library_comp.hpp"

namespace lci::proto {

class waiter final : public detail::library_comp_t {
 public:
  waiter* pool_next = nullptr;
  data::object_pool<waiter>* home = nullptr;

  void arm(data::object_pool<waiter>& from) noexcept {
    home = &from;
    state_.store(waiting, std::memory_order_relaxed);
  }
  void signal(status_t status) override {
    result_ = status;
    end(signalled);
  }
  // The operation will not complete. why: kept by the engine before, or null where another thread's
  // progress has thrown it.
  void fail(std::exception_ptr why) noexcept override {
    why_ = std::move(why);
    end(failed);
  }
  // The same because that rank is lost.
  void fail_by_loss(int rank) noexcept {
    result_.rank = rank;
    end(lost);
  }
  // edge waiter.signal: partner is end().
  bool is_over() const noexcept { return state_.load(std::memory_order_acquire) >= signalled; }
  bool has_failed() const noexcept { return state_.load(std::memory_order_relaxed) >= failed; }
  // -1: it has not failed by a loss.
  int lost_rank() const noexcept {
    return state_.load(std::memory_order_relaxed) == lost ? result_.rank : -1;
  }
  // Before the waiter goes back.
  std::exception_ptr take_why() noexcept { return std::exchange(why_, nullptr); }
  // The poster stops waiting. edge waiter.signal: partner is end().
  void abandon() noexcept {
    if (state_.exchange(abandoned, std::memory_order_acq_rel) >= signalled) go_home();
  }
  const status_t& result() const noexcept { return result_; }

 private:
  enum : int { waiting, abandoned, signalled, failed, lost };
  void end(int how) noexcept {
    // edge waiter.signal: the result or why_, and the user's data behind it, are visible to
    // is_over().
    if (state_.exchange(how, std::memory_order_acq_rel) == abandoned) go_home();
  }
  void go_home() noexcept {
    why_ = nullptr;
    home->put(this);
  }

  std::atomic<int> state_{waiting};
  status_t result_;
  std::exception_ptr why_;  // null while it waits
};

// The operation of this object, which may be null, will not complete, and nothing else says so: an
// object of the library is told.
inline void abandon(comp_impl_t* comp) noexcept {
  if (comp != nullptr && comp->attr.comp_type == detail::LIBRARY_COMP)
    static_cast<detail::library_comp_t*>(comp)->lose();
}

}  // namespace lci::proto
