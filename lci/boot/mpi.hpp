// MPI as a bootstrap: where a program is an MPI program anyway, or nothing else is there. MPI is
// used as found; lci initializes and finalizes it only if no other code does. Threads: single;
// requests MPI_THREAD_SERIALIZED. Always true: exchanges run on a communicator of lci's own.
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
