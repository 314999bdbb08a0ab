#include "lci/boot/local_rank.hpp"

#include <charconv>

#include "lci/base/env.hpp"

namespace lci::boot {
namespace {

// Ours and torchrun's first, a batch system's behind those of launchers that run inside of it.
constexpr const char* VARIABLES[] = {"LOCAL_RANK",         "OMPI_COMM_WORLD_LOCAL_RANK",
                                     "MPI_LOCALRANKID",    "MV2_COMM_WORLD_LOCAL_RANK",
                                     "PALS_LOCAL_RANKID",  "PMI_LOCAL_RANK",
                                     "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"};

}  // namespace

int find_local_rank(int otherwise) noexcept {
  for (const char* const name : VARIABLES) {
    const auto text = base::env::find(name);
    int value = -1;
    if (text &&
        std::from_chars(text->data(), text->data() + text->size(), value).ptr ==
            text->data() + text->size() &&
        value >= 0)
      return value;
  }
  return otherwise;
}

}  // namespace lci::boot
