#include "backends/shm/side_inboxes.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "backends/shm/connections.hpp"
#include "lci/base/platform.hpp"

namespace lci::shm {

namespace {

std::uint64_t ticks_of_us(std::uint64_t us) noexcept { return base::ticks_per_ms() * us / 1000; }

}  // namespace

side_inboxes::side_inboxes(connections& peers, int index) noexcept
    : peers_(peers), announce_(peers.control().announce[static_cast<std::size_t>(index)].count) {}

side_inboxes::~side_inboxes() {
  for (auto& one : sides_) delete one.load(std::memory_order_relaxed);
}

side_inbox* side_inboxes::make(std::uint32_t thread) noexcept {
  if (thread >= MAX_SIDES) return nullptr;
  auto* const one = new (std::nothrow) side_inbox(peers_, rules, announce_, returned_, thread);
  if (one == nullptr) return nullptr;
  // edge side.made: the object before its address; partner is side_inboxes::steady().
  sides_[thread].store(one, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_relaxed);
  return one;
}

void side_inboxes::look(std::vector<rx_lane*>& active, std::uint64_t now, bool may_lend) noexcept {
  if (!are_any() || static_cast<std::int64_t>(now - next_look_) < 0) return;
  next_look_ = now + ticks_of_us(rules.look_every_us);
  look_at_threads(active);
  if (may_lend) lend(active, now);
  for (rx_lane* const lane : active) lane->counted_at = lane->cursor;
}

// Which threads poll all the time, and which have stopped.
void side_inboxes::look_at_threads(std::vector<rx_lane*>& active) noexcept {
  const std::uint32_t me = base::thread_id();
  for (std::uint32_t i = 0; i < MAX_SIDES; ++i) {
    // edge side.made: partner is make().
    side_inbox* const one = sides_[i].load(std::memory_order_acquire);
    if (one == nullptr) continue;
    known& k = known_[i];
    if (i == me) {
      k.steady = 0;
      // It has become the poller without a poll that saw it: another one has tried in between.
      if (k.lanes != 0) join(*one, active);
      continue;
    }
    const std::uint32_t visits = one->visits();
    k.steady = visits == k.visits ? 0 : std::min(k.steady + 1, rules.steady_after);
    k.visits = visits;
    rx_lane* first = nullptr;
    if (k.steady == 0 && k.lanes != 0 && one->take_all(first)) take_in(first, active, true);
  }
}

side_inbox* side_inboxes::steady(std::uint32_t thread) const noexcept {
  if (thread >= MAX_SIDES || known_[thread].steady < rules.steady_after) return nullptr;
  // edge side.made: partner is make().
  return sides_[thread].load(std::memory_order_acquire);
}

side_inbox* side_inboxes::least_laden() const noexcept {
  side_inbox* least = nullptr;
  for (std::uint32_t i = 0; i < MAX_SIDES; ++i) {
    side_inbox* const one = steady(i);
    if (one != nullptr && (least == nullptr || known_[i].lanes < known_[least->thread()].lanes))
      least = one;
  }
  return least;
}

// Which thread is to have a busy lane, of which the poller has `own`; null: it stays. Of lanes that
// any thread may poll each thread gets a fair share, first that of the thread with its own number
// at the peer: in many programs these two talk to each other.
side_inbox* side_inboxes::whose(const rx_lane& lane, std::size_t own) const noexcept {
  if (lane.wanted_by != rx_lane::NOBODY) return steady(lane.wanted_by);
  if (lane.number == base::thread_id()) return nullptr;
  side_inbox* to = steady(lane.number);
  if (to == nullptr || known_[to->thread()].lanes != 0) to = least_laden();
  return to != nullptr && known_[to->thread()].lanes + 1 < own ? to : nullptr;
}

void side_inboxes::lend(std::vector<rx_lane*>& active, std::uint64_t now) noexcept {
  const auto is_busy = [this](const rx_lane& lane) {
    return lane.cursor - lane.counted_at >= rules.busy_from && !lane.is_dead;
  };
  const auto may_go = [this, now](const rx_lane& lane) {
    const std::uint64_t wait =
        lane.returns == 0 ? 0 : ticks_of_us(rules.soon_us) << (lane.returns - 1);
    return lane.wanted_times >= rules.sure_after &&
           static_cast<std::int64_t>(now - lane.moved_at - wait) >= 0;
  };
  auto own = static_cast<std::size_t>(std::count_if(
      active.begin(), active.end(), [&](const rx_lane* lane) { return is_busy(*lane); }));
  std::erase_if(active, [&](rx_lane* lane) {
    if (!is_busy(*lane) || !may_go(*lane)) return false;
    side_inbox* const to = whose(*lane, own);
    if (to == nullptr) return false;
    --own;
    lend_to(*to, *lane, now);
    return true;
  });
}

void side_inboxes::lend_to(side_inbox& to, rx_lane& lane, std::uint64_t now) noexcept {
  lane.settle();
  lane.lent_to = &to;
  lane.moved_at = now;
  lane.looked_at = lane.cursor - 1;  // the first review finds it busy
  lane.wanted_times = 0;
  ++known_[to.thread()].lanes;
  lent_.store(lent() + 1, std::memory_order_relaxed);
  times_.store(times() + 1, std::memory_order_relaxed);
  to.lend(lane);
}

// From a list into the poller's. is_its_own: it comes back because of the lane or of its thread.
void side_inboxes::take_in(rx_lane* first, std::vector<rx_lane*>& active,
                           bool is_its_own) noexcept {
  const std::uint64_t now = base::cpu_ticks();
  for (rx_lane* lane = first; lane != nullptr;) {
    rx_lane* const next = std::exchange(lane->link, nullptr);
    --known_[std::exchange(lane->lent_to, nullptr)->thread()].lanes;
    lent_.store(lent() - 1, std::memory_order_relaxed);
    const bool came_soon = now - lane->moved_at < ticks_of_us(rules.soon_us);
    if (is_its_own)
      lane->returns =
          came_soon ? std::min<std::uint8_t>(lane->returns + 1, lending_rules::MOST_RETURNS) : 0;
    lane->moved_at = now;
    lane->counted_at = lane->cursor;
    active.push_back(lane);
    lane = next;
  }
}

void side_inboxes::take_returned(std::vector<rx_lane*>& active) noexcept {
  if (returned_.any()) take_in(returned_.take_all(), active, true);
}

bool side_inboxes::recall(std::vector<rx_lane*>& active) noexcept {
  take_returned(active);
  for (std::uint32_t i = 0; lent() != 0 && i < MAX_SIDES; ++i) {
    if (known_[i].lanes == 0) continue;
    // edge side.made: partner is make().
    side_inbox& one = *sides_[i].load(std::memory_order_acquire);
    if (rx_lane* first = nullptr; one.take_all(first))
      take_in(first, active, false);
    else
      one.recall();
  }
  take_returned(active);
  return lent() == 0;
}

void side_inboxes::join(side_inbox& own, std::vector<rx_lane*>& active) noexcept {
  take_in(own.take_all_own(), active, true);
}

}  // namespace lci::shm
