// Receive work requests: a list of data segments for each message, in entries of one stride.
// Callers: receive queues of hosts and kernels, the C face. Threads: any, each with its own
// entries. Always true: an entry that does not fill its stride ends with an invalid segment, so
// what an earlier round left behind it is not read; nothing is published here, and no register is
// rung for a receive queue, only its record is stored (doorbell.hpp).
#pragma once

#include <cstdint>

#include "lci/wqe/layout.hpp"
#include "lci/wqe/send_wqe.hpp"
#include "lci/wqe/status.hpp"

namespace lci::wqe {

struct recv_ring {
  void* base = nullptr;
  std::uint32_t entries = 0;  // a power of two, at most MAX_RING_BLOCKS
  std::uint32_t stride = 0;   // bytes of an entry: a power of two, at least an octoword
};

// Places of an entry, including that of the invalid segment where there is room for one.
LCI_ANYWHERE constexpr std::uint32_t segments_of(const recv_ring& ring) noexcept {
  return ring.stride / OCTOWORD_SIZE;
}

LCI_ANYWHERE inline status check(const recv_ring& ring, const sge* entries,
                                 std::uint32_t count) noexcept {
  if (!is_power_of_two(ring.entries) || ring.entries > MAX_RING_BLOCKS ||
      !is_power_of_two(ring.stride) || ring.stride < OCTOWORD_SIZE)
    return status::bad_ring;
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (entries[i].length > MAX_BYTE_COUNT) return status::bad_length;
    used += entries[i].length != 0;
  }
  return used <= segments_of(ring) ? status::ok : status::bad_entry_count;
}

// Writes the entry number `index`, which counts entries and never wraps.
LCI_ANYWHERE inline status write_recv_wqe(const recv_ring& ring, std::uint64_t index,
                                          const sge* entries, std::uint32_t count) noexcept {
  if (const status s = check(ring, entries, count); s != status::ok) return s;
  octoword* const to =
      static_cast<octoword*>(ring.base) + (index & (ring.entries - 1)) * segments_of(ring);
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const sge& e = entries[i];
    if (e.length == 0) continue;
    to[used++] = data_segment(static_cast<std::uint32_t>(e.length), e.lkey, e.laddr);
  }
  if (used < segments_of(ring)) to[used] = data_segment(0, INVALID_LKEY, 0);
  return status::ok;
}

}  // namespace lci::wqe
