#include "lci/proto/backlog.hpp"

#include <utility>

#include "lci/proto/channel.hpp"

namespace lci::proto {

bool backlog::pending_slow(int rank) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = queues_.find(rank);
  return it != queues_.end() && !it->second.empty();
}

void backlog::push(int rank, backlog_entry entry) {
  const std::lock_guard lock(mutex_);
  queues_[rank].push_back(std::move(entry));
  total_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t backlog::drain(port& to) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return 0;
  std::size_t moved = 0;
  // No queue ever leaves the map, so the loops may let go of the lock.
  for (auto& [rank, queue] : queues_) {
    // A rank that refuses keeps the rest of its own queue waiting, not the queues of others.
    transfer* ended = nullptr;
    while (!queue.empty() && to.try_entry(rank, queue.front(), ended)) {
      queue.pop_front();
      total_.fetch_sub(1, std::memory_order_relaxed);
      ++moved;
      if (ended == nullptr) continue;
      // It may signal a handler, which may post.
      lock.unlock();
      to.conclude(*std::exchange(ended, nullptr));
      if (!lock.try_lock()) return moved;
    }
  }
  return moved;
}

}  // namespace lci::proto
