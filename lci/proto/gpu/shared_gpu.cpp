#include "lci/proto/gpu/shared_gpu.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include "lci/base/platform.hpp"

namespace lci::proto::gpu {

shared_gpu_ways::way shared_gpu_ways::pick(int rank, std::size_t size, bool is_get) noexcept {
  const std::lock_guard lock(lock_);
  classes* of_peer = nullptr;
  try {
    of_peer = &peers_[rank];
  } catch (const std::bad_alloc&) {
    return BY_GPU;
  }
  size_class& c = (*of_peer)[is_get][class_of(size)];
  const way picked = c.now;
  if (c.left == 0 || --c.left != 0) return picked;
  if (picked == c.best) {
    begin(c, picked == BY_GPU ? BY_HOST : BY_GPU, STRETCH);
  } else {
    c.distance = std::min(2 * c.distance, LONGEST);
    begin(c, c.best, c.distance);
  }
  return picked;
}

shared_gpu_ways::way shared_gpu_ways::next(int rank, std::size_t size, bool is_get) const noexcept {
  const std::lock_guard lock(lock_);
  const auto found = peers_.find(rank);
  return found == peers_.end() ? BY_GPU : found->second[is_get][class_of(size)].now;
}

void shared_gpu_ways::note(int rank, std::size_t size, bool is_get, way went,
                           std::uint64_t began) noexcept {
  const std::uint64_t now = base::cpu_ticks();
  static const std::uint64_t per_ms = std::max<std::uint64_t>(base::ticks_per_ms(), 1);
  note(rank, size, is_get, went, began * 1'000 / per_ms * 1'000, now * 1'000 / per_ms * 1'000);
}

void shared_gpu_ways::note(int rank, std::size_t size, bool is_get, way went, std::uint64_t began,
                           std::uint64_t ended) noexcept {
  const std::lock_guard lock(lock_);
  const auto found = peers_.find(rank);
  if (found == peers_.end()) return;
  size_class& c = found->second[is_get][class_of(size)];
  tally& t = c.of[went];
  const std::uint64_t from = std::max(began, t.last_ended);
  t.last_ended = std::max(t.last_ended, ended);
  if (t.seen++ != 0) t.sum += ended > from ? ended - from : 0;
  if (t.seen < STRETCH) return;
  t.cost = std::max<std::uint64_t>(t.sum / (STRETCH - 1), 1);
  t.seen = 1;
  t.sum = 0;
  if (went == BY_GPU && c.left == 0 && t.cost > 1000 * (SLOW_US + size / BYTES_PER_US))
    begin(c, BY_HOST, STRETCH);
  const way best = c.best, other = best == BY_GPU ? BY_HOST : BY_GPU;
  const std::uint64_t cost_of_best = c.of[best].cost, cost_of_other = c.of[other].cost;
  if (cost_of_best == 0 || cost_of_other == 0) return;
  // By more than a tenth, or it would change with the noise.
  if (10 * cost_of_other >= 9 * cost_of_best) return;
  c.distance = SHORTEST;
  if (went == other) {
    c.best = other;
    begin(c, other, SHORTEST);
  } else if (c.now == best) {
    // It has become slow. What the other one takes was measured long ago.
    begin(c, other, STRETCH);
  }
}

}  // namespace lci::proto::gpu
