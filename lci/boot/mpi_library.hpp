// The MPI library of this process, as the bootstrap needs it. MPI has no common binary interface:
// the type of MPI_COMM_WORLD differs between families, so each has a shim, chosen by what is
// loaded.
//   Open MPI     handles are addresses of objects, ompi_mpi_comm_world and the like
//   MPICH's      handles are numbers; also Intel MPI, MVAPICH and Cray MPICH
// Callers: mpi; pmi_wire asks whether MPI is active. Threads: single.
// Always true: a library that the program itself has loaded is preferred to any other.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace lci::boot {

class mpi_library {
 public:
  virtual ~mpi_library() = default;
  // True between MPI_Init and MPI_Finalize, whichever code called them.
  virtual bool is_active() const = 0;
  virtual bool is_over() const = 0;  // after MPI_Finalize
  // Initializes MPI if that was not done yet, and makes lci's own communicator of all ranks.
  virtual void start() = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void gather_sizes(int mine, int* all) = 0;
  virtual void gather(const std::string& mine, char* all, const int* sizes, const int* at) = 0;
  // Finalizes MPI if start() initialized it.
  virtual void end() noexcept = 0;
};

// The library that would be used, or why there is none.
struct mpi_choice {
  std::unique_ptr<mpi_library> library;
  std::string why_not;
};
mpi_choice find_mpi();
// True if the program has loaded MPI, which is initialized and not yet finalized.
bool is_mpi_active();

}  // namespace lci::boot
