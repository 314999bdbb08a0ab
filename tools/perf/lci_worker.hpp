// The processes of lci that lci_perf measures: `lci_perf --worker`, which the program starts under
// lcrun. Threads: the main thread, and one for each pair if the board says so.
#pragma once

namespace lci_perf {

// Executes the orders on the board until the last one. Returns the exit status.
int run_lci_worker();

}  // namespace lci_perf
