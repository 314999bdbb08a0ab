// What lci_info says of the GPUs: each with the ways of its memory and, for each way, whether it
// can be taken or why not. Callers: engine. Threads: any. Always true: makes no context, so a look
// costs a process nothing.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "lci/mem/memory_domain.hpp"

namespace lci::cuda {

// Empty when CUDA cannot be used; the domain's probe says why.
std::vector<mem::device_report> report_gpus(driver& d);

// The PCI address of the GPU of the calling thread's current context; empty: there is none. Loads
// and starts nothing.
std::string address_of_current(driver& d);
// That of a GPU by its number; empty: there is no such one. Loads and starts nothing.
std::string address_of(driver& d, int ordinal);

}  // namespace lci::cuda
