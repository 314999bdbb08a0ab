// Which libraries can be measured here, how they are started, and why the others cannot be.
// Called by: main. Threads: any, nothing is kept.
#pragma once

#include <string>
#include <vector>

#include "tools/perf/arguments.hpp"
#include "tools/perf/contestant.hpp"

namespace lci_perf {

// All rivals that lci_perf knows, those that are absent with the reason.
// `folder`: where their programs are. `self`: the file of lci_perf.
std::vector<contender> find_rivals(const std::string& folder, const std::string& self);

// lci itself.
contender find_lci(const std::string& folder, const std::string& self);

// What makes lci use a transport, "ofi" or "ofi:tcp", even between processes of one host.
std::vector<std::string> variables_for(const std::string& transport);

// What the launcher of `name` is told besides, when each seat has a processor of its own or not.
std::vector<std::string> launcher_words_for(const std::string& name, const std::vector<int>& cpus);

// lci, then those of `known` that are asked for. Throws std::invalid_argument for an unknown name.
std::vector<contender> choose(const arguments& asked, contender lci, std::vector<contender> known);

}  // namespace lci_perf
