// An unbounded first-in-first-out queue: a chain of rings, each twice as large as the one before.
// Completion queues are made of it.
//
// Threads: shared, any number of producers and consumers. Push and pop cost what the ring costs,
// one compare-and-swap; the heap is used only when the queue gets longer than it ever was.
//
// Always true: an element is in exactly one ring; consumers leave a ring only when it is closed
// and all its elements are claimed, so the order is that of one long ring. A producer that was
// preempted with an old ring in hand finds it closed and goes on to the next. Rings that are left
// behind are kept until destruction; since sizes double, together they are smaller than the last.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <mutex>

#include "lci/base/race_point.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/data/mpmc_ring.hpp"

namespace lci::data {

template <class T>
class mpmc_queue {
 public:
  static constexpr std::size_t FIRST_CAPACITY = 256;

  explicit mpmc_queue(std::size_t first_capacity = FIRST_CAPACITY)
      : first_(new link(first_capacity < 2 ? 2 : first_capacity)), back_(first_), front_(first_) {}
  mpmc_queue(const mpmc_queue&) = delete;
  mpmc_queue& operator=(const mpmc_queue&) = delete;
  ~mpmc_queue() {
    for (link* l = first_; l != nullptr;) {
      link* const next = l->next.load(std::memory_order_relaxed);
      delete l;
      l = next;
    }
  }

  // Never refuses. Throws std::bad_alloc when it has to grow and cannot. Touches nothing here once
  // the element can be taken, since its taker may free the queue.
  void push(const T& value) {
    // edge mpmc_queue.link, reader.
    link* const l = back_.load(std::memory_order_acquire);
    if (l->ring.try_push(value) != push_result::pushed) [[unlikely]]
      push_slow(value);
  }

  // False: there is no complete element to take.
  bool try_pop(T& out) noexcept {
    for (;;) {
      // edge mpmc_queue.front, reader.
      link* const l = front_.load(std::memory_order_acquire);
      if (l->ring.try_pop(out)) return true;
      if (!leave(l)) return false;
    }
  }

  // Capacity of the ring that producers use now.
  std::size_t capacity() const noexcept {
    // edge mpmc_queue.link, reader.
    return back_.load(std::memory_order_acquire)->ring.capacity();
  }

 private:
  struct link {
    explicit link(std::size_t capacity) : ring(capacity) {}
    mpmc_ring<T> ring;
    std::atomic<link*> next{nullptr};
  };

  // Moves the front past an exhausted ring; false if that is not the case.
  bool leave(link* l) noexcept {
    if (!l->ring.is_exhausted()) return false;
    LCI_RACE_POINT("mpmc_queue.leave");
    // Never null: a ring gets its successor before it is closed (edge mpmc_ring.close).
    // edge mpmc_queue.link, reader.
    link* const next = l->next.load(std::memory_order_acquire);
    // edge mpmc_queue.front, writer. Losing means that another consumer did the same.
    front_.compare_exchange_strong(l, next, std::memory_order_acq_rel, std::memory_order_relaxed);
    return true;
  }

  LCI_COLD void push_slow(const T& value) {
    // A consumer that lost its core while it copied an element out makes a ring look full although
    // it is not. Growing for that would double the queue after each such accident, so the producer
    // yields to the consumer first.
    constexpr int PATIENCE = 64;
    for (int tries = 0;; ++tries) {
      link* const l = back_.load(std::memory_order_acquire);  // edge mpmc_queue.link, reader
      const push_result result = l->ring.try_push(value);
      if (result == push_result::pushed) return;
      LCI_RACE_POINT("mpmc_queue.push_slow");
      if (result == push_result::full) {
        if (l->ring.size() < l->ring.capacity() && tries < PATIENCE)
          sched_yield();
        else
          grow(l);
      }
    }
  }

  // Adds an empty ring behind `full`, if no other thread was faster. The caller's element goes in
  // afterwards: the thread that takes it may free the queue while this one still holds the lock.
  void grow(link* full) {
    auto fresh = std::make_unique<link>(full->ring.capacity() * 2);
    const std::lock_guard guard(growing_);
    if (back_.load(std::memory_order_relaxed) != full) return;
    // edge mpmc_queue.link, writer. The link comes first, then the close: a thread that finds the
    // ring closed finds the next one, too.
    full->next.store(fresh.get(), std::memory_order_release);
    full->ring.close();
    back_.store(fresh.release(), std::memory_order_release);
    LCI_RACE_POINT("mpmc_queue.grow.before_unlock");
  }

  link* const first_;
  base::spinlock growing_;                             // one ring is added at a time
  alignas(base::CACHE_LINE) std::atomic<link*> back_;  // ring of the producers
  std::atomic<link*> front_;                           // ring of the consumers; both change rarely
};

}  // namespace lci::data
