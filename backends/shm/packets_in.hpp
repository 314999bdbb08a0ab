// A message that lies in a packet of its sender's arena, as a slot names it. Callers: inbox and
// side_inbox. Threads: any, for a lane that is the caller's.
#pragma once

#include <cstddef>
#include <cstring>

#include "backends/shm/lane.hpp"
#include "backends/shm/layout.hpp"
#include "backends/shm/peer.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm {

// False: it makes no sense. Else `out` is what to present, and `packet` what is to be released once
// that was taken.
inline bool find_packet(const rx_lane& lane, const slot& s, slot_header header, net::arrival& out,
                        mem::packet*& packet) noexcept {
  packet_record r;
  if (header.size != sizeof(r)) return false;
  std::memcpy(&r, s.data, sizeof(r));
  std::byte* const at =
      lane.from->memory.resolve(r.packet, sizeof(mem::packet) + r.size, alignof(mem::packet));
  if (at == nullptr) return false;
  packet = reinterpret_cast<mem::packet*>(at);
  out.rank = lane.rank;
  out.imm = header.imm;
  out.data = packet->payload();
  out.size = r.size;
  const bool may_keep = (header.flags & MAY_KEEP) != 0 && lane.from->memory.is_in_window();
  out.packet = may_keep ? packet : nullptr;
  return true;
}

// The packet of a message that was taken. Late, unless it is one of our own, to ourselves, or the
// sender has lent as many as it may: it needs that one.
inline void hand_back(const mem::arena& own, rx_lane& lane, slot_header header,
                      mem::packet& read) noexcept {
  if (own.contains(&read) || (header.flags & MAY_KEEP) == 0)
    mem::release_packet(own, &read);
  else
    lane.hand_back(read);
}

}  // namespace lci::shm
