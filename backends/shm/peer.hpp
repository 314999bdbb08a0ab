// What a fabric knows about one rank. Made at first contact, kept until the fabric closes, so that
// pointers to it stay good. Callers: everything in this folder. Threads: fields say which. Always
// true: state only moves forward; what `mapped` publishes never changes after; the first end stays.
// What is here is about sockets and lanes: each device reads what the peer has written before its
// end, and only then reports that the rank has ended (net::peer_table).
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/shm/copy_in_post.hpp"
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
  // account. Written by all threads that post such, hence not beside what every post reads.
  struct alignas(base::CACHE_LINE) spared {
    std::array<std::atomic<std::uint32_t>, way_chooser::ONE_PIECE> by_lane{};
    std::array<std::array<std::atomic<std::uint32_t>, way_chooser::AT_ONCE>, 2> by_kernel{};
    // Smaller ones: gets of up to 1, 2, 4 and 8 KiB, and puts of up to 4 and 8.
    std::array<copy_in_post, 6> in_post;
    copy_in_post& in_post_of(bool is_get, std::size_t size) noexcept {
      const auto number = static_cast<std::size_t>(std::bit_width((size - 1) / 1024));
      return in_post[is_get ? std::min<std::size_t>(number, 3) : number <= 2 ? 4 : 5];
    }
    std::atomic<std::uint32_t> polls_at_put{0};  // when the last such put was posted
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
