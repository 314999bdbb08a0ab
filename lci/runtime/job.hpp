// Joins the job and leaves it: global_initialize() and global_finalize(); and what connections
// without a job (lci/transport) share with it. Threads: one at a time; the calls for connections:
// any.
// Always true: a process that is in the job has its rank, its size and its defaults in global(); a
// call that throws leaves global() as it was.
#pragma once

#include "lci/attr.hpp"

namespace lci::runtime {

void initialize();
void finalize();

// For a user of runtimes that belong to no job: from now on forks of this process are watched.
// Throws argument_error in a forked child. Each call is balanced by end_alone().
void start_alone();
void end_alone() noexcept;
// The defaults of the job; of the environment, read once, where there is none. Throws
// argument_error for nonsense in the environment.
global_attr_t defaults_now();

}  // namespace lci::runtime
