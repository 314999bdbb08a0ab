// How much this process may still map where its address space is limited (RLIMIT_AS, "ulimit -v").
// Called by arenas when they reserve, and by callers that could not map something and have to say
// why.
// Threads: any; no state is kept.
#pragma once

#include <cstddef>
#include <string>

namespace lci::mem {

struct address_space {
  std::size_t limit = 0;  // bytes; 0: none
  std::size_t used = 0;   // bytes
};

// The present values.
address_space find_address_space() noexcept;

// How many bytes an arena should reserve, at most `most` and not below `least`: each of `ranks`
// processes maps the arenas of all of them, which together take a quarter of what is left. So a
// second runtime fits as well, even one made before the peers of the first are mapped, and half is
// left to the program.
std::size_t fair_reserve(const address_space& now, int ranks, std::size_t least,
                         std::size_t most) noexcept;

// "" without a limit; else the text to append to the message about a mapping that failed.
std::string limit_text(const address_space& now);

}  // namespace lci::mem
