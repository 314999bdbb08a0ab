// The peers as the ports of a fabric see them, and what all ports share. Base of fabric, which
// meets peers and hears of their ends; what is virtual is its part, and not on a message's way.
// Callers: outbox, inbox, pump, endpoint. Threads: shared. Always true: who was met once stays.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/shm/layout.hpp"
#include "backends/shm/outbox.hpp"
#include "backends/shm/peer.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

class peers {
 public:
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;

  const net::fabric_config& config() const noexcept { return config_; }
  mem::arena& arena() const noexcept { return *config_.arena; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  control_page& control() const noexcept { return *control_; }
  // The peer, or null before first contact.
  peer* find(int rank) const noexcept {
    // edge fabric.peer: partner is the release store in meet_locked().
    return peers_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire);
  }
  // Its registration; not_connected: contact is being made.
  net::remote_view look_up(int rank, net::remote_key key) noexcept;
  // Packets for what is copied on its way: pieces of streams, messages from buffers that peers
  // cannot see.
  mem::packet_pool& chunks() noexcept { return chunks_; }
  // Bytes from which the kernel's copy is the faster one.
  std::size_t single_copy_min() const noexcept { return single_copy_min_; }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  // Counts a message that was dropped because it made no sense. Relaxed: statistics.
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // Makes contact, if there is none.
  virtual void connect(int rank) noexcept = 0;
  // Makes a lane of `box` to `rank` and lets the peer know. Greets the peer if need be. Answers
  // done, retry_* or fatal.
  virtual errorcode_t make_lane(int rank, outbox& box, std::uint32_t lane,
                                tx_lane*& out) noexcept = 0;
  // Hears what there is to hear of peers, now and then.
  virtual void look() noexcept = 0;
  // A peer broke the rules: it counts as gone, and nothing more is read from it.
  virtual void fail(peer& who, std::string_view why) noexcept = 0;
  // News for ports, each list only grows: peers in the order in which they were mapped, and went.
  // False: the lock is held, ask again later. Throws std::bad_alloc.
  virtual bool news(std::size_t mapped_seen, std::size_t gone_seen, std::vector<peer*>& mapped,
                    std::vector<peer*>& gone) = 0;
  // How far the lanes of `box` to `rank` are written.
  virtual outbox::mark mark(int rank, outbox& box) noexcept = 0;

 protected:
  // chunk: bytes of one.
  peers(const net::fabric_config& config, std::size_t chunk);
  ~peers() = default;

  // Touched only as far as used.
  static constexpr std::size_t MAX_CHUNKS = 256;
  // Never by itself: two copies that overlap were faster than one that does not at every size up to
  // 1 GiB, see docs/decisions/0007-large-messages.md.
  static constexpr std::size_t SINGLE_COPY_MIN = SIZE_MAX;

  const net::fabric_config config_;
  const std::size_t single_copy_min_;
  mem::packet_pool chunks_;
  control_page* control_ = nullptr;
  std::vector<std::atomic<peer*>> peers_;  // by rank
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace lci::shm
