#include "lci/boot/launched.hpp"

#include "lci/base/env.hpp"

namespace lci::boot {

namespace {

struct mark {
  const char* launcher;
  const char* size;     // holds the number of processes
  const char* present;  // must be set too; null = nothing else
  const char* remedy;
};

constexpr const char* INSTALL_PMIX =
    "install libpmix2 or let LCI_PMIX_LIBRARY name libpmix.so.2, or set LCT_PMI_BACKEND=mpi";
constexpr const char* SRUN =
    "start with srun --mpi=pmix (with libpmix2 installed) or srun --mpi=pmi2, or let "
    "LCI_PMI_LIBRARY name Slurm's libpmi.so.0";

// Launchers come before the batch systems in which they run.
constexpr mark MARKS[] = {
    {"lcrun", "LCI_LCRUN_SIZE", nullptr, "put lcrun into LCT_PMI_BACKEND, or unset it"},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", nullptr, INSTALL_PMIX},
    {"MVAPICH's mpirun", "MV2_COMM_WORLD_SIZE", nullptr, "set LCT_PMI_BACKEND=mpi"},
    {"mpiexec", "PMI_SIZE", nullptr,
     "keep the socket in PMI_FD open (scripts between mpiexec and the program close it), or set "
     "LCT_PMI_BACKEND=mpi"},
    {"PALS", "PALS_SIZE", nullptr, "let LCI_PMI_LIBRARY name Cray's libpmi.so.0"},
    {"Flux", "FLUX_JOB_SIZE", nullptr, "start with flux run -o pmi=simple"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", SRUN},
    {"srun", "SLURM_NTASKS", "SLURM_STEP_ID", SRUN},
    {"torchrun", "WORLD_SIZE", "RANK",
     "set MASTER_ADDR and MASTER_PORT to the address of rank 0 and a free port there"},
};

}  // namespace

std::optional<launch> find_launch() {
  bool counted = false;
  for (const mark& m : MARKS) {
    const auto size = base::env::find_number(m.size);
    if (!size || (m.present != nullptr && !base::env::find(m.present))) continue;
    counted = true;
    if (*size > 1) return launch{m.launcher, m.size + ("=" + std::to_string(*size)), m.remedy};
    break;  // the innermost launcher decides
  }
  // PMIx gives the size to its library only.
  const auto rank = base::env::find_number("PMIX_RANK");
  if (rank && !counted)
    return launch{"a PMIx launcher", "PMIX_RANK=" + std::to_string(*rank), INSTALL_PMIX};
  return std::nullopt;
}

}  // namespace lci::boot
