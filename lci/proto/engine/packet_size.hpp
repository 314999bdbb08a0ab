// How many bytes of a message a packet holds. Threads: pure functions.
#pragma once

#include <algorithm>
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
// The longest message that the packets of a pool hold.
inline std::size_t longest_in_packet(const mem::packet_pool& pool) noexcept {
  return pool.payload_size() - HEAD_ROOM;
}
// The longest message that goes with its head in one piece of at most max_send bytes. Whole lines,
// as in a packet.
constexpr std::size_t longest_in_piece(std::size_t max_send) noexcept {
  return (max_send - sizeof(wire::extended_head)) / base::CACHE_LINE * base::CACHE_LINE;
}
// "B" of a pool, get_max_bcopy_size(): up to it a message is copied as it is posted, and arrives in
// a packet where its receiver wants that. max_send: of the runtime's first network
// (core::max_send).
inline std::size_t longest_copy(const mem::packet_pool& pool, std::size_t max_send) noexcept {
  return std::min(longest_in_packet(pool), longest_in_piece(max_send));
}

}  // namespace lci::proto
