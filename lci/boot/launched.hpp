// Whether something has started this process as one of several, whatever bootstrap is used.
// Callers: choose. Threads: any, as for getenv(). Always true: says nothing about a process of
// which no launcher has said anything, as in a shell inside an allocation.
#pragma once

#include <optional>
#include <string>

namespace lci::boot {

struct launch {
  std::string launcher;  // "Open MPI's mpirun"
  std::string variable;  // "OMPI_COMM_WORLD_SIZE=4"
  std::string remedy;    // what its user does so that lci finds the others
};

// The launcher that started several, or nothing.
std::optional<launch> find_launch();

}  // namespace lci::boot
