// One rank of a job that exchanges messages of every kind, checks each byte, and may lose a rank at
// any moment. Threads: the process's only one. Always true: it ends, well or by a typed error.
#pragma once

#include <string>

namespace lci::test {

enum class job_end : int {
  well = 0,
  gone = 10,       // peer_failure_error: a peer died, or left because another one did
  withdrawn = 12,  // argument_error: a peer that has heard before us ended its registration
  start = 11,      // backend_error: the job did not come together
  wrong_bytes = 20,
  wrong_count = 24,  // a message came twice
  untyped = 21,      // another exception
  leftovers = 22,    // descriptors, threads
  leak = 23,         // memory that nothing leads to, seen by the address sanitizer
};

// Every rank calls it, in a process of its own. folder: where the ranks meet. is_undisturbed: none
// is killed.
job_end run_job(int rank, int ranks, const std::string& folder, bool is_undisturbed);

}  // namespace lci::test
