#include "lci/boot/choose.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::boot {
namespace {

using test::throws_with;

std::unique_ptr<bootstrap> open_one() {
  board_cache cache;
  return open_bootstrap(cache);
}

class choose_test : public testing::Test {
 protected:
  choose_test() {
    for (const char* name : {"LCT_PMI_BACKEND",
                             "LCI_LCRUN_SOCKET",
                             "LCI_LCRUN_BACKEND",
                             "LCI_LCRUN_RANK",
                             "LCI_LCRUN_SIZE",
                             "RANK",
                             "WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "LCT_MASTER_ADDR",
                             "LCT_MASTER_PORT",
                             "LCI_MASTER_ADDR",
                             "LCI_MASTER_PORT",
                             "LCT_PMI_FILE_NRANKS",
                             "SLURM_STEP_ID",
                             "SLURM_NTASKS",
                             "SLURM_STEP_NUM_TASKS",
                             "OMPI_COMM_WORLD_SIZE",
                             "MV2_COMM_WORLD_SIZE",
                             "PALS_SIZE",
                             "FLUX_JOB_SIZE",
                             "PMIX_RANK",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMI_FD",
                             "PMI_CONTROL_PORT",
                             "PALS_RANKID"})
      vars_.unset(name);
    // As on a machine without any of them.
    for (const char* name : {"LCI_MPI_LIBRARY", "LCI_PMIX_LIBRARY", "LCI_PMI_LIBRARY"})
      vars_.set(name, "/no/such/library");
  }
  test::scoped_env vars_;
};

TEST_F(choose_test, open__nothing_set_is_rank_0_of_1) {
  const auto boot = open_one();
  EXPECT_STREQ(boot->name(), "local");
  EXPECT_EQ(boot->rank(), 0);
  EXPECT_EQ(boot->size(), 1);
}

TEST_F(choose_test, open__separators_and_case) {
  for (const char* list : {"pmix,local", "pmix local", "pmix;local", " , PMIX ; Local ,"}) {
    vars_.set("LCT_PMI_BACKEND", list);
    EXPECT_STREQ(open_one()->name(), "local") << list;
  }
}

TEST_F(choose_test, open__unknown_word_is_an_error_wherever_it_stands) {
  for (const char* list : {"pmx", "local,pmx", "pmx,local"}) {
    vars_.set("LCT_PMI_BACKEND", list);
    EXPECT_TRUE(throws_with<argument_error>([] { open_one(); },
                                            {"LCT_PMI_BACKEND", "\"pmx\"", "pmix", "local"}))
        << list;
  }
}

TEST_F(choose_test, open__nothing_fits_lists_each_with_its_reason) {
  vars_.set("LCT_PMI_BACKEND", "pmix,mpi,lcrun,tcp,file");
  EXPECT_TRUE(throws_with<backend_error>(
      [] { open_one(); },
      {"pmix: PMIX_RANK is not set", "mpi: no MPI library", "lcrun: LCI_LCRUN_SOCKET is not set",
       "tcp: RANK is not set", "file: LCT_PMI_FILE_NRANKS is not set"}));
}

TEST(choose, left_out__says_by_which_option) {
  EXPECT_EQ(why_left_out("pmi1;mpi", "mpi"),
            "left out of this build (LCT_PMI_BACKEND_ENABLE_MPI=OFF)");
  EXPECT_EQ(why_left_out("pmi1;mpi", "pmi1"),
            "left out of this build (LCT_PMI_BACKEND_ENABLE_PMI1=OFF)");
  for (const char* there : {"pmi2", "pmix", "local"})
    EXPECT_EQ(why_left_out("pmi1;mpi", there), std::nullopt) << there;
  EXPECT_EQ(why_left_out("", "mpi"), std::nullopt);
}

TEST_F(choose_test, open__tcp_alone_names_what_is_missing) {
  vars_.set("LCT_PMI_BACKEND", "tcp");
  vars_.set("RANK", "0");
  vars_.set("WORLD_SIZE", "2");
  vars_.set("LCT_MASTER_ADDR", "127.0.0.1");
  vars_.set("MASTER_PORT", "1234");
  EXPECT_TRUE(throws_with<backend_error>([] { open_one(); },
                                         {"LCT_MASTER_ADDR is set without LCT_MASTER_PORT"}));
}

TEST_F(choose_test, open__tcp_that_is_incomplete_is_passed_over) {
  vars_.set("LCT_PMI_BACKEND", "tcp,local");
  vars_.set("RANK", "0");
  vars_.set("WORLD_SIZE", "2");
  EXPECT_STREQ(open_one()->name(), "local");
}

// lcrun fills the variable in with words that every implementation knows.
TEST_F(choose_test, list__what_lcrun_has_put_there_comes_after_lcrun) {
  const auto words = [] {
    std::string out;
    for (const choice& one : list_bootstraps()) out += one.name + " ";
    return out;
  };
  vars_.set("LCT_PMI_BACKEND", "file,local");
  EXPECT_EQ(words(), "file local ");
  vars_.set("LCI_LCRUN_BACKEND", "file,local");
  EXPECT_EQ(words(), "lcrun file local ");
  vars_.set("LCT_PMI_BACKEND", "local");
  EXPECT_EQ(words(), "local ");
}

TEST_F(choose_test, open__launcher_that_is_gone_is_an_error_not_a_lonely_process) {
  vars_.set("LCI_LCRUN_SOCKET", "lci-lcrun-of-nobody");
  vars_.set("LCI_LCRUN_RANK", "0");
  vars_.set("LCI_LCRUN_SIZE", "2");
  EXPECT_TRUE(throws_with<backend_error>([] { open_one(); },
                                         {"@lci-lcrun-of-nobody", "Connection refused"}));
  vars_.set("LCI_LCRUN_RANK", "2");
  EXPECT_TRUE(
      throws_with<argument_error>([] { open_one(); }, {"LCI_LCRUN_RANK", "\"2\"", "from 0 to 1"}));
}

TEST_F(choose_test, open__one_of_several_is_never_alone) {
  const std::vector<std::vector<std::pair<const char*, const char*>>> launches = {
      {{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}},
      {{"MV2_COMM_WORLD_SIZE", "16"}},
      {{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}},
      {{"FLUX_JOB_SIZE", "3"}},
      {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_ID", "0"}},
      {{"WORLD_SIZE", "2"}, {"RANK", "0"}},
      {{"PMIX_RANK", "0"}}};
  vars_.unset("HOME");  // no file bootstrap
  for (const auto& launch : launches) {
    test::scoped_env set;
    for (const auto& [name, value] : launch) set.set(name, value);
    const std::string shown = std::string(launch[0].first) + "=" + launch[0].second;
    EXPECT_TRUE(throws_with<backend_error>(
        [] { open_one(); },
        {"as one of several", shown, "rank 0 of 1", "LCT_PMI_BACKEND=local", "tcp: "}))
        << shown;
    // Who says so may be alone.
    set.set("LCT_PMI_BACKEND", "pmix,local");
    EXPECT_STREQ(open_one()->name(), "local") << shown;
  }
}

TEST_F(choose_test, open__one_of_one_is_alone) {
  vars_.set("OMPI_COMM_WORLD_SIZE", "1");
  vars_.set("PMIX_RANK", "0");
  EXPECT_STREQ(open_one()->name(), "local");
  // A shell in an allocation is no job step.
  vars_.set("SLURM_NTASKS", "64");
  EXPECT_STREQ(open_one()->name(), "local");
  // The innermost launcher counts.
  vars_.set("SLURM_STEP_ID", "0");
  vars_.set("SLURM_STEP_NUM_TASKS", "2");
  vars_.unset("HOME");
  EXPECT_STREQ(open_one()->name(), "local");
}

TEST_F(choose_test, list__says_for_each_word_what_holds) {
  vars_.set("LCT_PMI_BACKEND", "pmi1,local");
  const auto list = list_bootstraps();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "pmi1");
  EXPECT_EQ(list[0].reason, "PMI_RANK is not set; this is no job step of Slurm or PALS");
  EXPECT_EQ(list[1].name, "local");
  EXPECT_EQ(list[1].reason, "");
}

TEST_F(choose_test, list__default_starts_with_the_launcher_and_ends_alone) {
  const auto list = list_bootstraps();
  ASSERT_GE(list.size(), 4u);
  EXPECT_EQ(list.front().name, "lcrun");
  EXPECT_EQ(list.back().name, "local");
}

}  // namespace
}  // namespace lci::boot
