// The cores that a rank may use, as ranks tell each other, and whether the ranks of a machine have
// enough of them. A launcher may have given each rank cores of its own: then what one rank may use
// says nothing about the others. Callers: introduction, open_networks, job. Threads: any.
#pragma once

#include <sched.h>

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lci::runtime {

using core_set = std::bitset<CPU_SETSIZE>;

// Those of the calling thread, not of the machine. None: the kernel does not say.
core_set usable_cores() noexcept;
// Hexadecimal; cores 0 to 3 are in the last digit. "0": nothing is known.
std::string tell_cores(const core_set& cores);
// Nothing: it is no such text.
std::optional<core_set> read_cores(std::string_view text);
// Whether ranks have to take turns on the cores of one of them, which may use `mine`. `ranks`: what
// each rank of its machine may use, itself included.
bool outnumber_cores(const std::vector<core_set>& ranks, const core_set& mine);

}  // namespace lci::runtime
