// Who can be measured: a rival without its program or launcher is named with the reason.
#include "tools/perf/rivals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace lci_perf {
namespace {

std::vector<contender> rivals() { return find_rivals("/nowhere", "/nowhere/lci_perf"); }

TEST(perf_rivals, find_rivals__all_are_named_and_the_absent_ones_say_why) {
  std::vector<std::string> names;
  for (const contender& one : rivals()) {
    names.push_back(one.name);
    // NCCL is a library of this machine, or is not.
    if (one.name != "nccl") {
      EXPECT_EQ(one.why_not.empty(), one.name == "raw") << one.name;
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"ucx", "openmpi", "mpich", "libfabric", "nccl", "raw"}));
  EXPECT_NE(rivals()[0].why_not.find("libucx-dev"), std::string::npos);
}

// Outside Debian the launcher of either family is mpirun, which says whose it is.
TEST(perf_rivals, find_rivals__an_mpirun_of_another_name_is_asked) {
  const std::string folder = testing::TempDir() + "/lci_perf_rivals." + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(folder + "/" + name, std::filesystem::perms::owner_all);
  };
  write("lci_perf_mpich", "exit 1");
  write("lci_perf_openmpi", "exit 1");
  write("mpirun", "echo HYDRA build details:");
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.c_str(), 1);
  const std::vector<contender> all = find_rivals(folder, "/nowhere/lci_perf");
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(all[2].why_not, "");
  EXPECT_EQ(all[2].launcher, std::vector<std::string>{folder + "/mpirun"});
  EXPECT_NE(all[1].why_not.find("no mpirun that says that it is of openmpi"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(perf_rivals, choose__in_the_order_that_was_asked_for) {
  const contender lci{"lci", {}, {}, {}, ""};
  EXPECT_EQ(choose(parse({"--against", "none"}), lci, rivals()).size(), 1u);
  EXPECT_EQ(choose(parse({}), lci, rivals()).size(), 7u);
  const std::vector<contender> two = choose(parse({"--against", "raw,mpich"}), lci, rivals());
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(two[0].name, "lci");
  EXPECT_EQ(two[1].name, "raw");
  EXPECT_EQ(two[2].name, "mpich");
  EXPECT_THROW(choose(parse({"--against", "raw,all"}), lci, rivals()), std::invalid_argument);
  EXPECT_THROW(choose(parse({"--against", "gasnet"}), lci, rivals()), std::invalid_argument);
}

TEST(perf_rivals, launcher_words_for__open_mpi_yields_only_where_seats_share_a_processor) {
  EXPECT_EQ(launcher_words_for("openmpi", {0, 1}).size(), 3u);
  EXPECT_TRUE(launcher_words_for("openmpi", {0, 1, 0, 1}).empty());
  EXPECT_TRUE(launcher_words_for("mpich", {0, 1}).empty());
}

TEST(perf_rivals, variables_for__a_network_is_used_between_processes_of_one_host) {
  EXPECT_TRUE(variables_for("").empty());
  EXPECT_EQ(variables_for("shm"), std::vector<std::string>{"LCI_ATTR_SHM_ENABLE=1"});
  EXPECT_EQ(variables_for("ofi:tcp"),
            (std::vector<std::string>{"LCI_ATTR_BACKEND=ofi", "LCI_ATTR_SHM_ENABLE=0",
                                      "LCI_ATTR_OFI_PROVIDER_NAME=tcp"}));
}

}  // namespace
}  // namespace lci_perf
