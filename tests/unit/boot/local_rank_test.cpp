#include "lci/boot/local_rank.hpp"

#include <gtest/gtest.h>

#include "tests/support/scoped_env.hpp"

namespace lci::boot {
namespace {

TEST(local_rank, as_the_innermost_launcher_says_else_the_rank) {
  test::scoped_env env;
  for (const char* name : {"LCI_LCRUN_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
                           "PMI_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"})
    env.unset(name);
  EXPECT_EQ(find_local_rank(7), 7);
  env.set("SLURM_LOCALID", "2");
  EXPECT_EQ(find_local_rank(7), 2);
  env.set("LOCAL_RANK", "3");
  EXPECT_EQ(find_local_rank(7), 3);
  for (const char* nonsense : {"-1", "x", "3x", ""}) {
    env.set("LOCAL_RANK", nonsense);
    EXPECT_EQ(find_local_rank(7), 2) << nonsense;
  }
}

TEST(local_size, as_the_launcher_says_that_tells_the_rank) {
  test::scoped_env env;
  for (const char* name :
       {"LCI_LCRUN_LOCAL_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
        "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID",
        "SLURM_NTASKS_PER_NODE"})
    env.unset(name);
  EXPECT_EQ(find_local_size(7), 7);
  env.set("SLURM_NTASKS_PER_NODE", "1");
  EXPECT_EQ(find_local_size(7), 7) << "a job around ours";
  env.set("SLURM_LOCALID", "0");
  EXPECT_EQ(find_local_size(4), 4) << "srun -n 4 inside of --ntasks-per-node=1";
  env.set("OMPI_COMM_WORLD_LOCAL_RANK", "1");
  EXPECT_EQ(find_local_size(7), 7) << "of the inner launcher nothing is known";
  env.set("OMPI_COMM_WORLD_LOCAL_SIZE", "4");
  EXPECT_EQ(find_local_size(7), 4);
  for (const char* nonsense : {"-1", "x", "1", ""}) {
    env.set("OMPI_COMM_WORLD_LOCAL_SIZE", nonsense);
    EXPECT_EQ(find_local_size(7), 7) << nonsense;
  }
}

// As in the script of a batch job, which is itself a process of its launcher.
TEST(local_rank, lcrun_inside_of_a_process_of_another_launcher_precedes) {
  test::scoped_env env;
  for (const char* name : {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"})
    env.set(name, "0");
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"}) env.set(name, "1");
  env.set("LCI_LCRUN_LOCAL_RANK", "2");
  env.set("LCI_LCRUN_LOCAL_SIZE", "4");
  EXPECT_EQ(find_local_rank(7), 2);
  EXPECT_EQ(find_local_size(7), 4);
}

}  // namespace
}  // namespace lci::boot
