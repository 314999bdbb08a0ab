// Gets of a few KiB, which their target answers with one packet: an entry in a table, and a message
// in the lane of the thread that posts. No region is made for the buffer, and no record goes from
// list to list (bulk_stream). Callers: endpoint posts; inbox brings answers, and the peer's end.
// Threads: shared; what takes a sink is for the thread that is inside the device's `polling`.
// Always true: what was opened is closed once, and its poster told once; a name that is not that of
// an open get to that rank closes nothing; of a rank that was dropped nothing is opened.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/shm/lane.hpp"
#include "backends/shm/layout.hpp"
#include "backends/shm/outbox.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class short_gets {
 public:
  static constexpr std::uint32_t COUNT = 64;  // at a time

  // In the place of a region's name, in requests and answers.
  struct name {
    std::uint32_t slot = 0, generation = 0;
  };
  static constexpr bool is_one(std::uint32_t slot) noexcept { return slot >= FIRST_NAME; }

  struct open_get {
    std::byte* buffer = nullptr;
    std::size_t size = 0;
    void* context = nullptr;
    std::uint64_t started_ticks = 0;  // 0: not timed
    int rank = -1;
  };

  explicit short_gets(int ranks) : dropped_(static_cast<std::size_t>(ranks)) {
    for (std::uint32_t i = 0; i < COUNT; ++i) free_[i] = static_cast<std::uint8_t>(COUNT - 1 - i);
  }

  // In the lane of this thread, where it stands behind the puts and messages of that lane, those
  // that the target defers among them. False: it has to go another way, since there is no room, the
  // thread has no lane (a get makes none: more than one lane ends the order of puts), or there are
  // puts in other lanes.
  bool post(const net::net_op& op, outbox& out, bool is_timed) noexcept;
  // The answer; a late, repeated or forged one finds no such get.
  void take_reply(rx_lane& lane, const chunk_record& r, mem::packet& packet,
                  net::sink& to) noexcept;
  void take_refusal(int rank, const get_failure& r, net::sink& to) noexcept;
  // The peer has ended: everything towards it fails.
  void drop_peer(int rank, net::sink& to) noexcept;
  // The device has ended, no thread posts or polls: answers that come find no get.
  void forget() noexcept {
    const std::lock_guard lock(lock_);
    for (std::uint32_t at = 0; at < COUNT; ++at)
      if (entries_[at].is_open) free_entry(at);
    open_.store(0, std::memory_order_relaxed);
  }

  // For tests, besides.
  // False: there is no room, or the rank was dropped.
  bool open(const open_get& what, name& out) noexcept {
    const std::lock_guard lock(lock_);
    if (free_count_ == 0 || dropped_[static_cast<std::size_t>(what.rank)]) return false;
    const std::uint32_t at = free_[--free_count_];
    entry& e = entries_[at];
    e.what = what;
    e.is_open = true;
    out = {FIRST_NAME + at, ++e.generation};
    open_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // False: there is no such get. Else finish() follows.
  bool close(int rank, name which, open_get& out) noexcept {
    const std::uint32_t at = which.slot - FIRST_NAME;
    if (at >= COUNT) return false;
    const std::lock_guard lock(lock_);
    entry& e = entries_[at];
    if (!e.is_open || e.generation != which.generation || e.what.rank != rank) return false;
    out = e.what;
    free_entry(at);
    return true;
  }
  // Nothing more is opened to that rank; one that was open is closed. False: there was none.
  bool drop(int rank, open_get& out) noexcept {
    const std::lock_guard lock(lock_);
    dropped_[static_cast<std::size_t>(rank)] = true;
    for (std::uint32_t at = 0; at < COUNT; ++at) {
      if (!entries_[at].is_open || entries_[at].what.rank != rank) continue;
      out = entries_[at].what;
      free_entry(at);
      return true;
    }
    return false;
  }
  void finish(const open_get& get, const char* why, net::sink& to) noexcept;
  // edge short_gets.finished: partner is the subtraction in finish(), after the sink was called.
  bool is_empty() const noexcept { return open_.load(std::memory_order_acquire) == 0; }

 private:
  // No region has such a number.
  static constexpr std::uint32_t FIRST_NAME = mem::region_table::MAX_REGIONS;

  struct entry {
    open_get what;
    std::uint32_t generation = 0;
    bool is_open = false;
  };

  void free_entry(std::uint32_t at) noexcept {
    entries_[at].is_open = false;
    free_[free_count_++] = static_cast<std::uint8_t>(at);
  }

  base::spinlock lock_;  // guards the entries and lists below
  std::array<entry, COUNT> entries_;
  std::array<std::uint8_t, COUNT> free_{};
  std::uint32_t free_count_ = COUNT;
  std::vector<bool> dropped_;  // by rank
  std::atomic<std::uint32_t> open_{0};
};

}  // namespace lci::shm
