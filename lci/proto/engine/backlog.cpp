#include "lci/proto/engine/backlog.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace lci::proto {

namespace {

template <class Map>
typename Map::node_type make_node() {
  Map one;
  one.try_emplace(0);
  return one.extract(one.begin());
}

}  // namespace

backlog::backlog(std::size_t spares)
    : spares_wanted_(spares), spare_queue_(make_node<queue_map>()) {
  try {
    while (spare_count_ < spares_wanted_) free_locked(*new backlog_entry);
  } catch (...) {
    while (spares_ != nullptr) delete std::exchange(spares_, spares_->next);
    throw;
  }
}

backlog::~backlog() {
  for (auto& [rank, of] : queues_)
    while (of.first != nullptr) delete std::exchange(of.first, of.first->next);
  while (spares_ != nullptr) delete std::exchange(spares_, spares_->next);
}

bool backlog::pending_slow(int rank) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = queues_.find(rank);
  return it != queues_.end() && it->second.first != nullptr;
}

std::uint64_t backlog::pushed(int rank) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = queues_.find(rank);
  return it != queues_.end() ? it->second.pushed : 0;
}

bool backlog::has_left_slow(int rank, std::uint64_t count) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = queues_.find(rank);
  return it == queues_.end() || it->second.left >= count;
}

void backlog::append_locked(queue& to, backlog_entry& entry) noexcept {
  entry.next = nullptr;
  (to.first != nullptr ? to.last->next : to.first) = &entry;
  to.last = &entry;
  ++to.pushed;
  total_.fetch_add(1, std::memory_order_relaxed);
}

backlog_entry& backlog::take_locked(queue& from) noexcept {
  backlog_entry& out = *from.first;
  from.first = out.next;
  ++from.left;
  total_.fetch_sub(1, std::memory_order_relaxed);
  return out;
}

// One of the spare ones may have been used.
void backlog::free_locked(backlog_entry& used) noexcept {
  if (spare_count_ >= spares_wanted_) {
    delete &used;
    return;
  }
  used.bytes = {};
  used.next = spares_;
  spares_ = &used;
  ++spare_count_;
}

void backlog::make_spare_queue_locked() noexcept {
  try {
    if (spare_queue_.empty()) spare_queue_ = make_node<queue_map>();
  } catch (const std::bad_alloc&) {  // tried again with the next message
  }
}

// Null: there is none, and no memory for one.
backlog::queue* backlog::find_queue_locked(int rank) noexcept {
  make_spare_queue_locked();
  if (const auto at = queues_.find(rank); at != queues_.end()) return &at->second;
  if (spare_queue_.empty()) return nullptr;
  spare_queue_.key() = rank;
  queue* const made = &queues_.insert(std::move(spare_queue_)).position->second;
  make_spare_queue_locked();
  return made;
}

void backlog::push(int rank, std::unique_ptr<backlog_entry>&& entry) {
  const std::lock_guard lock(mutex_);
  append_locked(queues_[rank], *entry);
  (void)entry.release();
}

bool backlog::push_message(int rank, std::uint32_t imm, const void* body,
                           std::size_t size) noexcept {
  auto* made = new (std::nothrow) backlog_entry;
  const std::lock_guard lock(mutex_);
  if (made == nullptr && spares_ != nullptr) {
    made = std::exchange(spares_, spares_->next);
    --spare_count_;
  }
  if (made == nullptr) return false;
  queue* const to = find_queue_locked(rank);
  if (to == nullptr) {
    free_locked(*made);
    return false;
  }
  made->imm = imm;
  made->body_size = static_cast<std::uint32_t>(size);
  made->packet = nullptr;
  made->move = nullptr;
  std::memcpy(made->body.data(), body, size);
  append_locked(*to, *made);
  return true;
}

}  // namespace lci::proto
