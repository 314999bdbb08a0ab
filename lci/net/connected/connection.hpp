// A connection to the same device of one peer, as far as it is the same over every network: whether
// it can be posted on, and when the peer last gave a sign of life. Base of a backend's
// `connection`. Callers: the connector makes it and calls; endpoints ask; the polling thread ends
// it. Threads: as said at each part. Always true: its stage moves forward only. It is that of this
// connection, which may fail while the rank lives, or end before all is read; what is known of the
// rank is in peer_table, to which a connection reports.
#pragma once

#include <atomic>
#include <cstdint>

#include "lci/base/platform.hpp"
#include "lci/net/backend.hpp"
#include "lci/net/connected/call_pace.hpp"
#include "lci/net/peer_table.hpp"

namespace lci::net::connected {

class connection {
 public:
  // calling: hellos are under way; ready: both sides know each other; left: the peer has
  // disconnected; failed: it died, cannot be reached, or the connection broke.
  enum class stage : std::uint8_t { calling, ready, left, failed };

  explicit connection(int peer) noexcept : rank(peer) {}

  // edge connection.stage: partner is move().
  stage state() const noexcept { return stage_.load(std::memory_order_acquire); }
  // edge connection.stage: partner is state(). Only forward; true if this call moved it.
  bool move(stage to) noexcept {
    stage now = stage_.load(std::memory_order_relaxed);
    while (now < to)
      if (stage_.compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
        if (to == stage::ready) report(peer_event::connected);
        return true;
      }
    return false;
  }
  // Whether messages can be sent is reported there, if anywhere. Before it is published.
  void report_to(peer_table* peers) noexcept {
    peers_ = peers;
    report(peer_event::connect);
  }
  // The peer has failed without a word to this device: the bootstrap or another device knows.
  bool is_known_failed() const noexcept { return peers_ != nullptr && peers_->has_failed(rank); }
  // What a post is answered while it is not ready.
  errorcode_t refusal() const noexcept {
    return state() >= stage::left ? errorcode_t::fatal : errorcode_t::retry_nomem;
  }
  // What the network said when it refused a post for good; 0: nothing.
  int refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
  void set_refused(int code) noexcept { refused_.store(code, std::memory_order_relaxed); }
  // A sign of life. The polling thread says so. Relaxed: a time with nothing behind it.
  void hear(std::uint64_t ticks) noexcept { heard_ticks_.store(ticks, std::memory_order_relaxed); }
  // When; 0: never.
  std::uint64_t heard_ticks() const noexcept {
    return heard_ticks_.load(std::memory_order_relaxed);
  }

  const int rank;
  // ---- the connector's ----
  call_pace pace;
  // ---- the polling thread's ----
  std::uint64_t keepalive_ticks = 0;  // when the peer was asked for a sign of life; 0: it was not
  bool was_end_reported = false;      // to the sink of this device
  // How far our leaving is: nothing was said yet; it was said and is on its way; it is waited for
  // no longer.
  enum class parting : std::uint8_t { none, said, over } our_end = parting::none;

 private:
  LCI_COLD void report(peer_event what) noexcept {
    if (peers_ != nullptr) peers_->report(rank, what);
  }

  peer_table* peers_ = nullptr;
  std::atomic<stage> stage_{stage::calling};
  std::atomic<int> refused_{0};
  std::atomic<std::uint64_t> heard_ticks_{0};
};

}  // namespace lci::net::connected
