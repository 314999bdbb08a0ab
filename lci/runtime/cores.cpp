#include "lci/runtime/cores.hpp"

#include <algorithm>
#include <cstddef>

namespace lci::runtime {
namespace {

constexpr std::string_view DIGITS = "0123456789abcdef";
constexpr std::size_t BITS = 4;  // of a digit

}  // namespace

core_set usable_cores() noexcept {
  core_set out;
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return out;
  for (std::size_t core = 0; core < out.size(); ++core)
    if (CPU_ISSET(core, &mine)) out.set(core);
  return out;
}

std::string tell_cores(const core_set& cores) {
  std::string out;
  for (std::size_t end = cores.size(); end != 0; end -= BITS) {
    std::size_t digit = 0;
    for (std::size_t core = end; core-- != end - BITS;) digit = 2 * digit + (cores[core] ? 1 : 0);
    if (digit != 0 || !out.empty()) out += DIGITS[digit];
  }
  return out.empty() ? "0" : out;
}

std::optional<core_set> read_cores(std::string_view text) {
  core_set out;
  if (text.empty() || text.size() > out.size() / BITS) return std::nullopt;
  for (const char one : text) {
    const std::size_t digit = DIGITS.find(one);
    if (digit == std::string_view::npos) return std::nullopt;
    out = out << BITS | core_set(digit);
  }
  return out;
}

bool outnumber_cores(const std::vector<core_set>& ranks, const core_set& mine) {
  core_set together;
  std::size_t confined = 0;  // to cores of mine
  for (const core_set& one : ranks) {
    // It may be anywhere, also on our cores.
    if (one.none()) return ranks.size() > std::max<std::size_t>(1, mine.count());
    together |= one;
    if ((one & ~mine).none()) ++confined;
  }
  return ranks.size() > together.count() || confined > mine.count();
}

}  // namespace lci::runtime
