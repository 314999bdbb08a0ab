// Who can be measured: a rival without its program or launcher is named with the reason.
#include "tools/perf/rivals.hpp"

#include <gtest/gtest.h>

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
  EXPECT_TRUE(variables_for("shm").empty());
  EXPECT_EQ(variables_for("ofi:tcp"),
            (std::vector<std::string>{"LCI_ATTR_BACKEND=ofi", "LCI_ATTR_SHM_ENABLE=0",
                                      "LCI_ATTR_OFI_PROVIDER_NAME=tcp"}));
}

}  // namespace
}  // namespace lci_perf
