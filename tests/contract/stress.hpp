// Many threads of two ranks send to each other and poll; a verifier looks at what arrives.
// Used by threads_contract on backends and by the self-check on faulty ones, which it must find
// faulty. Threads: makes its own and joins them. Always true: it ends, also when messages are lost.
#pragma once

#include <string>
#include <vector>

#include "tests/contract/group.hpp"

namespace lci::test {

struct stress_plan {
  std::uint32_t threads = 4;        // per rank; each posts and polls
  std::uint32_t per_thread = 1000;  // messages that each sends to the other rank
  bool may_lose = false;  // stop as soon as nothing moves any more instead of after a time
};

// What was wrong, one line per kind; empty when all is well.
std::vector<std::string> run_stress(group& g, const stress_plan& plan);

}  // namespace lci::test
