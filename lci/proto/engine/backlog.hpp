// Operations that lci accepted and the network has not: in order per rank, handed on by progress.
// Owned by a post queue. Threads: shared; pending() is one relaxed load while nothing waits. Always
// true: an entry leaves the queue only after the network has taken it, so that nothing overtakes
// it. What the protocols say by themselves finds a place also where memory is short: some entries
// are made before they are needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lci/mem/packet.hpp"
#include "lci/types.hpp"

namespace lci::proto {

struct transfer;

struct backlog_entry {
  static constexpr std::size_t BODY_BYTES = 96;  // of a message of the protocols

  std::uint32_t imm = 0;          // of a message
  std::uint32_t body_size = 0;    // a message of the protocols, in `body`; else 0
  std::vector<std::byte> bytes;   // another message with its head, when it is in no packet
  mem::packet* packet = nullptr;  // message in a packet, `length` bytes of it
  transfer* move = nullptr;       // a put, get or zero-copy send; then nothing above counts
  backlog_entry* next = nullptr;  // in its queue
  std::array<std::byte, BODY_BYTES> body;

  const std::byte* data() const noexcept { return body_size != 0 ? body.data() : bytes.data(); }
  std::size_t size() const noexcept { return body_size != 0 ? body_size : bytes.size(); }
};

class backlog {
 public:
  // spares: entries that are kept for push_message(). Throws std::bad_alloc.
  explicit backlog(std::size_t spares);
  ~backlog();
  backlog(const backlog&) = delete;
  backlog& operator=(const backlog&) = delete;

  // True if something waits for `rank`.
  bool pending(int rank) const noexcept {
    return total_.load(std::memory_order_relaxed) != 0 && pending_slow(rank);
  }
  bool any() const noexcept { return total_.load(std::memory_order_relaxed) != 0; }
  // For a caller that waits for what was pushed for `rank` before, and not for what others push
  // meanwhile: how many entries that rank has had, and whether the first `count` of them have left.
  std::uint64_t pushed(int rank) const noexcept;
  bool has_left(int rank, std::uint64_t count) const noexcept {
    return !any() || has_left_slow(rank, count);
  }
  // Throws std::bad_alloc: nothing has changed.
  void push(int rank, std::unique_ptr<backlog_entry>&& entry);
  // A message of the protocols, at most BODY_BYTES. False: there is no memory, and no spare entry
  // either.
  bool push_message(int rank, std::uint32_t imm, const void* body, std::size_t size) noexcept;
  // Hands on what the network takes; answers how many entries. take(rank, entry, ended) answers
  // whether an entry is taken; it sets `ended` to a transfer that is over already, for
  // conclude(transfer&), which is called without the lock.
  template <class Take, class Conclude>
  std::size_t drain(Take&& take, Conclude&& conclude) {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return 0;
    std::size_t moved = 0;
    // No queue ever leaves the map, so the loops may let go of the lock.
    for (auto& [rank, of] : queues_) {
      // A rank that refuses keeps the rest of its own queue waiting, not the queues of others.
      transfer* ended = nullptr;
      while (of.first != nullptr && take(rank, *of.first, ended)) {
        free_locked(take_locked(of));
        ++moved;
        if (ended == nullptr) continue;
        // It may signal a handler, which may post.
        lock.unlock();
        conclude(*std::exchange(ended, nullptr));
        if (!lock.try_lock()) return moved;
      }
    }
    return moved;
  }
  // Gives every entry to `drop` and forgets it; rank -1: all.
  template <class F>
  void clear(int rank, F&& drop) {
    const std::lock_guard lock(mutex_);
    for (auto& [r, of] : queues_) {
      if (rank >= 0 && r != rank) continue;
      while (of.first != nullptr) {
        drop(*of.first);
        free_locked(take_locked(of));
      }
    }
  }
  // Calls see(rank, entries) for whom something waits; false when another has the lock. For a
  // signal handler.
  template <class F>
  bool try_look(F&& see) const noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (const auto& [rank, of] : queues_) {
      std::uint64_t n = 0;
      for (const backlog_entry* e = of.first; e != nullptr; e = e->next) ++n;
      if (n != 0) see(rank, n);
    }
    return true;
  }

 private:
  struct queue {
    backlog_entry* first = nullptr;
    backlog_entry* last = nullptr;
    std::uint64_t pushed = 0, left = 0;  // entries, since the beginning
  };
  using queue_map = std::map<int, queue>;
  bool pending_slow(int rank) const noexcept;
  bool has_left_slow(int rank, std::uint64_t count) const noexcept;
  void make_spare_queue_locked() noexcept;
  queue* find_queue_locked(int rank) noexcept;
  void append_locked(queue& to, backlog_entry& entry) noexcept;
  backlog_entry& take_locked(queue& from) noexcept;
  void free_locked(backlog_entry& used) noexcept;

  const std::size_t spares_wanted_;
  mutable std::mutex mutex_;           // guards all below; total_ is read without
  std::atomic<std::size_t> total_{0};  // entries in all queues
  queue_map queues_;
  queue_map::node_type spare_queue_;  // for a rank that has none
  backlog_entry* spares_ = nullptr;
  std::size_t spare_count_ = 0;
};

}  // namespace lci::proto
