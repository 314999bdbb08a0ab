// MPI as a bootstrap: where a program is an MPI program anyway, or nothing else is there. It is
// used as it is; MPI is initialized and finalized by lci only if nobody else does. Threads: single;
// asks MPI for MPI_THREAD_SERIALIZED. Always true: exchanges run on a communicator of lci's own.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lci/boot/board.hpp"

namespace lci::boot {

// Why it cannot be used here, or nothing if it can.
std::optional<std::string> mpi_unavailable();
// Throws backend_error.
std::unique_ptr<bootstrap> open_mpi(board_cache& cache);

}  // namespace lci::boot
