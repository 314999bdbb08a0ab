// How many bytes of large active messages one peer may have under way to this device at once. Each
// has a buffer from its grant to its handler. Where the processor copies, many of them leave its
// cache, and each copy then takes longer (docs/decisions/0068-large-active-messages-in-turn.md).
// Requests beyond that wait here, oldest first.
//
// Owned by the host's context; what grants is grant_arrivals() of large_arrival. Threads: shared;
// nothing is allocated or freed under the lock.
// Always true: while requests of a rank wait, one of its messages is under way or a thread is at
// granting, or the rank is starved and counted as waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "lci/base/spinlock.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

class am_window {
 public:
  // So many messages may be under way whatever their size: one is copied while the next is granted.
  static constexpr std::size_t LEAST = 2;

  // Throws std::bad_alloc: nothing has changed.
  void add(int rank, const wire::rts& request);
  // False: another thread grants for this rank, and looks once more.
  bool begin(int rank) noexcept;
  // The next request, which counts as under way from now on. None, with `limit` bytes at a time:
  // granting is over.
  std::optional<wire::rts> next(int rank, std::size_t limit) noexcept;
  // There was no memory for what next() gave: it is the first again, granting is over. Answers
  // whether the rank is starved only now; take_starved() names it.
  bool put_back(int rank, const wire::rts& request) noexcept;
  // A message has ended, however.
  void leave(int rank, std::size_t size) noexcept;
  // A rank to be granted once more; -1: none.
  int take_starved() noexcept;
  // Requests that wait.
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }
  // In a signal handler: see(rank, requests, bytes) of each rank whose requests wait. False: locked
  // by another thread, or by the one that was interrupted.
  template <class F>
  bool try_look(F&& see) const noexcept {
    const std::unique_lock lock(lock_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    for (const auto& [rank, of] : peers_) {
      std::uint64_t bytes = 0;
      for (std::size_t i = of.first; i != of.requests.size(); ++i) bytes += of.requests[i].size;
      if (of.first != of.requests.size()) see(rank, of.requests.size() - of.first, bytes);
    }
    return true;
  }

 private:
  struct peer {
    std::vector<wire::rts> requests;  // from `first` on
    std::size_t first = 0;
    std::size_t messages = 0;  // under way
    std::size_t bytes = 0;     // of these
    bool is_granting = false;
    bool is_starved = false;
  };
  using peer_map = std::map<int, peer>;  // by rank; takes an element over without an allocation
  static constexpr std::size_t FIRST_PLACES = 8;

  // 0: it was added. Else nothing has changed: `spare` has to have that rank, with so many places.
  std::size_t try_add(int rank, const wire::rts& request, peer_map& spare) noexcept;

  mutable base::spinlock lock_;          // guards what follows
  peer_map peers_;                       // each has places for requests
  std::atomic<std::size_t> waiting_{0};  // relaxed: changed under lock_, else only a hint
};

}  // namespace lci::proto
