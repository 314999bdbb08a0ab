// PMI-1: MPICH's mpiexec (hydra) and similar launchers, over the socket in PMI_FD; or the library
// libpmi.so.0 where the batch system has a protocol of its own (srun without --mpi, Cray).
// Threads: single. Always true: rank and size are checked against each other before use.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lci/boot/text_board.hpp"

namespace lci::boot {

// Why it cannot be used here, or nothing if it can.
std::optional<std::string> pmi1_unavailable();
// Throws backend_error; declined_error when the launcher speaks another version only.
std::unique_ptr<bootstrap> open_pmi1(board_cache& cache);

// The parts, for tests: over a socket whose other end speaks PMI-1.
std::unique_ptr<text_store> make_pmi1_store(
    int fd, int rank, int size, std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace lci::boot
