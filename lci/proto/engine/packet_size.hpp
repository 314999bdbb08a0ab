// How many bytes of a message a packet holds. Threads: pure functions.
#pragma once

#include <cstddef>

#include "lci/base/platform.hpp"
#include "lci/mem/packet.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/proto/engine/wire.hpp"

namespace lci::proto {

// Room for the head of a message whose tag or remote completion needs one.
inline constexpr std::size_t HEAD_ROOM = base::CACHE_LINE;
static_assert(HEAD_ROOM >= sizeof(wire::extended_head));

// Bytes of a packet for messages of that length. The length is mostly a power of two, and a message
// that just misses a packet costs a round trip, so the room for the head is added.
constexpr std::size_t packet_bytes_for(std::size_t message) noexcept {
  return base::align_up(message, base::CACHE_LINE) + HEAD_ROOM + sizeof(mem::packet);
}
// "B" of a pool: the longest message that its packets hold.
inline std::size_t longest_in_packet(const mem::packet_pool& pool) noexcept {
  return pool.payload_size() - HEAD_ROOM;
}

}  // namespace lci::proto
