// Sizes as tests write them.
#pragma once

#include <cstddef>

namespace lci::test {

inline constexpr std::size_t KIB = 1024, MIB = 1024 * KIB;

}  // namespace lci::test
