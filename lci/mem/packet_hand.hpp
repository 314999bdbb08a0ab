// The packet that a handler of this thread is being given right now. Nearly all handlers return
// their packet before they end: it is then noted here, and the caller of the handler gets it back
// without going through the pool. Used by the code that runs handlers (proto) and by put_upacket().
// Threads: all state belongs to the calling thread. Always true: a packet noted as returned is
// `pooled` and in no cache; it belongs to the caller of the handler.
#pragma once

#include <utility>

#include "lci/mem/packet.hpp"

namespace lci::mem {

namespace detail {
extern constinit thread_local packet* packet_in_hand __attribute__((tls_model("initial-exec")));
}  // namespace detail

// Lives around the call of a handler that is given `p`. Nests, as handlers that make progress do.
class packet_hand {
 public:
  explicit packet_hand(packet* p) noexcept : outer_(std::exchange(detail::packet_in_hand, p)) {}
  ~packet_hand() { detail::packet_in_hand = outer_; }
  packet_hand(const packet_hand&) = delete;
  packet_hand& operator=(const packet_hand&) = delete;
  // True if the packet was returned. If not, the handler kept it, posted it, or returned it
  // elsewhere.
  bool is_returned() const noexcept { return detail::packet_in_hand == nullptr; }

 private:
  packet* const outer_;
};

// For a process that was forked while a handler ran: the packet belongs to the parent.
inline void forget_hand() noexcept { detail::packet_in_hand = nullptr; }

// The user returns a packet. True: it was the one in hand, and nothing is left to do.
inline bool return_to_hand(void* payload) noexcept {
  packet* const p = detail::packet_in_hand;
  if (p == nullptr || p->payload() != payload ||
      p->state.load(std::memory_order_relaxed) != packet_state::out)
    return false;
  p->state.store(packet_state::pooled, std::memory_order_relaxed);
  detail::packet_in_hand = nullptr;
  return true;
}

}  // namespace lci::mem
