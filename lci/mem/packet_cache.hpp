// The parts that a packet pool is made of: magazines (stacks of pooled packets that move as a
// whole), the list of packets that a thread has lent, and the cache of one thread, which holds
// both. Used by packet_pool only. Threads: single, inside the cache's guard; any thread may read
// the counters.
// Always true: a packet in a magazine is `pooled`, one in a lent list is `lent` or `returned`.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lci/base/owned.hpp"
#include "lci/mem/packet.hpp"

namespace lci::mem {

// A number with one writer at a time, which others may read: plain instructions.
class owners_count {
 public:
  std::uint32_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(std::uint32_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(std::uint32_t n) noexcept { set(get() + n); }
  void subtract(std::uint32_t n) noexcept { set(get() - n); }

 private:
  std::atomic<std::uint32_t> value_{0};
};

// Last in, first out: the packet put last is the one whose lines are still in the cache.
class magazine {
 public:
  static constexpr std::uint32_t CAPACITY = 32;

  bool is_empty() const noexcept { return top_ == nullptr; }
  bool is_full() const noexcept { return count_.get() >= CAPACITY; }
  std::uint32_t count() const noexcept { return count_.get(); }

  void push(packet* p) noexcept {
    p->next = top_;
    top_ = p;
    count_.add(1);
  }
  packet* pop() noexcept {
    packet* const p = top_;
    if (p == nullptr) return nullptr;
    top_ = p->next;
    count_.subtract(1);
    return p;
  }
  // All packets, linked by `next`; the magazine is empty afterwards.
  packet* release() noexcept {
    count_.set(0);
    return std::exchange(top_, nullptr);
  }
  void load(packet* chain, std::uint32_t count) noexcept {
    top_ = chain;
    count_.set(count);
  }

 private:
  packet* top_ = nullptr;
  owners_count count_;
};

// Packets that peers are reading, oldest first: those come back first. The oldest ones stand in a
// table. A list through the packets themselves would be walked one line after the other, each of
// which the borrower has written last; the table's packets are all asked at the same time. See
// docs/decisions/0061-lent-packets-in-a-table.md.
class lent_list {
 public:
  static constexpr std::uint32_t TABLE = 256;  // those beyond are in a list
  static_assert(std::has_single_bit(TABLE));   // places go on where their numbers begin anew

  std::uint32_t count() const noexcept { return count_.get(); }

  void add(packet* p) noexcept {
    count_.add(1);
    if (first_ == nullptr && end_ - begin_ < TABLE) [[likely]] {
      table_[end_++ % TABLE] = p;
      return;
    }
    p->next = nullptr;
    *(last_ == nullptr ? &first_ : &last_->next) = p;
    last_ = p;
  }

  // Removes each packet p for which want(p) is true, then calls take(p); passes over no more than
  // `limit` others. Returns how many were taken.
  template <class Want, class Take>
  std::uint32_t remove(std::uint32_t limit, Want want, Take take) noexcept {
    std::uint32_t removed = 0;
    if (remove_from_table(limit, removed, want, take)) remove_from_list(limit, removed, want, take);
    count_.subtract(removed);
    if (first_ != nullptr) [[unlikely]]
      refill();
    return removed;
  }

 private:
  // True: it may go on behind them.
  template <class Want, class Take>
  bool remove_from_table(std::uint32_t& limit, std::uint32_t& removed, Want& want,
                         Take& take) noexcept {
    std::uint32_t at = begin_, kept = begin_;
    bool goes_on = true;
    for (; at != end_; ++at) {
      packet* const p = table_[at % TABLE];
      if (want(*p)) {
        take(p);
        ++removed;
      } else if (limit-- == 0) {
        goes_on = false;
        break;
      } else {
        table_[kept++ % TABLE] = p;
      }
    }
    // Those that were passed over stand before the rest again.
    const std::uint32_t begin = at - (kept - begin_);
    if (begin != begin_)
      for (std::uint32_t to = at; kept != begin_;) table_[--to % TABLE] = table_[--kept % TABLE];
    begin_ = begin;
    return goes_on;
  }
  template <class Want, class Take>
  void remove_from_list(std::uint32_t& limit, std::uint32_t& removed, Want& want,
                        Take& take) noexcept {
    packet* before = nullptr;
    for (packet* p = first_; p != nullptr;) {
      packet* const next = p->next;
      if (want(*p)) {
        *(before == nullptr ? &first_ : &before->next) = next;
        if (next == nullptr) last_ = before;
        take(p);
        ++removed;
      } else {
        if (limit-- == 0) return;
        before = p;
      }
      p = next;
    }
  }
  void refill() noexcept {
    while (first_ != nullptr && end_ - begin_ < TABLE)
      table_[end_++ % TABLE] = std::exchange(first_, first_->next);
    if (first_ == nullptr) last_ = nullptr;
  }

  std::uint32_t begin_ = 0, end_ = 0;  // in the table; they only grow
  packet* first_ = nullptr;
  packet* last_ = nullptr;
  owners_count count_;
  std::array<packet*, TABLE> table_;
};

// What one thread keeps at hand. Two magazines, so that a thread that alternates around a full or
// an empty one does not go to the shared store each time.
struct thread_cache_state {
  base::owned guard;
  magazine loaded;
  magazine spare;
  lent_list lent;
  std::uint32_t credits = 0;  // packets that this thread may lend without asking

  std::uint32_t pooled() const noexcept { return loaded.count() + spare.count(); }
};

}  // namespace lci::mem
