#include "lci/net/provider_order.hpp"

#include <algorithm>
#include <limits>

#include "lci/base/env.hpp"

namespace lci::net {
namespace {

int place_of(const provider& one, std::string_view preference) {
  if (one.place != nullptr) return -1;
  int place = std::numeric_limits<int>::max(), at = 0;
  base::env::for_each_entry(preference, ",; ", [&](std::string_view entry) {
    if (base::env::same_word(entry, one.name)) place = std::min(place, at);
    ++at;
  });
  return place;
}

}  // namespace

void put_in_order(std::span<provider> all, std::string_view preference) {
  std::stable_sort(all.begin(), all.end(), [&](const provider& a, const provider& b) {
    return place_of(a, preference) < place_of(b, preference);
  });
}

}  // namespace lci::net
