// Operations of a few KiB whose program waits for each: does the kernel copy them in the call that
// posts them, or the target, as those that are not waited for? What a call of the kernel costs
// differs by a factor of three between machines, so both ways are timed, and the one that takes
// less is taken. Callers: endpoint, for each peer and class of sizes; bulk_stream says when gets
// ended. Threads: any; of those that post at once some counts are lost, which costs time and
// nothing else. Always true: the same times give the same choices.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace lci::shm {

class copy_in_post {
 public:
  enum class way : std::uint8_t {
    post,  // by the kernel, now
    target,
    // The same, and note() is to be told.
    post_timed,
    target_timed,
  };
  static constexpr bool is_in_post(way w) noexcept {
    return w == way::post || w == way::post_timed;
  }
  static constexpr bool is_timed(way w) noexcept {
    return w == way::post_timed || w == way::target_timed;
  }
  // Operations in a row that were waited for until the next ones are believed to be.
  static constexpr std::uint32_t SURE_AFTER = 8;
  // One in so many goes the way that takes longer: as many as cost a hundredth of the time. To the
  // target also because those that are copied in the post are never under way together, so whether
  // they are still waited for is seen there. Odd, so that each of two at a time has its turn.
  static constexpr std::uint32_t SAMPLE_LEAST = 31, SAMPLE_MOST = 511;
  // Of those that go the way that takes less one in so many is timed: a look at the clock of a
  // virtual machine takes 20 ns.
  static constexpr std::uint32_t TIMED = 8;
  // The second of so many times is believed, from the least: what takes longer was interrupted, or
  // met a cold cache, and the least one may have been lucky.
  static constexpr std::uint32_t WINDOW = 4;

  // The way of the next one. is_waited_for: nothing else was under way.
  way pick(bool is_waited_for) noexcept {
    const std::uint32_t n = is_waited_for ? in_a_row_.load(std::memory_order_relaxed) + 1 : 0;
    in_a_row_.store(n, std::memory_order_relaxed);
    if (n == 0) return way::target;
    if (n < SURE_AFTER) return way::target_timed;
    const bool is_post_better = is_post_preferred();
    const std::uint32_t picks = picks_.load(std::memory_order_relaxed) + 1;
    picks_.store(picks, std::memory_order_relaxed);
    const bool is_sample = picks % sample_.load(std::memory_order_relaxed) == 0;
    const bool in_post = is_post_better != is_sample;
    if (is_sample || picks % TIMED == 0 || cost_of(in_post ? way::post : way::target) == 0)
      return in_post ? way::post_timed : way::target_timed;
    return in_post ? way::post : way::target;
  }
  // The same where nobody says when one has ended: its time is that until the next one, before
  // which the program waited for an answer. That includes what the program does meanwhile, and so
  // does the other way's. ticks: asked for if it matters.
  template <class Clock>
  way pick_in_turn(bool is_waited_for, Clock ticks) noexcept {
    const way last = last_.load(std::memory_order_relaxed);
    const bool ends = is_waited_for && is_timed(last);
    const way next = pick(is_waited_for);
    last_.store(next, std::memory_order_relaxed);
    if (!ends && !is_timed(next)) return next;
    const std::uint64_t now = ticks();
    if (ends) note(last, now - started_.load(std::memory_order_relaxed));
    started_.store(now, std::memory_order_relaxed);
    return next;
  }
  // It took so long.
  void note(way which, std::uint64_t ticks) noexcept {
    if (are_fixed_) return;
    figure& of = figures_[is_in_post(which)];
    const auto cost = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ticks, 1, UINT32_MAX));
    const std::uint32_t seen = of.seen.load(std::memory_order_relaxed) + 1;
    const bool is_first = seen == 1;
    const std::uint32_t least = is_first ? UINT32_MAX : of.least.load(std::memory_order_relaxed);
    const std::uint32_t second = is_first ? UINT32_MAX : of.second.load(std::memory_order_relaxed);
    of.least.store(std::min(cost, least), std::memory_order_relaxed);
    const std::uint32_t next = std::min(second, std::max(cost, least));
    of.second.store(next, std::memory_order_relaxed);
    of.seen.store(seen % WINDOW, std::memory_order_relaxed);
    if (seen != WINDOW) return;
    of.cost.store(next, std::memory_order_relaxed);
    sample_.store(samples(), std::memory_order_relaxed);
  }
  // The kernel cannot copy such memory.
  void start_again() noexcept {
    in_a_row_.store(0, std::memory_order_relaxed);
    last_.store(way::target, std::memory_order_relaxed);
  }
  // What was picked last went another way.
  void forget_last() noexcept { last_.store(way::target, std::memory_order_relaxed); }
  // Ticks that are believed of it; 0: not known yet.
  std::uint32_t cost_of(way which) const noexcept {
    return figures_[is_in_post(which)].cost.load(std::memory_order_relaxed);
  }
  // For tests, while nothing is posted: these are the figures, whatever is noted.
  void fix(std::uint32_t post_ticks, std::uint32_t target_ticks) noexcept {
    are_fixed_ = true;
    figures_[1].cost.store(post_ticks, std::memory_order_relaxed);
    figures_[0].cost.store(target_ticks, std::memory_order_relaxed);
    sample_.store(samples(), std::memory_order_relaxed);
  }

 private:
  struct figure {
    std::atomic<std::uint32_t> cost{0};  // ticks; 0: no window is full
    std::atomic<std::uint32_t> least{0}, second{0}, seen{0};
  };
  // What was never tried is. Between two that are about as fast the kernel's leaves the target's
  // processor to the target.
  bool is_post_preferred() const noexcept {
    const std::uint64_t post = cost_of(way::post), target = cost_of(way::target);
    return post == 0 || target == 0 || 15 * post <= 16 * target;
  }
  std::uint32_t samples() const noexcept {
    const std::uint64_t post = cost_of(way::post), target = cost_of(way::target);
    if (post == 0 || target == 0) return SAMPLE_LEAST;
    const std::uint64_t taken = is_post_preferred() ? post : target;
    const std::uint64_t other = post + target - taken;
    const std::uint64_t more = other > taken ? 100 * (other - taken) / taken : 0;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(more, SAMPLE_LEAST, SAMPLE_MOST)) |
           1;
  }

  std::atomic<std::uint32_t> in_a_row_{0};
  std::atomic<std::uint32_t> picks_{0};  // that came behind SURE_AFTER, in all rows
  std::atomic<std::uint32_t> sample_{SAMPLE_LEAST};
  std::atomic<way> last_{way::target};  // of pick_in_turn()
  std::atomic<std::uint64_t> started_{0};
  bool are_fixed_ = false;
  std::array<figure, 2> figures_;  // of the target, of the post
};

}  // namespace lci::shm
