#include "lci/proxy/gpu_queue.hpp"

#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "lci/errors.hpp"
#include "lci/proto/engine/core.hpp"

namespace lci::proxy {

gpu_queue::gpu_queue(proto::core& core, proto::gpu::devices& gpus, gpu::queue_record& record,
                     const gpu::endpoint_record* endpoint, std::uint64_t generation, int gpu,
                     std::uint32_t capacity, std::uint32_t message_size)
    : core_(core), message_size_(message_size), record_(record) {
  const std::uint32_t stride =
      (static_cast<std::uint32_t>(sizeof(gpu::message_slot)) + message_size + 63) / 64 * 64;
  shared_ = block::shared(std::size_t{capacity} * stride, gpu);
  own_ = block::of_gpu(sizeof(std::uint64_t), gpu);
  own_.fill(gpus, std::vector<std::byte>(sizeof(std::uint64_t)));
  record_.slots = reinterpret_cast<unsigned char*>(shared_.at());
  record_.capacity = capacity;
  record_.stride = stride;
  record_.taken = reinterpret_cast<std::uint64_t*>(own_.at());
  record_.endpoint = endpoint;
  record_.generation = generation;
}

std::array<block, 2> gpu_queue::end() noexcept {
  std::list<message> dropped;
  const std::lock_guard lock(lock_);
  is_over_ = true;
  dropped.swap(waiting_);
  waiting_count_.store(0, std::memory_order_relaxed);  // as in take()
  return {std::move(shared_), std::move(own_)};
}

gpu::message_slot* gpu_queue::slot_of(std::uint64_t turn) const noexcept {
  return reinterpret_cast<gpu::message_slot*>(
      record_.slots + ((turn - 1) & (record_.capacity - 1)) * std::size_t{record_.stride});
}

// Whether the next turn has its slot.
bool gpu_queue::is_free_locked() const noexcept {
  // edge gpu.queue_free, other side in the kernel that has copied the message out.
  return wqe::word_at<std::uint64_t>(&slot_of(turn_ + 1)->turn).load(std::memory_order_acquire) ==
         0;
}

void gpu_queue::write_locked(int rank, std::uint64_t tag, const void* bytes,
                             std::size_t size) noexcept {
  gpu::message_slot* const slot = slot_of(++turn_);
  slot->tag = tag;
  slot->rank = rank;
  // Relaxed: the turn behind it says that it is there; kernels look at it before.
  wqe::word_at<std::uint32_t>(&slot->size)
      .store(static_cast<std::uint32_t>(size), std::memory_order_relaxed);
  if (size != 0) std::memcpy(slot + 1, bytes, size);
  // edge gpu.queue, other side in the poll of a kernel.
  wqe::word_at<std::uint64_t>(&slot->turn).store(turn_, std::memory_order_release);
}

void gpu_queue::take(const status_t& status) {
  if (status.size > message_size_)
    throw truncation_error("an active message of " + std::to_string(status.size) +
                           " bytes from rank " + std::to_string(status.rank) +
                           " for a GPU queue whose messages have at most " +
                           std::to_string(message_size_) + "; it was dropped");
  const auto* const bytes = static_cast<const std::byte*>(status.buffer);
  const std::lock_guard lock(lock_);
  if (is_over_) return;
  if (waiting_.empty() && is_free_locked())
    return write_locked(status.rank, status.tag, bytes, status.size);
  waiting_.push_back({status.rank, status.tag, {bytes, bytes + status.size}});
  // Relaxed: says only whether a look is worth it.
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
}

void gpu_queue::signal(status_t status) {
  // edge core.allocator: partner is set_allocator().
  allocator_base_t* const from = core_.allocator.load(std::memory_order_acquire);
  try {
    take(status);
  } catch (...) {
    core_.give_back(status.buffer, from);
    throw;
  }
  core_.give_back(status.buffer, from);
}

std::size_t gpu_queue::move_waiting() noexcept {
  if (waiting_count_.load(std::memory_order_relaxed) == 0) return 0;
  const std::lock_guard lock(lock_);
  std::size_t moved = 0;
  for (; !waiting_.empty() && is_free_locked(); ++moved) {
    const message& first = waiting_.front();
    write_locked(first.rank, first.tag, first.bytes.data(), first.bytes.size());
    waiting_.pop_front();
  }
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  return moved;
}

}  // namespace lci::proxy
