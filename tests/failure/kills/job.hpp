// One rank of a job that exchanges messages of every kind, checks each byte, and may lose a rank at
// any moment. Threads: the process's only one. Always true: it ends, well or by a typed error.
#pragma once

#include <string>

#include "tests/failure/job_end.hpp"

namespace lci::test {

// Every rank calls it, in a process of its own. folder: where the ranks meet. is_undisturbed: none
// is killed.
job_end run_job(int rank, int ranks, const std::string& folder, bool is_undisturbed);

}  // namespace lci::test
