// Operations that lci accepted and the network has not: in order per rank, handed on by progress.
// Owned by a port. Threads: shared; pending() is one relaxed load while nothing waits. Always true:
// an entry leaves the queue only after the network has taken it, so that nobody overtakes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "lci/mem/packet.hpp"
#include "lci/types.hpp"

namespace lci::proto {

class port;
struct transfer;

struct backlog_entry {
  std::uint32_t imm = 0;          // of a message
  std::vector<std::byte> bytes;   // message with its head, when it is in no packet
  mem::packet* packet = nullptr;  // message in a packet, `length` bytes of it
  transfer* move = nullptr;       // a put, get or zero-copy send; then nothing above counts
};

class backlog {
 public:
  // True if something waits for `rank`.
  bool pending(int rank) const noexcept {
    return total_.load(std::memory_order_relaxed) != 0 && pending_slow(rank);
  }
  bool any() const noexcept { return total_.load(std::memory_order_relaxed) != 0; }
  void push(int rank, backlog_entry entry);
  // Hands on what the network takes; answers how many entries.
  std::size_t drain(port& to);
  // Gives every entry to `drop` and forgets it; rank -1: all.
  template <class F>
  void clear(int rank, F&& drop) {
    const std::lock_guard lock(mutex_);
    for (auto& [r, queue] : queues_) {
      if (rank >= 0 && r != rank) continue;
      for (backlog_entry& e : queue) drop(e);
      total_.fetch_sub(queue.size(), std::memory_order_relaxed);
      queue.clear();
    }
  }

 private:
  bool pending_slow(int rank) const noexcept;

  mutable std::mutex mutex_;
  std::atomic<std::size_t> total_{0};                // entries in all queues; changed under mutex_
  std::map<int, std::deque<backlog_entry>> queues_;  // under mutex_
};

}  // namespace lci::proto
