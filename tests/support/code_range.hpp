// Where code is in the memory of this process, and of those that it forks. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lci::test {

struct code_range {
  std::uint64_t begin = 0, end = 0;
};
// All of the library or program that this place is in.
code_range library_around(const void* place);

// The functions of the library or program that this place is in whose names, as the linker knows
// them, have that text in them. Sorted. Empty as well where its symbols were stripped.
std::vector<code_range> functions_around(const void* place, const std::string& text);

}  // namespace lci::test
