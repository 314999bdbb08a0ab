// A queue that many threads push to and take from at the same time, without moving the same lines
// from one to the other for each element. Completion queues of the type per_thread are made of it.
// See docs/decisions/0063-objects-that-threads-share.md.
//
// It is PARTS queues: each thread pushes to the one of its number, and takes first from that, then
// from where it found something last, then from all others. A part is made when a thread of its
// number first pushes.
//
// Threads: shared, any number of producers and consumers. Push and pop cost what the part's cost;
// those of threads whose numbers differ by PARTS share a part.
//
// Always true: what one thread pushes comes out in that order; there is no order between threads. A
// pop that finds nothing has looked into every part since it began, and has written nothing. One
// pop in FAIR begins at another part, each in its turn, so as long as threads of one number keep
// taking, they take from every part, however much of their own they find.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/base/platform.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/data/mpmc_queue.hpp"

namespace lci::data {

template <class T, std::uint32_t COUNT = 16, std::size_t CAPACITY = 64>
class per_thread_queue {
 public:
  static constexpr std::uint32_t PARTS = COUNT;
  static constexpr std::size_t PART_CAPACITY = CAPACITY;  // at first
  static constexpr std::uint32_t FAIR = 32;

  per_thread_queue() = default;
  per_thread_queue(const per_thread_queue&) = delete;
  per_thread_queue& operator=(const per_thread_queue&) = delete;
  ~per_thread_queue() {
    for (const std::atomic<part*>& one : parts_) delete one.load(std::memory_order_relaxed);
  }

  // Never refuses. Throws std::bad_alloc when the part has to be made or to grow and cannot; then
  // only this element is lost. Touches nothing here once the element can be taken, since its taker
  // may free the queue.
  void push(const T& value) {
    std::atomic<part*>& mine = parts_[base::thread_id() % PARTS];
    // edge per_thread_queue.part, reader.
    part* to = mine.load(std::memory_order_acquire);
    if (to == nullptr) [[unlikely]]
      to = make(mine);
    to->push(value);
  }

  // False: there is no complete element to take.
  bool try_pop(T& out) noexcept {
    const std::uint32_t number = base::thread_id() % PARTS;
    habit& mine = habits_[number];
    const std::uint32_t taken = mine.taken.load(std::memory_order_relaxed);
    std::uint32_t first;
    if (taken % FAIR != 0) {
      if (try_take(number, out)) {
        mine.taken.store(taken + 1, std::memory_order_relaxed);
        return true;
      }
      first = mine.last.load(std::memory_order_relaxed);
    } else {
      first = taken / FAIR;
    }
    for (std::uint32_t i = 0; i < PARTS; ++i) {
      const std::uint32_t at = (first + i) % PARTS;
      if (!try_take(at, out)) continue;
      mine.last.store(at, std::memory_order_relaxed);
      mine.taken.store(taken + 1, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

 private:
  struct part : mpmc_queue<T> {
    part() : mpmc_queue<T>(PART_CAPACITY) {}
  };

  // How the threads of one number take from this queue. Here and not with the thread: a thread that
  // goes from one queue to another and back would come to the same one each time that a fair turn
  // is due. Relaxed, and written in two steps: an increment that threads of the same number lose
  // only puts off their next fair turn.
  struct alignas(base::CACHE_LINE) habit {
    std::atomic<std::uint32_t> taken{0};
    std::atomic<std::uint32_t> last{0};  // the part where they last found what was not their own
  };

  bool try_take(std::uint32_t at, T& out) noexcept {
    // edge per_thread_queue.part, reader.
    part* const from = parts_[at].load(std::memory_order_acquire);
    return from != nullptr && from->try_pop(out);
  }

  // The part in that place, which another thread of the number may make first.
  LCI_COLD static part* make(std::atomic<part*>& place) {
    auto made = std::make_unique<part>();
    LCI_RACE_POINT("per_thread_queue.make");
    part* there = nullptr;
    // edge per_thread_queue.part, writer.
    if (place.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel))
      there = made.release();
    return there;
  }

  alignas(base::CACHE_LINE) std::array<std::atomic<part*>, PARTS> parts_{};  // each set once
  std::array<habit, PARTS> habits_;
};

}  // namespace lci::data
