// The lanes from peers to one port: finds new ones, takes messages out of them, presents these to
// the sink, and says at the end of a peer's life that it is gone. Callers: device, inside the
// port's `polling`. Threads: single, but re-entrant: a sink may poll again. Always true: a lane's
// messages are presented in order; a slot is handed back when its message has been dealt with, not
// before; nothing that a slot says is believed unchecked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/shm/lane.hpp"
#include "backends/shm/layout.hpp"
#include "backends/shm/peer.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class fabric;
class pump;

class inbox {
 public:
  inbox(fabric& f, int index, pump& flow) noexcept;
  std::size_t poll(net::sink& to, std::size_t max) noexcept;

 private:
  // Messages taken from a lane per visit: enough to amortise the visit, few enough that others get
  // their turn.
  static constexpr std::size_t BURST = 32;
  enum class outcome : std::uint8_t {
    done,    // hand the slot back
    later,   // put the message back; the lane waits for a later poll
    garbage  // it makes no sense: the sender is not to be trusted any more
  };
  struct known {
    peer* who;
    std::uint32_t lanes;  // bit per lane that we have
  };

  std::size_t visit(rx_lane& lane, net::sink& to, std::size_t budget) noexcept;
  outcome take_message(const rx_lane& lane, const slot& s, slot_header header,
                       net::sink& to) noexcept;
  outcome take(rx_lane& lane, slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_packet(rx_lane& lane, slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_put(rx_lane& lane, slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_chunk(rx_lane& lane, slot& s, slot_header header, net::sink& to) noexcept;
  outcome take_get(rx_lane& lane, slot& s, slot_header header) noexcept;
  void* target(const put_record& where, std::size_t size) const noexcept;
  void look_around() noexcept;
  void take_news(std::uint32_t count) noexcept;
  void discover(known& k);
  std::size_t close_lanes(net::sink& to) noexcept;

  fabric& fabric_;
  pump& flow_;
  const std::uint32_t index_;
  std::atomic<std::uint32_t>& announce_;  // our word in our control page
  std::uint32_t seen_ = 0;                // its value when we last looked at the directories
  std::uint32_t depth_ = 0;               // polls inside each other
  std::uint32_t polls_to_look_ = 1;       // polls until the clock is read again
  std::uint32_t look_every_ = 1;          // that distance, adapted so that reading it costs little
  std::uint64_t last_look_ticks_ = 0;
  std::size_t next_ = 0;  // lane to visit next: everyone's turn comes
  std::vector<rx_lane*> active_;
  std::vector<std::unique_ptr<rx_lane>> lanes_;
  std::vector<known> known_;
  std::size_t gone_seen_ = 0;
  std::vector<peer*> closing_;  // gone, but not yet told
};

}  // namespace lci::shm
