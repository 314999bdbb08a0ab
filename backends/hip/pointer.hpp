// What a pointer is, asked and answered in the driver's words: HIP has the question of CUDA's
// driver, but no release answers all of it. Callers: driver.cpp. Threads: shared. Always true: a
// pointer that HIP does not know gets zeros, as in CUDA, and no error is left behind for the
// program to find. An allocation without an identity of its own is an error, since what is
// remembered of it would be taken for that of its successor.
#pragma once

#include "backends/cuda/abi.hpp"

namespace lci::hip {

cuda::abi::result get_attributes(unsigned count, cuda::abi::pointer_attribute* attributes,
                                 void** data, cuda::abi::device_ptr pointer);

}  // namespace lci::hip
