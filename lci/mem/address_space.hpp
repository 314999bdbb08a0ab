// What this process may still map, where its address space is limited (RLIMIT_AS, "ulimit -v").
// Called by arenas when they reserve, and by whoever could not map something and has to say why.
// Threads: any; nothing is kept.
#pragma once

#include <cstddef>
#include <string>

namespace lci::mem {

struct address_space {
  std::size_t limit = 0;  // bytes; 0: none
  std::size_t used = 0;   // bytes
};

// As it is now.
address_space find_address_space() noexcept;

// Bytes that an arena should reserve, at most `most` and not below `least`: each of `ranks`
// processes maps the arenas of all of them, which together take a quarter of what is left. So a
// second runtime fits as well, also one that is made before the peers of the first are mapped, and
// half stays the program's.
std::size_t fair_reserve(const address_space& now, int ranks, std::size_t least,
                         std::size_t most) noexcept;

// "" without a limit; else what to append to the words about a mapping that failed.
std::string limit_text(const address_space& now);

}  // namespace lci::mem
