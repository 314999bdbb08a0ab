// HIP behind the table of driver functions that backends/cuda calls: everything there (copies,
// streams, what is shared with peers) then works on AMD's GPUs as it is. Callers: domain. Threads:
// shared.
// Always true: types and signatures are those of the HIP headers of the build; the library is
// loaded at run time, and only that of the same major version, since HIP changes its types with it.
// What HIP has no function for stays null in the table, and what needs it does without: no VMM
// memory, no dma-buf, no batches, and no stream forms of posts, since hipStreamWaitValue64 takes
// signal memory only. Errors carry HIP's text behind the name of the CUDA call in whose place HIP
// was called.
#pragma once

#include "backends/cuda/driver.hpp"

namespace lci::hip {

extern const cuda::driver_kind HIP;

}  // namespace lci::hip
