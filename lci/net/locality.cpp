#include "lci/net/locality.hpp"

#include <algorithm>
#include <cstddef>

namespace lci::net {
namespace {

bool have_common(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int one) { return std::binary_search(b.begin(), b.end(), one); });
}

// Leaves those of `cards` for which `is_good`; the others learn why not.
template <class Good, class Why>
void keep(choice& from, Good&& is_good, Why&& why_not) {
  const auto rest = std::stable_partition(from.cards.begin(), from.cards.end(), is_good);
  for (auto at = rest; at != from.cards.end(); ++at) from.why_not[*at] = why_not(*at);
  from.cards.erase(rest, from.cards.end());
}

// Leaves those with the least `distance`.
template <class Distance>
void keep_nearest(choice& from, std::span<const candidate> all, Distance&& distance,
                  const std::string& to_what) {
  const std::size_t best = *std::min_element(
      from.cards.begin(), from.cards.end(),
      [&](std::size_t a, std::size_t b) { return distance(all[a]) < distance(all[b]); });
  const nearness least = distance(all[best]);
  const std::size_t before = from.cards.size();
  keep(
      from, [&](std::size_t i) { return distance(all[i]) == least; },
      [&](std::size_t i) {
        return "farther from " + to_what + " (" + text_of(distance(all[i])) + ") than " +
               all[best].name + " (" + text_of(least) + ")";
      });
  if (from.cards.size() < before)
    from.why += ", nearest to " + to_what + " (" + text_of(least) + ")";
}

// Each rank has another one in front, also where ranks were dealt to sockets in turn: then every
// second rank has the same choice, and would take the same card.
void deal(choice& to, std::span<const candidate> all, int local_rank) {
  const std::size_t n = to.cards.size();
  if (n < 2) return;
  const auto rank = static_cast<std::size_t>(std::max(local_rank, 0));
  std::rotate(to.cards.begin(),
              to.cards.begin() + static_cast<std::ptrdiff_t>((rank + rank / n) % n),
              to.cards.end());
  to.why += ", one of " + std::to_string(n) + " that are as good, by local rank " +
            std::to_string(local_rank);
  for (std::size_t i = 1; i < n; ++i)
    to.why_not[to.cards[i]] = "as good as " + all[to.cards[0]].name + ", which local rank " +
                              std::to_string(local_rank) + " takes";
}

}  // namespace

nearness nearness_of(const place& a, const place& b) {
  const auto [mine, others] =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const auto common = mine - a.bridges.begin();
  if (common >= 2) return nearness::same_switch;
  if (common == 1) return nearness::same_host_bridge;
  if (a.cpus.empty() || b.cpus.empty() || have_common(a.cpus, b.cpus)) return nearness::same_node;
  return have_common(a.packages, b.packages) ? nearness::same_package : nearness::far;
}

const char* text_of(nearness n) noexcept {
  switch (n) {
    case nearness::same_switch:
      return "behind the same PCIe switch";
    case nearness::same_host_bridge:
      return "at the same host bridge";
    case nearness::same_node:
      return "at the same NUMA node";
    case nearness::same_package:
      return "at the same socket";
    case nearness::far:
      return "at another socket";
  }
  return "?";
}

choice choose(std::span<const candidate> all, const situation& here) {
  choice out;
  out.why_not.resize(all.size());
  if (all.empty()) return out;
  for (std::size_t i = 0; i < all.size(); ++i) out.cards.push_back(i);
  const auto by_rate = [&](std::size_t a, std::size_t b) { return all[a].rate < all[b].rate; };
  // The same for every process of the host, so that they meet on one network.
  const candidate& first = all[*std::max_element(out.cards.begin(), out.cards.end(), by_rate)];
  out.why = all.size() == 1 ? "the only one that can be used" : "the fastest";
  keep(
      out, [&](std::size_t i) { return all[i].rate == first.rate; },
      [&](std::size_t) { return "slower than " + first.name; });
  keep(
      out, [&](std::size_t i) { return all[i].network == first.network; },
      [&](std::size_t i) {
        return "on another network (" + all[i].network + ") than " + first.name + " (" +
               first.network + ")";
      });
  if (here.has_gpu)
    keep_nearest(
        out, all, [](const candidate& c) { return c.to_gpu; }, "the GPU");
  keep_nearest(
      out, all, [](const candidate& c) { return c.to_cores; }, "the cores");
  deal(out, all, here.local_rank);
  return out;
}

}  // namespace lci::net
