#include "lci/proto/gpu/shared_gpu.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "lci/base/platform.hpp"

namespace lci::proto::gpu {

shared_gpu_ways::way shared_gpu_ways::pick(int rank, std::size_t size, bool is_get) const noexcept {
  const std::lock_guard lock(lock_);
  const auto found = peers_.find(rank);
  return found == peers_.end() ? BY_GPU : found->second[is_get][class_of(size)].now;
}

void shared_gpu_ways::enter(int rank) noexcept {
  {
    const std::lock_guard lock(lock_);
    if (peers_.contains(rank)) return;
  }
  try {
    std::map<int, classes> made;  // not under the lock
    made.try_emplace(rank);
    auto one = made.extract(made.begin());
    const std::lock_guard lock(lock_);
    peers_.insert(std::move(one));
  } catch (const std::bad_alloc&) {  // then the GPU copies
  }
}

void shared_gpu_ways::note(int rank, std::size_t size, bool is_get, way went,
                           std::uint64_t began) noexcept {
  static const std::uint64_t per_ms = std::max<std::uint64_t>(base::ticks_per_ms(), 1);
  note(rank, size, is_get, went, ns_of(began, per_ms), ns_of(base::cpu_ticks(), per_ms));
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
  if (t.seen == STRETCH) {
    t.cost = std::max<std::uint64_t>(t.sum / (STRETCH - 1), 1);
    t.seen = 1;
    t.sum = 0;
    if (went == BY_GPU && c.left == 0 && t.cost > 1000 * (SLOW_US + size / BYTES_PER_US))
      return begin(c, BY_HOST, STRETCH);
    if (compare(c, went)) return;
  }
  if (went == c.now && c.left != 0 && --c.left == 0) go_on(c);
}

// Whether that changes the way.
bool shared_gpu_ways::compare(size_class& c, way measured) noexcept {
  const way other = c.best == BY_GPU ? BY_HOST : BY_GPU;
  tally& of_other = c.of[other];
  const std::uint64_t cost = c.of[c.best].cost;
  // By more than a tenth, or it would change with the noise.
  if (cost == 0 || of_other.cost == 0 || 10 * of_other.cost >= 9 * cost) return false;
  if (measured == other) {
    c.best = other;
    c.distance = SHORTEST;
    begin(c, other, SHORTEST);
    return true;
  }
  if (c.now != c.best) return false;
  // It has become slow. What the other takes was measured long ago.
  of_other.cost = 0;
  c.distance = SHORTEST;
  begin(c, other, STRETCH);
  return true;
}

// A stretch is over.
void shared_gpu_ways::go_on(size_class& c) noexcept {
  if (c.now == c.best) return begin(c, c.best == BY_GPU ? BY_HOST : BY_GPU, STRETCH);
  c.distance = std::min(2 * c.distance, LONGEST);
  begin(c, c.best, c.distance);
}

}  // namespace lci::proto::gpu
