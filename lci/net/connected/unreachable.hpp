// Ranks that one device cannot connect with: its sink is told of each once, with the reason, and
// what is posted to it there is refused from then on. So it is a list of what this device has still
// to tell, and has told; the state of the rank is in peer_table, which the sink reports to. Owned
// by the queues behind a device. Threads: shared; serve() and set_told() are the polling thread's.
// Always true: the first reason stays, and a rank in it is never taken out.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace lci::net::connected {

class unreachable {
 public:
  explicit unreachable(std::size_t ranks) : of_(ranks) {}

  // why: outlives this.
  void add(int rank, const char* why) noexcept {
    entry& mine = of(rank);
    if (mine.why.load(std::memory_order_relaxed) != nullptr) return;
    // edge net.unreachable: the text before its address, and that before the flag; partner is
    // serve().
    mine.why.store(why, std::memory_order_release);
    has_news_.store(true, std::memory_order_release);
  }
  // Relaxed, here and below: nothing else is read by it.
  bool has(int rank) const noexcept {
    return of(rank).why.load(std::memory_order_relaxed) != nullptr;
  }
  bool is_told(int rank) const noexcept { return of(rank).is_told.load(std::memory_order_relaxed); }
  bool has_news() const noexcept { return has_news_.load(std::memory_order_relaxed); }

  // The sink is about to be told of that rank. First, since it may poll.
  void set_told(int rank) noexcept { of(rank).is_told.store(true, std::memory_order_relaxed); }
  // use(rank, why) for all that are not told.
  template <class Use>
  void serve(Use&& use) noexcept {
    // edge net.unreachable: partner is add(). First, so that no rank is overlooked.
    has_news_.exchange(false, std::memory_order_acquire);
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const int rank = static_cast<int>(i);
      const char* const why = of_[i].why.load(std::memory_order_acquire);
      if (why != nullptr && !is_told(rank)) use(rank, why);
    }
  }

 private:
  struct entry {
    std::atomic<const char*> why{nullptr};  // null: it is not given up
    std::atomic<bool> is_told{false};       // and the sink was told
  };
  entry& of(int rank) noexcept { return of_[static_cast<std::size_t>(rank)]; }
  const entry& of(int rank) const noexcept { return of_[static_cast<std::size_t>(rank)]; }

  std::vector<entry> of_;  // by rank
  std::atomic<bool> has_news_{false};
};

}  // namespace lci::net::connected
