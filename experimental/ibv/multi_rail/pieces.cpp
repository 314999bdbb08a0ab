#include "experimental/ibv/multi_rail/pieces.hpp"

#include <bit>

#include "lci/base/env.hpp"

namespace lci::ibv {

std::size_t least_to_cut() {
  constexpr const char* SIZE = "LCI_IBV_RAIL_SIZE";
  const auto text = base::env::find(SIZE);
  return text ? base::env::parse_unsigned(SIZE, *text, 1) : std::size_t{1} << 17;
}

pieces cut(std::size_t size, unsigned usable) noexcept {
  constexpr std::size_t PAGE = 4096;
  pieces out;
  if (usable <= 1) return out;
  const auto rails = static_cast<std::size_t>(std::popcount(usable));
  const std::size_t part = ((size + rails - 1) / rails + PAGE - 1) / PAGE * PAGE;
  std::size_t at = 0;
  for (std::size_t rail = 0; rail < MAX_RAILS && at < size; ++rail) {
    if ((usable >> rail & 1u) == 0) continue;
    const std::size_t rest = size - at;
    out.of[out.count++] = {rail, at, rest < part ? rest : part};
    at += part;
  }
  return out;
}

}  // namespace lci::ibv
