// The lanes from peers to one device: finds new ones, takes messages out of them, presents these to
// the sink, and tells it when a peer has ended and all of it was read. A lane that was empty for
// long is a silent one: each poll asks whether it still is, in one glance at its next header.
// Callers: device, inside the device's `polling`. Threads: single, but re-entrant: a sink may poll
// again. Always true: a lane's messages are presented in order; a slot is handed back when its
// message has been dealt with, which is at the latest when the sink polls again; nothing that a
// slot says is believed unchecked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/shm/lane.hpp"
#include "backends/shm/layout.hpp"
#include "backends/shm/peer.hpp"
#include "backends/shm/silent_lanes.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class connections;
class bulk_stream;
class short_gets;
class side_inbox;
class side_inboxes;

class inbox {
 public:
  inbox(connections& peers, int index, bulk_stream& flow, short_gets& gets,
        side_inboxes& sides) noexcept;
  // A poll begins with begin(), which answers whether there is nothing but active lanes to look at;
  // else is_more_due() looks further. If nothing is due and the active lanes are idle, that was it;
  // otherwise poll() follows. In parts, so that a poll that finds nothing keeps no registers.
  bool begin() noexcept;
  bool is_more_due() noexcept;
  bool is_idle() const noexcept;
  // What an idle poll does in the end, if it is to.
  bool is_to_settle() const noexcept { return (state_ & UNSETTLED) != 0; }
  void settle() noexcept;
  // The same of all lanes, by a caller that knows that no thread polls. Before the fabric leaves.
  void settle_all() noexcept;
  std::size_t poll(net::sink& to, std::size_t max) noexcept;
  // The calling thread is a new poller and had lanes of its own: they come along.
  LCI_COLD void join(side_inbox& own) noexcept;
  std::size_t silent() const noexcept { return silent_.size(); }  // lanes; for tests

  // Polls between two looks at the clock, at most: a program that begins to poll seldom must not
  // take long to find that out.
  static constexpr std::uint32_t MOST_POLLS_TO_LOOK = 64;
  // Looks that find a lane empty until it is a silent one.
  static constexpr std::uint8_t SILENT_AFTER = 64;

 private:
  enum class outcome : std::uint8_t {
    done,    // hand the slot back
    later,   // put the message back; the lane waits for a later poll
    garbage  // it makes no sense: the sender is not to be trusted any more
  };
  struct known {
    peer* who;
    std::uint32_t lanes;  // bit per lane that we have
  };

  LCI_COLD void prepare() noexcept;
  [[gnu::noinline]] std::size_t drain_all(net::sink& to, std::size_t max) noexcept;
  std::size_t drain(rx_lane& lane, net::sink& to, std::size_t most) noexcept;
  bool present(rx_lane& lane, const slot& s, std::uint64_t word, net::sink& to) noexcept;
  void stop(rx_lane& lane, std::uint64_t word, outcome why) noexcept;
  outcome take_message(const rx_lane& lane, const slot& s, slot_header header,
                       net::sink& to) noexcept;
  [[gnu::noinline]] outcome take(rx_lane& lane, const slot& s, slot_header header,
                                 net::sink& to) noexcept;
  outcome take_packet(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_put(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_chunk(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_ring_put(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_get(rx_lane& lane, const slot& s, slot_header header) noexcept;
  outcome take_read(rx_lane& lane, const slot& s, slot_header header, net::sink& to) noexcept;
  void* target(const put_record& where, std::size_t size) const noexcept;
  void look_around() noexcept;
  void find_silent() noexcept;
  void wake(std::size_t group) noexcept;
  void lists_changed() noexcept;
  LCI_COLD void share(std::uint64_t now) noexcept;
  void take_news(std::uint32_t count) noexcept;
  void discover(known& k);  // throws std::bad_alloc
  std::size_t close_lanes(net::sink& to) noexcept;

  connections& peers_;
  bulk_stream& flow_;
  short_gets& gets_;
  side_inboxes& sides_;
  const std::uint32_t index_;
  std::atomic<std::uint32_t>& announce_;  // our word in our control page
  std::uint32_t seen_ = 0;                // its value when we last looked at the directories
  std::uint32_t depth_ = 0;               // polls inside each other
  bool is_shared_ = false;                // other threads come by: see side_inboxes
  bool is_end_due_ = false;               // of a peer, as soon as they have given lanes back
  // Where the message is that a sink looks at right now; null once the sink has polled again.
  rx_lane* presenting_ = nullptr;
  std::int32_t polls_to_look_ = 1;  // polls until the clock is read again
  std::uint32_t look_every_ = 1;    // that distance, adapted so that reading it costs little
  std::uint64_t last_look_ticks_ = 0;
  // Lane to visit first: everyone's turn comes. Not the oldest one at first: a message that a peer
  // sends with a fence behind its streams lies in that one, and they lie in a later one.
  std::size_t next_ = 1;
  // What a poll may have to do beside looking at the active lanes; in one word, for one test.
  static constexpr std::uint32_t DUE = 1;        // prepare()
  static constexpr std::uint32_t SILENT = 2;     // there are silent lanes
  static constexpr std::uint32_t UNSETTLED = 4;  // some lane has slots to hand back, perhaps
  std::uint32_t state_ = 0;
  // Each lane is in one of the two, or lent (side_inboxes); both have room for all.
  std::vector<rx_lane*> active_;
  silent_lanes silent_;
  rx_lane* only_ = nullptr;  // of active_, unless there are more or is_shared_
  std::vector<std::unique_ptr<rx_lane>> lanes_;
  std::vector<known> known_;
  std::size_t ended_seen_ = 0;
  std::vector<peer*> closing_;  // ended, and not told yet: what they wrote comes first
};

// The way of a small message, in this header so that device::poll() is one function with it: the
// calls in between cost as much as the rest.

inline bool inbox::begin() noexcept {
  --polls_to_look_;
  // edge lane.announce: partner of the additions in fabric.
  if (polls_to_look_ <= 0 || announce_.load(std::memory_order_acquire) != seen_ ||
      presenting_ != nullptr) [[unlikely]]
    state_ |= DUE;
  return (state_ & (DUE | SILENT)) == 0;
}

inline bool inbox::is_idle() const noexcept {
  // The look at a lane is two loads and that of the sender's line.
  for (const rx_lane* const lane : active_)
    if (!lane->is_empty()) return false;
  return true;
}

inline inbox::outcome inbox::take_message(const rx_lane& lane, const slot& s, slot_header header,
                                          net::sink& to) noexcept {
  if (header.size > SLOT_DATA) [[unlikely]]
    return outcome::garbage;
  net::arrival a;
  a.rank = lane.rank;
  a.imm = header.imm;
  a.data = s.data;
  a.size = header.size;
  return to.on_message(a) == net::verdict::deferred ? outcome::later : outcome::done;
}

// Presents the message in a slot that has been taken up. False: the lane goes no further for now.
inline bool inbox::present(rx_lane& lane, const slot& s, std::uint64_t word,
                           net::sink& to) noexcept {
  const slot_header header = slot_header::unpack(word);
  const outcome what = header.kind == slot_kind::message ? take_message(lane, s, header, to)
                                                         : take(lane, s, header, to);
  // The sink has polled again: that poll has handed the slot back.
  if (presenting_ != &lane) [[unlikely]]
    return !lane.is_dead;
  if (what != outcome::done) [[unlikely]] {
    stop(lane, word, what);
    return false;
  }
  lane.hand_back();
  return true;
}

// Presents what is in a lane: one message, and more up to `most`; answers how many.
inline std::size_t inbox::drain(rx_lane& lane, net::sink& to, std::size_t most) noexcept {
  if (lane.is_empty()) {
    lane.settle();
    return 0;
  }
  std::size_t n = 0;
  do {
    const slot& s = *lane.next;
    // Relaxed: is_empty() and goes_on() have loaded it with acquire.
    const std::uint64_t word = s.header.load(std::memory_order_relaxed);
    lane.move_to(lane.cursor + 1);
    presenting_ = &lane;
    if (!present(lane, s, word, to)) [[unlikely]]
      return n;
  } while (++n < most && lane.goes_on(n));
  return n;
}

inline std::size_t inbox::poll(net::sink& to, std::size_t max) noexcept {
  if ((state_ & DUE) != 0) [[unlikely]]
    prepare();
  ++depth_;
  std::size_t n;
  if (only_ != nullptr) [[likely]]
    n = drain(*only_, to, max);
  else
    n = drain_all(to, max);
  presenting_ = nullptr;
  state_ |= UNSETTLED;
  if (!closing_.empty()) [[unlikely]] {
    if (depth_ == 1) n += close_lanes(to);
    if (!closing_.empty()) state_ |= DUE;
  }
  --depth_;
  return n;
}

}  // namespace lci::shm
