// From which size on an operation is cut into pieces for several cards, and how. Callers:
// side_queues, side_regions. Threads: pure functions.
#pragma once

#include <array>
#include <cstddef>

#include "backends/ibv/wire.hpp"

namespace lci::ibv {

// Bytes from which an operation is cut: LCI_IBV_RAIL_SIZE. Throws argument_error.
std::size_t least_to_cut();

struct piece {
  std::size_t rail = 0;
  std::size_t at = 0;  // bytes
  std::size_t size = 0;
};

struct pieces {
  std::array<piece, MAX_RAILS> of{};
  std::size_t count = 0;
  const piece* begin() const noexcept { return of.data(); }
  const piece* end() const noexcept { return of.data() + count; }
};

// About equal parts that begin at whole pages of the operation, one for each rail whose bit is set
// in `usable`. None: it goes over the first card, whole.
pieces cut(std::size_t size, unsigned usable) noexcept;

}  // namespace lci::ibv
