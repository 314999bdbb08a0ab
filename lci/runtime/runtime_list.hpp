// The runtimes that are alive in this process: of the job, and of connections that other threads
// make and end meanwhile. Owned by global(). Threads: shared. Always true: one that is listed is
// whole, and while any_of() looks at it, it does not end.
#pragma once

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "lci/handles.hpp"

namespace lci::runtime {

class runtime_list {
 public:
  // Throws std::bad_alloc.
  void add(runtime_impl_t& one) {
    const std::unique_lock lock(lock_);
    all_.push_back(&one);
  }
  // Before it ends.
  void remove(const runtime_impl_t& one) noexcept {
    const std::unique_lock lock(lock_);
    std::erase(all_, &one);
  }
  // Calls see(runtime_impl_t&) for each until it answers true, and answers whether it did. `see`
  // makes and ends no runtime. Threads that look do not wait for each other, whatever they hold.
  template <class Fn>
  bool any_of(Fn&& see) {
    if (is_of_parent_) return false;
    const std::shared_lock lock(lock_);
    return std::any_of(all_.begin(), all_.end(), [&](runtime_impl_t* one) { return see(*one); });
  }
  template <class Fn>
  void for_each(Fn&& see) {
    any_of([&](runtime_impl_t& one) {
      see(one);
      return false;
    });
  }
  // In the child of a fork, whose only thread this is: a thread that is not there may have the
  // lock.
  void leave_to_parent() noexcept { is_of_parent_ = true; }

 private:
  bool is_of_parent_ = false;
  std::shared_mutex lock_;
  std::vector<runtime_impl_t*> all_;  // under lock_
};

}  // namespace lci::runtime
