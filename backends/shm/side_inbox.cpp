#include "backends/shm/side_inbox.hpp"

#include <algorithm>
#include <utility>

#include "backends/shm/connections.hpp"
#include "backends/shm/packets_in.hpp"

namespace lci::shm {

std::size_t side_inbox::poll(net::sink& to, std::size_t max) noexcept {
  const base::owned_guard inside(polling_);
  if (!inside) return 0;  // the poller takes lanes
  begin();
  const std::uint32_t version = version_;
  std::size_t n = 0;
  rx_lane* next = nullptr;
  for (rx_lane* lane = lanes_.load(std::memory_order_relaxed); lane != nullptr && n < max;
       lane = next) {
    next = lane->link;
    come_by();  // for each: handlers may take their time
    n += drain(*lane, to, std::min(max - n, TURN));
    // A poll inside this one has looked at all of them, and the list is another one.
    if (version_ != version) return n;
  }
  presenting_ = nullptr;
  if (n != 0)
    rotate();
  else if (std::exchange(is_to_settle_, false))
    for (rx_lane* lane = lanes_.load(std::memory_order_relaxed); lane != nullptr; lane = lane->link)
      lane->settle();
  if (--polls_to_review_ == 0) [[unlikely]]
    review();
  return n;
}

bool side_inbox::is_to_try(std::size_t found) noexcept {
  looked_ += found != 0 ? 1 : LOOK_BUSY / LOOK_IDLE;
  if (looked_ < LOOK_BUSY) return false;
  looked_ = 0;
  const std::uint64_t now = base::cpu_ticks();
  if (now - tried_ticks_ < base::ticks_per_ms() * base::owned::IDLE_US / 1000) return false;
  tried_ticks_ = now;
  return true;
}

// What a poll does first: ends the visit of the sink that is around it, and takes in new lanes.
inline void side_inbox::begin() noexcept {
  if (presenting_ != nullptr) [[unlikely]] {
    std::exchange(presenting_, nullptr)->hand_back_last();
    ++version_;
  }
  if (is_recalled_.load(std::memory_order_relaxed)) [[unlikely]]
    give_all_back();
  if (!arriving_.any()) [[likely]]
    return;
  rx_lane* first = lanes_.load(std::memory_order_relaxed);
  for (rx_lane* lane = arriving_.take_all(); lane != nullptr;) {
    rx_lane* const next = std::exchange(lane->link, first);
    first = lane;
    lane = next;
  }
  lanes_.store(first, std::memory_order_relaxed);
}

// Another lane is the first of the next poll.
inline void side_inbox::rotate() noexcept {
  rx_lane* const first = lanes_.load(std::memory_order_relaxed);
  if (first == nullptr || first->link == nullptr) [[likely]]
    return;
  rx_lane* last = first->link;
  while (last->link != nullptr) last = last->link;
  lanes_.store(std::exchange(first->link, nullptr), std::memory_order_relaxed);
  last->link = first;
}

inline net::verdict side_inbox::present(rx_lane& lane, const slot& s, slot_header header,
                                        net::sink& to) noexcept {
  net::arrival a;
  if (header.kind == slot_kind::message && header.size <= SLOT_DATA) [[likely]] {
    a.rank = lane.rank;
    a.imm = header.imm;
    a.data = s.data;
    a.size = header.size;
    return to.on_message_beside(a);
  }
  mem::packet* packet = nullptr;
  // What makes no sense is for the poller to find.
  if (header.kind != slot_kind::packet || !find_packet(lane, s, header, a, packet))
    return net::verdict::deferred;
  const std::uint32_t version = version_;
  const net::verdict answer = to.on_message_beside(a);
  if (answer != net::verdict::taken) return answer;
  if (version_ == version) [[likely]]
    hand_back(peers_.arena(), lane, header, *packet);
  else  // polls inside may have given the lane away
    mem::release_packet(peers_.arena(), packet);
  return answer;
}

// As inbox::drain(), of messages that a sink takes beside the poller.
inline std::size_t side_inbox::drain(rx_lane& lane, net::sink& to, std::size_t most) noexcept {
  const std::uint32_t version = version_;
  std::size_t n = 0;
  if (lane.is_empty()) {
    lane.settle();
    return 0;
  }
  do {
    const slot& s = *lane.next;
    lane.move_to(lane.cursor + 1);
    presenting_ = &lane;
    // Relaxed: is_empty() and goes_on() have loaded it with acquire.
    const auto word = s.header.load(std::memory_order_relaxed);
    const net::verdict answer = present(lane, s, slot_header::unpack(word), to);
    if (version_ != version) [[unlikely]]
      return n + 1;
    if (answer == net::verdict::deferred) [[unlikely]] {
      lane.put_back();
      lane.wanted_times = 0;
      give_back(lane);
      return n;
    }
    lane.hand_back();
  } while (++n < most && lane.goes_on(n));
  is_to_settle_ = true;
  lane.note_wanted(net::wanted_by::take());
  if (lane.wanted_times >= rules_.sure_after && lane.wanted_by != net::wanted_by::NOBODY &&
      lane.wanted_by != thread_) [[unlikely]]
    give_back(lane);
  return n;
}

void side_inbox::remove(rx_lane& lane) noexcept {
  rx_lane* at = lanes_.load(std::memory_order_relaxed);
  if (at == &lane) return lanes_.store(lane.link, std::memory_order_relaxed);
  while (at->link != &lane) at = at->link;
  at->link = lane.link;
}

// To the device's poller, which finds it at its next poll.
void side_inbox::give_back(rx_lane& lane) noexcept {
  presenting_ = nullptr;
  remove(lane);
  lane.settle();
  returned_.add(lane);
  // edge lane.announce: partner is inbox::begin().
  announce_.fetch_add(1, std::memory_order_release);
}

// The poller needs them, and this thread was inside.
void side_inbox::give_all_back() noexcept {
  is_recalled_.store(false, std::memory_order_relaxed);
  while (rx_lane* const lane = lanes_.load(std::memory_order_relaxed)) give_back(*lane);
}

// Lanes that were empty for long go back, to where many of them are asked at once.
void side_inbox::review() noexcept {
  polls_to_review_ = REVIEW_EVERY;
  rx_lane* next = nullptr;
  for (rx_lane* lane = lanes_.load(std::memory_order_relaxed); lane != nullptr; lane = next) {
    next = lane->link;
    if (lane->looked_at == lane->cursor) {
      lane->moved_at = 0;  // not soon
      give_back(*lane);
    } else
      lane->looked_at = lane->cursor;
  }
}

rx_lane* side_inbox::take_all_inside() noexcept {
  is_recalled_.store(false, std::memory_order_relaxed);
  begin();
  rx_lane* const all = lanes_.load(std::memory_order_relaxed);
  lanes_.store(nullptr, std::memory_order_relaxed);
  for (rx_lane* lane = all; lane != nullptr; lane = lane->link) lane->settle();
  ++version_;
  return all;
}

bool side_inbox::take_all(rx_lane*& out) noexcept {
  if (!polling_.seize(0)) return false;
  bool is_in = false;
  if (const base::owned_guard inside(polling_); inside) {
    is_in = true;
    out = take_all_inside();
  }
  polling_.disown();
  return is_in;
}

rx_lane* side_inbox::take_all_own() noexcept {
  const base::owned_guard inside(polling_);
  return inside ? take_all_inside() : nullptr;
}

}  // namespace lci::shm
