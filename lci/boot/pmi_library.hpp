// PMI-1 through a library, where a batch system has its own protocol behind it: srun without --mpi
// (Slurm's libpmi.so.0), Cray's PALS. LCI_PMI_LIBRARY names another file. Threads: single. Always
// true: it is used only inside a job step, where it finds its launcher.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lci/boot/text_board.hpp"

namespace lci::boot {

// Why it cannot be used here, or nothing if it can.
std::optional<std::string> pmi_library_unavailable();
// Throws backend_error.
std::unique_ptr<text_store> make_pmi_library_store();

}  // namespace lci::boot
