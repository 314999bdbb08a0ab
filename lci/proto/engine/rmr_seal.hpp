// Tells a name of remote memory that the library gave out from one that was changed on the way, or
// guessed: a check word over what the name says and whose it is, keyed by a secret that the ranks
// of a job have made together (docs/decisions/0029-check-of-remote-names.md).
// Callers: get_rmr(), and each put and get before anything is looked up. Threads: immutable after
// set-up. Always true: the secrets of a job's ranks are the same, and of two jobs they are not.
#pragma once

#include <cstdint>
#include <vector>

namespace lci::proto {

class rmr_seal {
 public:
  // All ranks' words, by rank: every rank makes the same of them, and none could have chosen it.
  static rmr_seal of(const std::vector<std::uint64_t>& words) noexcept {
    std::uint64_t state = words.size();
    for (const std::uint64_t word : words) state = scramble(state ^ word);
    rmr_seal out;
    out.first_ = scramble(state);
    out.second_ = scramble(out.first_);
    return out;
  }
  bool is_set() const noexcept { return (first_ | second_) != 0; }

  // For each put and get, so it is a product of what is not known outside rather than a hash: that
  // costs less than remembering which names were looked at.
  std::uint64_t check_of(std::uintptr_t base, std::uint64_t key, int rank) const noexcept {
    __extension__ using wide = unsigned __int128;
    const std::uint64_t place = base ^ first_ ^ static_cast<std::uint64_t>(rank) << 48;
    const wide product = static_cast<wide>(place) * (key ^ second_);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

 private:
  // The mixing of splitmix64: every bit of the result depends on every bit of the argument.
  static std::uint64_t scramble(std::uint64_t word) noexcept {
    word += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
  }
  std::uint64_t first_ = 0, second_ = 0;
};

}  // namespace lci::proto
