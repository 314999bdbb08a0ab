// One of the two ranks of a job that starts, exchanges a message of each kind, and ends, while one
// of its allocations may fail. What a post or another call refuses with std::bad_alloc is called
// again: it must not have changed anything. Threads: the process's only one. Always true: it ends,
// well, by std::bad_alloc or by a typed error.
#pragma once

#include <cstdint>
#include <string>

#include "tests/failure/job_end.hpp"

namespace lci::test {

// What a rank leaves for its parent; in shared memory.
struct job_report {
  std::uint64_t allocations = 0;  // between start and end, the failed one included
  bool has_fired = false;
  long live = 0;              // what operator new gave out meanwhile and did not get back
  std::uint64_t packets = 0;  // that were not home before the end
};

// Both ranks call it, each in a process of its own. folder: where they meet. fail_at: the number of
// the allocation that fails, from 1; 0: none.
job_end run_job(int rank, const std::string& folder, std::uint64_t fail_at, job_report& report);

}  // namespace lci::test
