#include "backends/ibv/rails.hpp"

#include <bit>

#include "lci/base/env.hpp"

namespace lci::ibv {

rail_wishes rail_wishes::from_environment() {
  constexpr const char* COUNT = "LCI_IBV_RAILS";
  constexpr const char* SIZE = "LCI_IBV_RAIL_SIZE";
  rail_wishes out;
  if (const auto text = base::env::find(COUNT))
    out.count = base::env::same_word(*text, "auto")
                    ? 0
                    : base::env::parse_unsigned(COUNT, *text, 1, MAX_RAILS);
  if (const auto text = base::env::find(SIZE))
    out.least = base::env::parse_unsigned(SIZE, *text, 1);
  return out;
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
