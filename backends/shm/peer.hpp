// What a fabric knows about one rank. Made at first contact, kept until the fabric closes, so that
// pointers to it stay good. Callers: everything in this folder. Threads: fields say which. Always
// true: state only moves forward; what `mapped` publishes never changes after; the first end stays.
// What is here is about sockets and lanes: each device reads what the peer has written before its
// end, and only then reports that the rank has ended (net::peer_table).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "backends/shm/layout.hpp"
#include "backends/shm/segment.hpp"
#include "backends/shm/way_chooser.hpp"
#include "lci/base/platform.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::shm {

enum class contact : std::uint8_t {
  none,     // no socket yet
  greeted,  // our hello is on its way: lanes may be written, the peer's memory is not known yet
  mapped    // its hello has arrived
};

// How its connection ended.
enum class ending : std::uint8_t {
  none,
  left,        // it said bye
  lost,        // it hung up or died, or there is no way to it
  broke_rules  // its lanes are not read any more
};

struct peer {
  explicit peer(int r) noexcept : rank(r) {}

  const int rank;
  // edge peer.mapped: stored with release once the fields marked M are set, loaded with acquire
  // before they are used.
  std::atomic<contact> state{contact::none};
  // Stored under the connections' lock, once.
  std::atomic<ending> end{ending::none};
  // The kernel copies between its memory and ours (single_copy); cleared when the kernel refuses
  // later.
  std::atomic<bool> single_copy{false};
  // Operations that need not be measured (way_chooser), by its class: puts of one piece that go by
  // the lane; puts, and gets, that the poster copies. Relaxed: a few more or less are of no
  // account. Written by all who post such, hence not beside what every post reads.
  struct alignas(base::CACHE_LINE) spared {
    std::array<std::atomic<std::uint32_t>, way_chooser::ONE_PIECE> by_lane{};
    std::array<std::array<std::atomic<std::uint32_t>, way_chooser::AT_ONCE>, 2> by_kernel{};
    // Of endpoint::rma(): small gets that were waited for and medium puts that were seldom, in a
    // row, and how many polls there had been at the last such put.
    std::atomic<std::uint32_t> gets_alone{0}, puts_seldom{0}, polls_at_put{0};
  };
  spared unmeasured;

  segment memory;                                // M: its arena
  control_page* control = nullptr;               // M: in its arena
  device_table* theirs = nullptr;                // M: its lanes to us, in its arena
  const mem::region_table::row* rows = nullptr;  // M: its registrations, null if it has none
  pid_t pid = 0;                                 // M: as seen from here, 0 if not visible

  // The rest: under the connections' lock.
  device_table* ours = nullptr;  // our lanes to it, in our arena
  int links = 0;                 // open sockets to it
  bool has_said_bye = false;     // so that a hang-up is no death
  bool is_refused = false;       // we could not take it in, and have said so
  std::string reason;            // of its end

  // Nothing more goes to it.
  bool has_ended() const noexcept { return end.load(std::memory_order_relaxed) != ending::none; }
  bool has_broken_rules() const noexcept {
    return end.load(std::memory_order_relaxed) == ending::broke_rules;
  }
};

}  // namespace lci::shm
