// What ranks tell each other before the first message, in two rounds: where they are and which
// network they want; then, where a network between hosts is needed, which one they have opened.
// Ranks that would not understand each other find out here, rather than by meaningless messages,
// and all ranks come to the same conclusion. Callers: open_networks. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lci/net/route.hpp"
#include "lci/runtime/text_list.hpp"

namespace lci::runtime {

struct introduction {
  std::string wanted = "any";  // the network that was requested by name
  std::string place;           // net::provider::place(); empty: cannot be reached inside the host
  std::string address;         // of its network inside the host
  std::uint64_t word = 0;      // random: its part of the job's secret
  std::string cores = "0";     // tell_cores() of those that it may use
};

// "5 any WORD CORES PLACE ADDRESS"
std::string text_of(std::uint32_t version, const introduction& said);
// Parses what `rank` said. Throws backend_error, with both sides' words, if its version differs.
introduction read_introduction(std::string_view said, int rank, std::uint32_t version);
// Those of all ranks, without the addresses. What many have in common, as the ranks of a host have
// their place, is kept once: a large job has thousands of them in every process.
class introductions {
 public:
  introductions() = default;
  introductions(introductions&&) = default;
  introductions& operator=(introductions&&) = default;
  // That of the next rank.
  void add(const introduction& one);
  std::size_t size() const noexcept { return of_.size(); }
  const std::string& wanted(int rank) const noexcept { return *at(rank).wanted; }
  const std::string& place(int rank) const noexcept { return *at(rank).place; }
  const std::string& cores(int rank) const noexcept { return *at(rank).cores; }
  // Whether both can be reached inside the same host.
  bool are_together(int a, int b) const noexcept {
    return at(a).place == at(b).place && !place(a).empty();
  }
  // introduction::word of all, by rank.
  std::vector<std::uint64_t> words() const;

 private:
  struct short_one {
    const std::string *wanted, *place, *cores;
    std::uint64_t word;
  };
  // The one text that is equal to this one, which the rank before has had as well, as a rule.
  const std::string* keep(const std::string& text, const std::string* before);
  const short_one& at(int rank) const noexcept { return of_[static_cast<std::size_t>(rank)]; }

  std::set<std::string, std::less<>> texts_;  // its elements stay where they are
  std::vector<short_one> of_;                 // by rank
};

// Calls for each rank, in their order, with what it has said in this round.
using told_by = std::function<void(const std::function<void(int rank, std::string_view words)>&)>;

// Throws backend_error that names the ranks that want another network than `me` does.
void check_settings(const introductions& all, int me);
// Ranks that are not in the place of `me`. Of these results only whether there are any is the same
// on all ranks.
std::vector<int> elsewhere(const introductions& all, int me);
std::vector<net::way> ways_from(const introductions& all, int me);
// The ranks on the machine of `me`, which share its cores and cards although they may not be able
// to share memory, in ascending order. All ranks if nothing is known.
std::vector<int> on_machine(const introductions& all, int me);
// Whether they have to take turns on the cores of `me`.
bool is_crowded(const introductions& all, int me);

// Second round: "ibv ADDRESS", or "- REASON" from a rank that could open none.
std::string tell_network(std::string_view network, std::string_view address);
std::string tell_failure(std::string_view reason);
// The addresses in what all ranks said. Throws backend_error that names the ranks that have opened
// another network than `me`, or none, and why.
text_list addresses_in(const told_by& said, int me);

// "rank 3", "ranks 0, 2 and 5 more"
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace lci::runtime
