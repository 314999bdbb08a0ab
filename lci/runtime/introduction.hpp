// What ranks tell each other before the first message, in two rounds: where they are and which
// network they want; then, where a network between hosts is needed, which one they have opened.
// Ranks that would not understand each other find out here, rather than by meaningless messages,
// and all ranks come to the same conclusion. Callers: open_networks. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lci/net/route.hpp"

namespace lci::runtime {

struct introduction {
  std::string wanted = "any";  // the network that was requested by name
  std::string place;           // net::provider::place(); empty: cannot be reached inside the host
  std::string address;         // of its network inside the host
  std::uint64_t word = 0;      // random: its part of the job's secret
};

// "5 any WORD PLACE ADDRESS"
std::string text_of(std::uint32_t version, const introduction& said);
// Parses what `rank` said. Throws backend_error, with both sides' words, if its version differs.
introduction read_introduction(std::string_view said, int rank, std::uint32_t version);
// Throws backend_error that names the ranks that want another network than `me` does.
void check_settings(const std::vector<introduction>& all, int me);
// Ranks that are not in the place of `me`. Of these results only whether there are any is the same
// on all ranks.
std::vector<int> elsewhere(const std::vector<introduction>& all, int me);
std::vector<net::way> ways_from(const std::vector<introduction>& all, int me);
// The ranks on the machine of `me`, which share its cores and cards although they may not be able
// to share memory, in ascending order. All ranks if nothing is known.
std::vector<int> on_machine(const std::vector<introduction>& all, int me);

// Second round: "ibv ADDRESS", or "- REASON" from a rank that could open none.
std::string tell_network(std::string_view network, std::string_view address);
std::string tell_failure(std::string_view reason);
// The addresses in what all ranks said. Throws backend_error that names the ranks that have opened
// another network than `me`, or none, and why.
std::vector<std::string> addresses_in(const std::vector<std::string>& said, int me);

// "rank 3", "ranks 0, 2 and 5 more"
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace lci::runtime
