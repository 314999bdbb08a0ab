// One connection: a reliable queue pair of a port to the same device of one peer, with what is
// posted on it and not completed. Callers: connector makes it and connects it; endpoints post; the
// polling thread completes. Threads: post() shared; take_done() the polling thread; the rest under
// the connector's lock. Always true: each work request takes one place in the ring until the card
// is known to be done with it, so the send queue never overflows; the last places are for our own
// messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/ibv/handles.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/net/backend.hpp"

namespace lci::ibv {

// For whom something was posted.
enum class purpose : std::uint8_t {
  user,      // an operation of the layer above
  knock,     // is the peer still there?
  farewell,  // we leave
  notice,    // a note
  look_up    // a read of the peer's table; context is the look-up
};

// What a work request holds until it is done.
struct send_record {
  void* context = nullptr;        // for the sink, or a look-up
  mem::packet* packet = nullptr;  // goes back to its pool
  std::uint64_t key = 0;          // registration that was made for it
  purpose what = purpose::user;
  // The buffer is in use until then, or somebody waits: the card is asked to tell.
  bool is_awaited = true;
};

class link {
 public:
  // Moves forward only. calling: a hello is under way; ready: both sides know each other; left: the
  // peer took leave; failed: it died or the connection broke.
  enum class stage : std::uint8_t { calling, ready, left, failed };
  // Places that only we use: a farewell, a knock, notes and look-ups.
  static constexpr std::uint32_t RESERVE = 4;

  link(int rank, qp_handle qp, std::uint32_t psn, std::uint32_t depth);

  // done: the card has it; retry_*: nothing was posted; fatal: the peer is gone.
  errorcode_t post(ibv_send_wr& wr, const send_record& what) noexcept;

  stage state() const noexcept { return stage_.load(std::memory_order_acquire); }
  // edge link.stage: partner is state(). Only forward; true if this call moved it.
  bool move(stage to) noexcept {
    stage now = stage_.load(std::memory_order_relaxed);
    while (now < to)
      if (stage_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) return true;
    return false;
  }
  errorcode_t refusal() const noexcept {
    return state() >= stage::left ? errorcode_t::fatal : errorcode_t::retry_nomem;
  }

  // Takes the oldest record that is not done, if its number is at most `last`.
  bool take_done(std::uint64_t last, send_record& out, std::uint64_t& number) noexcept {
    const std::uint64_t at = done_.load(std::memory_order_relaxed);
    // edge link.ring: partner is post().
    if (at > last || at >= next_.load(std::memory_order_acquire)) return false;
    out = ring_[at & mask_];
    number = at;
    // edge link.room: the record was read before its place is used again; partner is post().
    done_.store(at + 1, std::memory_order_release);
    return true;
  }
  bool is_idle() const noexcept {
    return done_.load(std::memory_order_relaxed) == next_.load(std::memory_order_acquire);
  }
  // What the card said when it refused a post for good, since forgive(); 0: nothing.
  int refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  void forgive() noexcept { refused_.store(0, std::memory_order_relaxed); }

  const int rank;
  const qp_handle qp;
  const std::uint32_t psn;

  // ---- the connector's ----
  std::uint32_t peer_qpn = 0;  // 0: not known yet
  std::uint64_t next_call_ticks = 0;
  std::uint64_t call_interval_ticks = 0;
  std::uint32_t calls = 0;
  // ---- the polling thread's ----
  std::uint64_t heard_ticks = 0;  // last sign of life
  bool is_knocking = false;
  bool was_gone_said = false;
  bool is_missed = false;  // its process is gone; what it sent comes first

 private:
  std::atomic<stage> stage_{stage::calling};
  std::atomic<int> refused_{0};
  base::spinlock lock_;
  std::uint32_t silent_ = 0;  // posts since the last signalled one
  const std::uint32_t depth_, batch_;
  const std::uint64_t mask_;
  std::vector<send_record> ring_;
  std::atomic<std::uint64_t> next_{0};  // written under lock_
  std::atomic<std::uint64_t> done_{0};  // written by the polling thread
};

// Names of work requests, so that a failed completion, which says little else, is understood.
constexpr std::uint64_t id_of_send(std::uint64_t number) noexcept { return number << 1; }
inline std::uint64_t id_of_receive(mem::packet* p) noexcept {
  return reinterpret_cast<std::uint64_t>(p) | 1;
}
constexpr bool is_receive(std::uint64_t id) noexcept { return (id & 1) != 0; }
constexpr std::uint64_t number_of(std::uint64_t id) noexcept { return id >> 1; }
inline mem::packet* packet_of(std::uint64_t id) noexcept {
  return reinterpret_cast<mem::packet*>(id & ~std::uint64_t{1});
}

}  // namespace lci::ibv
