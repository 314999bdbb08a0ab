// Several cards used together: how many, from which size on, and how an operation is cut into
// pieces. Callers: select, fabric, endpoint. Threads: pure functions.
#pragma once

#include <array>
#include <cstddef>

#include "backends/ibv/wire.hpp"

namespace lci::ibv {

struct rail_wishes {
  std::size_t count = 1;                     // 0: all that are as good
  std::size_t least = std::size_t{1} << 17;  // bytes from which an operation is cut
  // LCI_IBV_RAILS (1 to 4, or auto) and LCI_IBV_RAIL_SIZE. Throws argument_error.
  static rail_wishes from_environment();
};

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
