#include "ledger.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/interface/world.hpp"

namespace stress {

ledger::ledger(const plan& work, int rank)
    : work_(work),
      rank_(rank),
      seen_(new std::atomic<bool>[work.all().size()]()),
      expected_(static_cast<std::size_t>(work.dimensions().ranks)),
      verified_(new std::atomic<std::uint32_t>[expected_.size()]()) {
  for (const action& a : work.all()) {
    if (a.what != kind::put && verifier_of(a) == rank)
      ++expected_[static_cast<std::size_t>(partner_of(a))];
  }
}

const action& ledger::expected(std::uint64_t number, kind what, int origin) const {
  if (number < work_.all().size()) {
    const action& a = work_.all()[number];
    if (a.what == what && a.origin == origin && verifier_of(a) == rank_) return a;
  }
  throw std::runtime_error(std::string(KIND_NAMES[static_cast<int>(what)]) + " " +
                           std::to_string(number) + " of rank " + std::to_string(origin) +
                           ", which was not to come here");
}

void ledger::compare(const action& a, const void* data) {
  const std::vector<char> wanted = interface_test::pattern(a.size, a.seed);
  if (a.size != 0 && std::memcmp(data, wanted.data(), a.size) != 0)
    throw std::runtime_error("wrong bytes: " + name_of(a) + ": " +
                             interface_test::difference(data, a.size, a.seed));
}

void ledger::verified(const action& a) {
  // relaxed: only the answers are compared.
  if (seen_[a.number].exchange(true, std::memory_order_relaxed))
    throw std::runtime_error("twice: " + name_of(a));
  // edge ledger.verified: partner is is_complete_with().
  verified_[static_cast<std::size_t>(partner_of(a))].fetch_add(1, std::memory_order_release);
}

bool ledger::is_complete_with(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return verified_[at].load(std::memory_order_acquire) == expected_[at];  // edge ledger.verified
}

std::vector<std::string> ledger::missing(const predicate& is_alive) const {
  std::vector<std::string> names;
  for (const action& a : work_.all()) {
    if (a.what == kind::put || verifier_of(a) != rank_ || !is_alive(partner_of(a))) continue;
    // relaxed: for a message to a person.
    if (!seen_[a.number].load(std::memory_order_relaxed)) names.push_back("lost: " + name_of(a));
  }
  return names;
}

std::vector<std::string> ledger::wrong_in(const std::vector<char>& window,
                                          const predicate& is_alive) const {
  std::vector<std::string> names;
  const auto is_untouched = [](char byte) { return byte == UNTOUCHED; };
  for (const action& a : work_.all()) {
    if ((a.what != kind::put && a.what != kind::signal) || a.peer != rank_) continue;
    const char* const at = window.data() + a.place;
    if (!std::all_of(at + a.size, at + a.size + plan::GAP, is_untouched))
      names.push_back("written beyond the end: " + name_of(a));
    if (!is_alive(a.origin)) continue;
    const std::string text = interface_test::difference(at, a.size, a.seed);
    if (text.empty()) continue;
    names.push_back((std::all_of(at, at + a.size, is_untouched) ? "lost: " : "wrong bytes: ") +
                    name_of(a) + ": " + text);
  }
  return names;
}

}  // namespace stress
