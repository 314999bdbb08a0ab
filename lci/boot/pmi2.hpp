// PMI-2 over the socket in PMI_FD: srun --mpi=pmi2, and MPICH's mpiexec, which answers to both
// versions. Threads: single. Always true: rank and size in the launcher's answer agree with its
// variables.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lci/boot/text_board.hpp"

namespace lci::boot {

// Why it cannot be used here, or nothing if it can.
std::optional<std::string> pmi2_unavailable();
// Throws backend_error; declined_error when the launcher speaks PMI-1 only.
std::unique_ptr<bootstrap> open_pmi2(board_cache& cache);

// The parts, for tests: over a socket whose other end speaks PMI-2.
std::unique_ptr<text_store> make_pmi2_store(
    int fd, int rank, int size, std::chrono::milliseconds limit = std::chrono::seconds(60));

}  // namespace lci::boot
