// A queue that threads push to and take from at the same time, without moving the same lines from
// one to the other for each element. Completion queues are made of it.
//
// It begins as one queue, first in, first out. When producers have lost many races for that one, it
// is closed and goes on as SHARDS queues: each thread pushes to the one of its number, and takes
// first from that, then from where it found something last, then from all others. See
// docs/decisions/0063-objects-that-threads-share.md.
//
// Threads: shared, any number of producers and consumers.
//
// Always true: what one thread pushes comes out in that order, since no shard is looked into before
// all that the one queue ever accepted has been claimed. Between threads there is an order only
// before the split. A pop that finds nothing has looked into every shard since it began.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/data/mpmc_queue.hpp"

namespace lci::data {

namespace detail {
// How a thread goes about the shards of whatever queue; only a hint.
struct shard_habit {
  std::uint32_t pops = 0;
  std::uint32_t last = 0;  // where it found something that was not its own
};
inline constinit thread_local shard_habit shard_habit_tls
    __attribute__((tls_model("initial-exec")));
}  // namespace detail

template <class T>
class sharded_queue {
 public:
  static constexpr std::uint32_t SHARDS = 16;
  static constexpr std::size_t SHARD_CAPACITY = 64;  // at first
  // So many lost races are some milliseconds of threads that do nothing but push, and few where
  // they meet by chance.
  static constexpr std::uint32_t MOST_LOST = 4096;
  // One pop in so many begins at another shard, so that who finds enough of its own takes from
  // others as well.
  static constexpr std::uint32_t FAIR = 32;

  explicit sharded_queue(std::size_t first_capacity) : one_(first_capacity) {}
  sharded_queue(const sharded_queue&) = delete;
  sharded_queue& operator=(const sharded_queue&) = delete;
  ~sharded_queue() { delete shards_.load(std::memory_order_relaxed); }

  // Never refuses. Throws std::bad_alloc when it has to grow and cannot.
  void push(const T& value) {
    // edge sharded_queue.shards, reader.
    shards* const all = shards_.load(std::memory_order_acquire);
    if (all != nullptr) [[unlikely]]
      return push_to(*all, value);
    if (!one_.push(value)) [[unlikely]]
      // Not null: it was closed after they were there (edge mpmc_queue.closed).
      return push_to(*shards_.load(std::memory_order_acquire), value);
    if (one_.lost_races() >= MOST_LOST) [[unlikely]]
      split();
  }

  // False: there is no complete element to take.
  bool try_pop(T& out) noexcept {
    if (one_.try_pop(out)) return true;
    // edge sharded_queue.shards, reader.
    shards* const all = shards_.load(std::memory_order_acquire);
    if (all == nullptr) [[likely]]
      return false;
    return one_.is_over() && pop_from(*all, out);
  }

  // Goes on in shards; if there is no memory for them, nothing happens.
  LCI_COLD void split() noexcept {
    if (shards_.load(std::memory_order_relaxed) != nullptr) return;
    try {
      auto made = std::make_unique<shards>();
      shards* none = nullptr;
      // edge sharded_queue.shards, writer.
      if (!shards_.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return;
      made.release();
    } catch (const std::bad_alloc&) {
      return;
    }
    one_.close();
  }
  bool is_split() const noexcept { return shards_.load(std::memory_order_relaxed) != nullptr; }

 private:
  struct shard : mpmc_queue<T> {
    shard() : mpmc_queue<T>(SHARD_CAPACITY) {}
  };
  using shards = std::array<shard, SHARDS>;

  static std::uint32_t mine() noexcept { return base::thread_id() % SHARDS; }

  [[gnu::noinline]] static void push_to(shards& all, const T& value) { all[mine()].push(value); }

  [[gnu::noinline]] static bool pop_from(shards& all, T& out) noexcept {
    detail::shard_habit& habit = detail::shard_habit_tls;
    const std::uint32_t turn = ++habit.pops;
    if (turn % FAIR != 0) {
      if (all[mine()].try_pop(out)) return true;
    } else {
      habit.last = turn / FAIR;
    }
    for (std::uint32_t i = 0; i < SHARDS; ++i) {
      const std::uint32_t at = (habit.last + i) % SHARDS;
      if (!all[at].try_pop(out)) continue;
      habit.last = at;
      return true;
    }
    return false;
  }

  mpmc_queue<T> one_;
  std::atomic<shards*> shards_{nullptr};  // set once
};

}  // namespace lci::data
