// A packet: one cache line of header in shared memory, then the payload. Local peers may read a
// packet where it lies. Always true: a packet has exactly one owner at any time: {its pool, a
// thread's cache, a network operation, the user, lent to a peer}. A borrower gives it back by
// storing `returned` in its state; the lender finds that when it looks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lci/base/platform.hpp"

namespace lci::mem {

// The object that hands packets out and takes them back: a packet_pool or, for packets whose
// payload lies apart, a payload_pool (packet_pool.hpp: pool_of()).
class packet_home {
 protected:
  packet_home() = default;
  ~packet_home() = default;
};

enum class packet_state : std::uint32_t {
  pooled = 1,  // in its pool or in a thread's cache
  out,         // owned by a network operation or by the user of its own process
  lent,        // a peer may read it and will return it
  returned,    // the peer is done with it; the lender may take it back
  apart,       // as `out`, but the payload lies elsewhere (payload_pool)
  posted       // as `out`, but an operation consumes it: it no longer belongs to the program
};

struct alignas(base::CACHE_LINE) packet {
  static constexpr std::uint32_t MAGIC = 0x4b50434c;
  std::uint32_t magic = MAGIC;                            // tells a packet from a stray pointer
  std::atomic<packet_state> state{packet_state::pooled};  // the only field that a borrower writes
  std::uint32_t capacity = 0;                             // payload bytes
  std::uint32_t length = 0;                               // owner's use: payload bytes filled
  packet_home* pool = nullptr;                            // meaningful in the owning process only
  packet* next = nullptr;  // link while pooled, or in a list of its owner
  std::uint64_t note = 0;  // owner's use

  std::byte* payload() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  static packet* of_payload(void* payload) noexcept { return static_cast<packet*>(payload) - 1; }
};
static_assert(sizeof(packet) == base::CACHE_LINE);

// By a borrower that has read it.
inline void return_borrowed(packet& p) noexcept {
  // edge packet.return: what was read, and `length`, before the lender may overwrite it; partners
  // are is_returned() of packet_pool.cpp and has_come_back() of shm/bulk_stream.
  p.state.store(packet_state::returned, std::memory_order_release);
}

}  // namespace lci::mem
