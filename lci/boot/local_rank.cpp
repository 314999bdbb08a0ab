#include "lci/boot/local_rank.hpp"

#include <limits>
#include <optional>

#include "lci/base/env.hpp"

namespace lci::boot {
namespace {

struct launcher {
  const char* rank;
  const char* size;  // null: the launcher does not set one
};

// lcrun's and torchrun's come first, a batch system's after those of launchers that run inside
// it. What Slurm says about tasks per node (SLURM_NTASKS_PER_NODE) describes the allocation; a step
// in it may have more.
constexpr launcher LAUNCHERS[] = {{"LCI_LCRUN_LOCAL_RANK", "LCI_LCRUN_LOCAL_SIZE"},
                                  {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                  {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                  {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
                                  {"PALS_LOCAL_RANKID", nullptr},
                                  {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
                                  {"FLUX_TASK_LOCAL_ID", nullptr},
                                  {"SLURM_LOCALID", nullptr}};

std::optional<int> told_by(const char* variable) noexcept {
  const auto value = variable != nullptr ? base::env::find_number(variable) : std::nullopt;
  const bool is_count = value && *value >= 0 && *value <= std::numeric_limits<int>::max();
  return is_count ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

int find_local_rank(int otherwise) noexcept {
  for (const launcher& one : LAUNCHERS)
    if (const auto rank = told_by(one.rank)) return *rank;
  return otherwise;
}

int find_local_size(int otherwise) noexcept {
  for (const launcher& one : LAUNCHERS) {
    const auto rank = told_by(one.rank);
    if (!rank) continue;
    // From the same launcher, or none: another launcher's may describe a job around this one.
    const auto size = told_by(one.size);
    return size && *size > *rank ? *size : otherwise;
  }
  return otherwise;
}

}  // namespace lci::boot
