// Whether a launcher has started this process as one of several, whatever bootstrap is used.
// Callers: choose. Threads: any, as for getenv(). Always true: finds nothing for a process about
// which no launcher has set anything, as in a shell inside an allocation.
#pragma once

#include <optional>
#include <string>

namespace lci::boot {

struct launch {
  std::string launcher;  // "Open MPI's mpirun"
  std::string variable;  // "OMPI_COMM_WORLD_SIZE=4"
  std::string remedy;    // what the user must do so that lci finds the other processes
};

// The launcher that started several processes, or nothing.
std::optional<launch> find_launch();

}  // namespace lci::boot
