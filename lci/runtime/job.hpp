// Joins the job and leaves it: global_initialize() and global_finalize(). Threads: one at a time.
// Always true: a process that is in the job has its rank, its size and its defaults in global(); a
// call that throws leaves global() as it was.
#pragma once

namespace lci::runtime {

void initialize();
void finalize();

}  // namespace lci::runtime
