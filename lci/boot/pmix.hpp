// PMIx: Open MPI's mpirun, srun --mpi=pmix, PRRTE and others, through libpmix.so.2
// (LCI_PMIX_LIBRARY names another file), which is opened at run time. Threads: single; the library
// starts a thread of its own. Always true: values travel as bytes, unchanged.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lci/boot/board.hpp"

namespace lci::boot {

// Why it cannot be used here, or nothing if it can.
std::optional<std::string> pmix_unavailable();
// Throws backend_error.
std::unique_ptr<bootstrap> open_pmix(board_cache& cache);

}  // namespace lci::boot
