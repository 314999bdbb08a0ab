// What the ranks of a job do with a provider to show that they agree, each in a process of its own,
// on one machine or on several. A body answers the exit status of its process; what is wrong is a
// failed expectation.
#pragma once

#include <cstdint>
#include <string>

#include "tests/support/rank_job.hpp"

namespace lci::test {

// Sends `count` stamped messages to every rank, and expects as many from each.
int exchange(rank_job& me, const std::string& provider, std::uint32_t count);
// Rank 1 writes into memory of rank 0 and reads it back, in pieces that the network takes.
int remote_memory(rank_job& me, const std::string& provider);
// Each rank sends `count` times to each other one in each way that there is, with sizes from
// nothing to the most, writes with an immediate, and reads what it wrote.
int every_verb(rank_job& me, const std::string& provider, std::uint32_t count);

}  // namespace lci::test
