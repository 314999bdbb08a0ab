// How many bytes of a message a packet holds. Threads: pure functions.
#pragma once

#include <cstddef>

#include "lci/base/platform.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

// In front of the bytes of a message whose tag or remote completion needs a head.
inline constexpr std::size_t HEAD_BYTES = base::CACHE_LINE;
static_assert(HEAD_BYTES >= sizeof(wire::extended_head));

// Of a packet for messages of that many bytes. Theirs is a power of two more often than not, and
// one that is just missed costs a round trip, so the heads come on top.
constexpr std::size_t packet_bytes_for(std::size_t message) noexcept {
  return base::align_up(message, base::CACHE_LINE) + HEAD_BYTES + sizeof(mem::packet);
}
// "B" of a pool: the longest message that its packets hold.
inline std::size_t longest_in_packet(const mem::packet_pool& pool) noexcept {
  return pool.payload_size() - HEAD_BYTES;
}

}  // namespace lci::proto
