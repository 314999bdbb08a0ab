// What the machine gives without a library: lines and copies in memory that two processes share.
// Called by: `lci_perf --raw`, which the program starts. Threads: one for each seat.
#pragma once

namespace lci_perf {

// Executes the orders on the board until the last one. Returns the exit status.
int run_raw_worker();

}  // namespace lci_perf
