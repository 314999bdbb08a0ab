#include "backends/cuda/copier.hpp"

#include <algorithm>
#include <new>

namespace lci::cuda {
namespace {

// After a small copy this many chunks of bulk stay small.
constexpr std::size_t MEMORY_CHUNKS = 32;

// The lock of a copier, if it is free.
class inside {
 public:
  explicit inside(std::atomic<bool>& flag) noexcept
      // edge cuda.copier: what the one before did inside is seen; partner is the destructor.
      : flag_(flag), in_(!flag.exchange(true, std::memory_order_acquire)) {}
  ~inside() { leave(); }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;
  explicit operator bool() const noexcept { return in_; }
  void leave() noexcept {
    if (in_) flag_.store(false, std::memory_order_release);  // edge cuda.copier
    in_ = false;
  }

 private:
  std::atomic<bool>& flag_;
  bool in_;
};

bool is_flag_valid(const flag_write& flag) noexcept {
  return flag.bytes == 0 ||
         ((flag.bytes == 4 || flag.bytes == 8) && flag.address % flag.bytes == 0);
}

copy_answer refused(const failure& why) noexcept { return {errorcode_t::fatal, why}; }

}  // namespace

copier::copier(gpu& g, const copier_limits& limits) : gpu_(g), limits_(limits) {
  context_ = g.context();
  const std::string on = "GPU " + std::to_string(g.facts().ordinal);
  const context_scope scope(g.call(), context_);
  check(g.call(), scope.entered(), "cuCtxPushCurrent", on);
  try {
    constexpr std::size_t LANES = 2 * DIRECTIONS;
    check(g.call(),
          g.call().mem_host_alloc(&pinned_, LANES * sizeof(lane::pinned),
                                  abi::HOST_ALLOC_PORTABLE | abi::HOST_ALLOC_DEVICE_MAP),
          "cuMemHostAlloc", on + ", " + std::to_string(LANES * sizeof(lane::pinned)) + " bytes");
    auto* const memory = new (pinned_) lane::pinned[LANES];
    for (std::size_t i = 0; i < DIRECTIONS; ++i) {
      const bool is_to_gpu = static_cast<direction>(i) == direction::to_gpu;
      roads_[i].small.open_st(g, memory[2 * i], is_to_gpu ? lane::source::host : lane::source::any);
      roads_[i].bulk.open_st(g, memory[2 * i + 1]);
    }
  } catch (...) {
    close();
    throw;
  }
}

copier::~copier() {
  const context_scope scope(gpu_.call(), context_);
  close();
}

void copier::close() noexcept {
  for (road& each : roads_) {
    each.small.close_st();
    each.bulk.close_st();
  }
  if (pinned_ != nullptr)
    log_teardown(gpu_.call(), gpu_.call().mem_free_host(pinned_), "cuMemFreeHost");
}

// `hand_over` answers for the road, inside the lock and the context.
template <class HandOver>
copy_answer copier::post_locked(direction way, HandOver&& hand_over) noexcept {
  const inside lock(inside_);
  if (!lock) return {errorcode_t::retry_lock, {}};
  road& on = roads_[static_cast<std::size_t>(way)];
  const context_scope scope(gpu_.call(), context_);
  if (scope.entered() != abi::result::success)
    return refused({scope.entered(), "cuCtxPushCurrent"});
  return hand_over(on);
}

copy_answer copier::post(direction way, std::span<const copy> copies, const flag_write& flag,
                         copy_completion* to) noexcept {
  std::array<copy, lane::BATCH> filled;
  std::size_t count = 0, bytes = 0;
  const failure wrong{abi::result::invalid_value, "copier::post"};
  if (!is_flag_valid(flag)) return refused(wrong);
  for (const copy& each : copies) {
    if (each.size == 0) continue;
    if (count == filled.size()) return refused(wrong);
    filled[count++] = each;
    bytes += each.size;
  }
  if (count > 1 && bytes > limits_.small_max) return refused(wrong);
  if (count == 0 && flag.bytes == 0) return {errorcode_t::done, {}};
  return post_locked(way, [&](road& on) {
    if (bytes > limits_.small_max) return post_bulk_locked(on, filled[0], flag, to);
    return post_small_locked(
        on, [&] { return on.small.begin_st(std::span(filled).first(count), flag, to); });
  });
}

copy_answer copier::post_stores(direction way, std::span<const flag_write> stores,
                                copy_completion* to) noexcept {
  const bool are_valid =
      gpu_.facts().stream_stores && !stores.empty() && stores.size() <= lane::STORES &&
      std::all_of(stores.begin(), stores.end(),
                  [](const flag_write& each) { return each.bytes != 0 && is_flag_valid(each); });
  if (!are_valid) return refused({abi::result::invalid_value, "copier::post_stores"});
  return post_locked(way, [&](road& on) {
    return post_small_locked(on, [&] { return on.small.begin_stores_st(stores, to); });
  });
}

// `begin` answers as lane::begin_st().
template <class Begin>
copy_answer copier::post_small_locked(road& on, Begin&& begin) noexcept {
  if (on.small.is_full_st()) return {errorcode_t::retry_nomem, {}};
  // Before the entry exists, so that a poll of another thread never counts below 0.
  pending_.fetch_add(1, std::memory_order_relaxed);  // a number only; poll() looks under the lock
  if (const failure error = begin()) {
    pending_.fetch_sub(1, std::memory_order_relaxed);
    return refused(error);
  }
  small_recently_ = MEMORY_CHUNKS;
  return {errorcode_t::posted, {}};
}

copy_answer copier::post_bulk_locked(road& on, const copy& what, const flag_write& flag,
                                     copy_completion* to) noexcept {
  if (on.last - on.first == BULK_QUEUE) return {errorcode_t::retry_nomem, {}};
  if (const failure broken = on.bulk.broken_st()) return refused(broken);
  on.queue[on.last++ % BULK_QUEUE] = {what, flag, to, 0, 0, {}};
  pending_.fetch_add(1, std::memory_order_relaxed);
  feed_locked(on);
  return {errorcode_t::posted, {}};
}

std::size_t copier::chunk_locked() const noexcept {
  return small_recently_ > 0 ? limits_.busy_chunk : limits_.quiet_chunk;
}

// The context is current. Hands bulk over until `depth` chunks are under way.
void copier::feed_locked(road& on) noexcept {
  while (on.next != on.last && on.bulk.under_way_st() < limits_.depth) {
    bulk_post& post = on.queue[on.next % BULK_QUEUE];
    if (!post.error) {
      const std::size_t left = post.what.size - post.handed_over;
      const copy chunk{post.what.to + post.handed_over, post.what.from + post.handed_over,
                       std::min(left, chunk_locked())};
      const bool is_last = chunk.size == left;
      post.error =
          on.bulk.begin_st(std::span(&chunk, 1), is_last ? post.flag : flag_write{}, &post);
      if (!post.error) {
        post.handed_over += chunk.size;
        ++post.chunks;
        if (small_recently_ > 0) --small_recently_;
      }
    }
    if (post.error || post.handed_over == post.what.size) ++on.next;
  }
}

// The oldest bulk post if it has ended.
bool copier::finish_bulk_locked(road& on, ended& out) noexcept {
  if (on.first == on.next) return false;
  const bulk_post& post = on.queue[on.first % BULK_QUEUE];
  if (post.chunks != 0) return false;
  out = {post.to, post.error};
  ++on.first;
  return true;
}

std::size_t copier::collect_locked(road& on, ended_list& out, std::size_t count) noexcept {
  lane::entry one;
  while (count < out.size() && on.small.take_st(one))
    out[count++] = {static_cast<copy_completion*>(one.tag), one.error};
  while (on.bulk.take_st(one)) {
    auto& post = *static_cast<bulk_post*>(one.tag);
    --post.chunks;
    if (one.error && !post.error) {
      post.error = one.error;
      // The rest of it will not be handed over.
      if (&post == &on.queue[on.next % BULK_QUEUE] && on.next != on.last) ++on.next;
    }
  }
  while (count < out.size() && finish_bulk_locked(on, out[count])) ++count;
  return count;
}

// Whether a look at the words is not enough.
bool copier::needs_calls_locked(const road& on) const noexcept {
  const bool can_feed = on.next != on.last && on.bulk.under_way_st() < limits_.depth;
  return can_feed || on.small.wants_examination_st() || on.bulk.wants_examination_st() ||
         on.small.broken_st() || on.bulk.broken_st() || !gpu_.facts().stream_writes;
}

// What takes driver calls: events, more bulk, a look for errors.
std::size_t copier::service_locked(road& on, ended_list& out, std::size_t count) noexcept {
  const context_scope scope(gpu_.call(), context_);
  if (scope.entered() != abi::result::success) {
    const failure gone{scope.entered(), "cuCtxPushCurrent"};
    on.small.abandon_st(gone);
    on.bulk.abandon_st(gone);
  }
  feed_locked(on);
  for (lane* each : {&on.small, &on.bulk}) {
    if (each->wants_examination_st() || each->broken_st()) each->examine_st();
  }
  return collect_locked(on, out, count);
}

std::size_t copier::poll() noexcept {
  if (is_idle()) return 0;
  inside lock(inside_);
  if (!lock) return 0;
  ended_list list;
  std::size_t count = 0;
  for (road& on : roads_) {
    if (on.small.is_idle_st() && on.first == on.last) continue;
    if (gpu_.facts().stream_writes) count = collect_locked(on, list, count);
    if (needs_calls_locked(on)) count = service_locked(on, list, count);
  }
  lock.leave();
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].to != nullptr) list[i].to->on_copied(list[i].error);
  }
  // edge cuda.copier_idle: a thread that finds the copier idle finds the completions called;
  // partner is is_idle().
  if (count != 0) pending_.fetch_sub(count, std::memory_order_release);
  return count;
}

}  // namespace lci::cuda
