#include "backends/shm/way_chooser.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lci::shm {
namespace {

constexpr std::size_t index_of(copy_way way) noexcept { return static_cast<std::size_t>(way); }
constexpr bool has(way_chooser::way_set set, copy_way way) noexcept {
  return (set & way_chooser::only(way)) != 0;
}

copy_way after(copy_way way, way_chooser::way_set allowed) noexcept {
  do {
    way = static_cast<copy_way>((index_of(way) + 1) % way_chooser::WAYS);
  } while (!has(allowed, way));
  return way;
}

// Below an eighth noise decides.
constexpr bool beats(std::uint32_t cost, std::uint32_t best) noexcept {
  return cost < best - best / 8;
}

}  // namespace

const char* name_of(copy_way way) noexcept {
  constexpr const char* NAMES[] = {"pipeline", "kernel", "both"};
  return NAMES[index_of(way)];
}

way_chooser::choice way_chooser::pick(std::size_t size, bool is_get, way_set allowed,
                                      skips may) noexcept {
  if (allowed == only(copy_way::pipeline)) return {};
  size_class& c = of(size, is_get);
  const copy_way before = c.now;
  std::uint32_t unmeasured = 0;
  if (c.left == 0 || !has(allowed, c.now)) [[unlikely]]
    unmeasured = begin_stretch(c, allowed, may);
  --c.left;
  const bool is_change = c.now != before;
  if (is_change) c.tallies[index_of(c.now)] = {};
  return {c.now, is_change, unmeasured};
}

// First each way in turn; then the best one and, in between, one of the others.
std::uint32_t way_chooser::begin_stretch(size_class& c, way_set allowed, skips may) noexcept {
  const std::uint32_t trial = stretch(number_of(c));
  c.left = trial;
  if (c.at == phase::first) {
    const copy_way next = after(c.now, allowed);
    c.now = next;
    // The pipeline is the first of a round; the very first is behind `both`.
    if (next != copy_way::pipeline || c.cost == std::array<std::uint32_t, WAYS>{}) return 0;
    ++c.rounds;
    const bool has_gained = std::exchange(c.has_gained, false);
    if (c.rounds < FIRST_ROUNDS || (has_gained && c.rounds < MOST_FIRST_ROUNDS)) return 0;
    copy_way best = copy_way::pipeline;
    for (std::size_t i = 0; i < WAYS; ++i) {
      if (c.cost[i] != 0 && (c.cost[index_of(best)] == 0 || c.cost[i] < c.cost[index_of(best)]))
        best = static_cast<copy_way>(i);
    }
    take_best(c, best);
  } else if (c.at == phase::keeping) {
    const copy_way asked = c.wins != 0 ? c.challenger : after(c.challenger, allowed);
    c.now = asked != c.best && has(allowed, asked) ? asked : after(c.best, allowed);
    if (c.now != c.challenger) c.wins = 0;
    c.challenger = c.now;
    c.at = phase::trying;
    return 0;
  }
  if (!has(allowed, c.best)) take_best(c, copy_way::pipeline);
  c.at = phase::keeping;
  c.now = c.best;
  // Once may be chance: after a trial that was won the next one is soon.
  if (c.wins != 0) return 0;
  const bool is_skipped =
      (may.pipeline && c.best == copy_way::pipeline && number_of(c) < ONE_PIECE) ||
      (may.kernel && c.best == copy_way::kernel && number_of(c) < AT_ONCE);
  if (is_skipped) return trial * (c.distance - 1);
  c.left = trial * c.distance;
  return 0;
}

void way_chooser::note(std::size_t size, bool is_get, copy_way way, std::uint64_t ticks) noexcept {
  size_class& c = of(size, is_get);
  const std::uint32_t skip = skipped(class_of(size));
  tally& t = c.tallies[index_of(way)];
  if (++t.seen <= skip) return;
  t.ticks += ticks;
  t.bytes += size;
  if (t.seen < stretch(class_of(size))) return;
  const auto cost = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      t.ticks * 1024 / t.bytes, 1, std::numeric_limits<std::uint32_t>::max()));
  t = {skip, 0, 0};
  take_figure(c, way, cost);
}

void way_chooser::take_figure(size_class& c, copy_way way, std::uint32_t cost) noexcept {
  std::uint32_t& known = c.cost[index_of(way)];
  const std::uint32_t before = std::exchange(c.last[index_of(way)], cost);
  if (c.at == phase::first) {
    // The machine may have been busy in one of the rounds.
    c.has_gained |= known != 0 && beats(cost, known);
    known = known == 0 ? cost : std::min(known, cost);
    return;
  }
  if (way == c.best) {
    // One slow figure may be chance, two are not; and then the others are asked soon.
    const std::uint64_t believed =
        std::exchange(known, before == 0 ? cost : std::min(before, cost));
    if (believed == 0 || known <= believed + believed / 2) return;
    c.distance = SHORTEST;
    return end_soon(c);
  }
  known = cost;
  if (way != std::exchange(c.challenger, way)) c.wins = 0;
  const std::uint32_t best = c.cost[index_of(c.best)];
  if (best != 0 && beats(cost, best)) {
    if (++c.wins == 2) return take_best(c, way);
    end_soon(c);
  } else {
    c.wins = 0;
    // A way that still gets faster is not known yet: memory that was never touched, for one, makes
    // the first copies into it slow.
    if (before != 0 && beats(cost, before)) return;
    c.distance = static_cast<std::uint16_t>(std::min(2u * c.distance, LONGEST));
  }
}

void way_chooser::end_soon(size_class& c) const noexcept {
  if (c.at == phase::keeping) c.left = std::min(c.left, stretch(number_of(c)));
}

void way_chooser::take_best(size_class& c, copy_way way) noexcept {
  if (c.at == phase::first || way != c.best) {
    has_news_ = true;
    news_is_get_ = &c >= &classes_[1][0];
    news_class_ = number_of(c);
  }
  c.best = way;
  c.wins = 0;
  c.distance = SHORTEST;
  if (c.at == phase::first) return;
  c.at = phase::trying;  // over
  c.left = 0;
}

std::size_t way_chooser::number_of(const size_class& c) const noexcept {
  return static_cast<std::size_t>(&c - &classes_[0][0]) % CLASSES;
}

way_chooser::figures way_chooser::figures_of(std::size_t size, bool is_get) const noexcept {
  const std::size_t number = class_of(size);
  const size_class& c = classes_[is_get][number];
  return {2 * FROM << number, is_get, c.best, c.cost};
}

way_chooser::figures way_chooser::take_news() noexcept {
  has_news_ = false;
  return figures_of(2 * FROM << news_class_, news_is_get_);
}

}  // namespace lci::shm
