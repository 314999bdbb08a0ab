// Arithmetic on indices: when a reservation may be written, and what a counter of 16 bits says of
// one of 64. Callers: send_queue, pollers of collapsed queues. Threads: pure functions.
// Always true: software indices have 64 bits, count basic blocks, and never wrap.
#pragma once

#include <cstdint>

#include "lci/wqe/layout.hpp"

namespace lci::wqe {

// Whether the blocks [base, base + blocks) may be written while everything before `done` is free.
// A later reservation waits even where its slot looks free: an earlier one comes first.
LCI_ANYWHERE constexpr bool may_write(std::uint64_t base, std::uint32_t blocks, std::uint64_t done,
                                      std::uint32_t ring_blocks) noexcept {
  return base + blocks - done <= ring_blocks;
}

// The index whose low 16 bits are `counter`, at or after `from` and less than 65536 away.
LCI_ANYWHERE constexpr std::uint64_t widened(std::uint64_t from, std::uint16_t counter) noexcept {
  return from + static_cast<std::uint16_t>(counter - static_cast<std::uint16_t>(from));
}

// A collapsed completion queue has one entry, which every completion overwrites: progress is its
// counter, the first block of the request that finished last, of `blocks` blocks. Returns the new
// `done`, or the old one if the counter says nothing new. Before the first completion the entry
// must hold 0xffff, as make_unused() leaves it. Wants posted - done <= MAX_RING_BLOCKS.
LCI_ANYWHERE constexpr std::uint64_t collapsed_progress(std::uint64_t done, std::uint64_t posted,
                                                        std::uint16_t counter,
                                                        std::uint32_t blocks) noexcept {
  const std::uint64_t index = widened(done, counter);
  return index - done < posted - done ? index + blocks : done;
}

// Whether a request that takes [base, base + blocks) is one of those that must ask for a
// completion, so that a full ring is never without one: the first that reaches each half of it.
// In a short ring every request is. Wants that requests have at most MAX_BLOCKS, and that the
// ring's blocks are a power of two.
LCI_ANYWHERE constexpr bool must_signal(std::uint64_t base, std::uint32_t blocks,
                                        std::uint32_t ring_blocks) noexcept {
  if (ring_blocks < 2 * MAX_BLOCKS) return true;
  // No division: a GPU needs a hundred instructions for one.
  const std::uint32_t half = ring_blocks / 2;
  return (static_cast<std::uint32_t>(base) & (half - 1)) + blocks >= half;
}

}  // namespace lci::wqe
