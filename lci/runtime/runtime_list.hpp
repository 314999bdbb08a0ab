// The runtimes that are alive in this process: of the job, and of connections that other threads
// make and end meanwhile. Owned by global(). Threads: shared. Always true: one that is listed is
// whole, and while any_of() or oldest() looks at it, it does not end.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/spin.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/handles.hpp"

namespace lci::runtime {

class runtime_list {
 public:
  // Throws std::bad_alloc.
  void add(runtime_impl_t& one) {
    const std::unique_lock lock(lock_);
    all_.push_back(&one);
    announce_oldest_locked();
  }
  // Before it ends.
  void remove(const runtime_impl_t& one) noexcept {
    const std::unique_lock lock(lock_);
    std::erase(all_, &one);
    announce_oldest_locked();
    // edge runtime_list.oldest: a counted thread may have the one that goes; a later one has not.
    for (line& each : inside_)
      for (base::spin_wait step; each.count.load(std::memory_order_seq_cst) != 0;) step();
  }
  // Calls see(runtime_impl_t&) for each until it answers true, and answers whether it did. `see`
  // makes and ends no runtime. Threads that look do not wait for each other, whatever they hold.
  template <class Fn>
  bool any_of(Fn&& see) {
    if (is_of_parent_) return false;
    const std::shared_lock lock(lock_);
    return std::any_of(all_.begin(), all_.end(), [&](runtime_impl_t* one) { return see(*one); });
  }
  // The same with the oldest one alone, for what happens with every message: threads share no line
  // that they write, but for those whose numbers differ by a multiple of 32. `see` is short, waits
  // for nothing, and takes nothing under which runtimes are listed.
  template <class Fn>
  bool oldest(Fn&& see) {
    std::atomic<std::uint32_t>& mine = inside_[base::thread_id() % inside_.size()].count;
    // edge runtime_list.oldest: counted before it looks; partner is remove().
    mine.fetch_add(1, std::memory_order_seq_cst);
    runtime_impl_t* const one = oldest_.load(std::memory_order_seq_cst);
    const bool answer = one != nullptr && see(*one);
    // edge runtime_list.oldest: what was seen is seen before it ends.
    mine.fetch_sub(1, std::memory_order_release);
    return answer;
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
  void leave_to_parent() noexcept {
    is_of_parent_ = true;
    oldest_.store(nullptr, std::memory_order_relaxed);
  }

 private:
  struct alignas(base::CACHE_LINE) line {
    std::atomic<std::uint32_t> count{0};
  };

  void announce_oldest_locked() noexcept {
    // edge runtime_list.oldest: what is announced is whole; partner is oldest().
    oldest_.store(all_.empty() ? nullptr : all_.front(), std::memory_order_seq_cst);
  }

  bool is_of_parent_ = false;
  std::shared_mutex lock_;
  std::vector<runtime_impl_t*> all_;  // under lock_
  std::atomic<runtime_impl_t*> oldest_{nullptr};
  std::array<line, 32> inside_;  // by thread number: threads in oldest()
};

}  // namespace lci::runtime
