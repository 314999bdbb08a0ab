// NCCL as lci_perf measures it: send and receive between GPUs.
// Called by: `lci_perf --nccl`, which the program starts. Threads: the main thread.
#pragma once

#include <string>

namespace lci_perf {

// Executes the orders on the board until the last one. Returns the exit status.
int run_nccl_worker();

// Why NCCL cannot be loaded here; empty: it can.
std::string why_no_nccl();

}  // namespace lci_perf
