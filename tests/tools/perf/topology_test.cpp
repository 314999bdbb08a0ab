// How two processors are to each other, on made-up trees like the kernel's.
#include "tools/perf/topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

namespace lci_perf {
namespace {

namespace fs = std::filesystem;

class perf_topology : public testing::Test {
 protected:
  perf_topology() {
    std::string name = (fs::temp_directory_path() / "lci_perf_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~perf_topology() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  // A processor with the lists that the kernel has: of its core, of its last-level cache.
  void cpu(int number, const std::string& core, const std::string& cache) const {
    const std::string folder = "cpu/cpu" + std::to_string(number) + "/";
    write(folder + "topology/core_cpus_list", core);
    write(folder + "cache/index0/level", "1");
    write(folder + "cache/index0/shared_cpu_list", core);
    write(folder + "cache/index3/level", "3");
    write(folder + "cache/index3/shared_cpu_list", cache);
  }
  void nodes(const std::vector<std::string>& lists) const {
    write("node/online", "0-" + std::to_string(lists.size() - 1));
    for (std::size_t i = 0; i < lists.size(); ++i)
      write("node/node" + std::to_string(i) + "/cpulist", lists[i]);
  }
  topology read(int cpus) const {
    std::vector<int> all(static_cast<std::size_t>(cpus));
    std::iota(all.begin(), all.end(), 0);
    return {root_.string(), all};
  }
  fs::path root_;
};

// Two nodes, each with two caches of two cores of two hyperthreads: the second ones are numbered
// last.
void two_sockets(const std::function<void(int, const std::string&, const std::string&)>& cpu) {
  for (int core = 0; core < 8; ++core) {
    const int first = core / 2 * 2;
    const std::string siblings = std::to_string(core) + "," + std::to_string(core + 8);
    const std::string cache = std::to_string(first) + "-" + std::to_string(first + 1) + "," +
                              std::to_string(first + 8) + "-" + std::to_string(first + 9);
    cpu(core, siblings, cache);
    cpu(core + 8, siblings, cache);
  }
}

TEST_F(perf_topology, between__all_four_kinds_of_a_large_machine) {
  two_sockets(
      [this](int n, const std::string& core, const std::string& cache) { cpu(n, core, cache); });
  nodes({"0-3,8-11", "4-7,12-15"});
  const topology all = read(16);
  EXPECT_EQ(all.between(0, 8), placement::hyperthreads);
  EXPECT_EQ(all.between(0, 1), placement::near);
  EXPECT_EQ(all.between(0, 9), placement::near);
  EXPECT_EQ(all.between(0, 2), placement::far);
  EXPECT_EQ(all.between(3, 4), placement::other_node);
  EXPECT_EQ(all.cores(), 8);
  EXPECT_EQ(all.kinds(), std::vector<placement>(std::begin(PLACEMENTS), std::end(PLACEMENTS)));
}

TEST_F(perf_topology, pairs__are_disjoint_and_take_cores_before_hyperthreads) {
  two_sockets(
      [this](int n, const std::string& core, const std::string& cache) { cpu(n, core, cache); });
  nodes({"0-3,8-11", "4-7,12-15"});
  const topology all = read(16);
  EXPECT_EQ(all.pairs(placement::near, 4), (std::vector<cpu_pair>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(all.pairs(placement::near, 99).size(), 8u);
  EXPECT_FALSE(all.share_cores(all.pairs(placement::near, 4)));
  EXPECT_TRUE(all.share_cores(all.pairs(placement::near, 8)));
  EXPECT_FALSE(all.share_cores(all.pairs(placement::hyperthreads, 8)));
  EXPECT_STREQ(all.description({0, 1}), "two cores that share a cache");
  EXPECT_EQ(all.pairs(placement::hyperthreads, 2), (std::vector<cpu_pair>{{0, 8}, {1, 9}}));
  for (const placement kind : PLACEMENTS) {
    std::vector<int> used;
    for (const auto& [one, other] : all.pairs(kind, 99)) used.insert(used.end(), {one, other});
    std::sort(used.begin(), used.end());
    EXPECT_EQ(std::adjacent_find(used.begin(), used.end()), used.end()) << name_of(kind);
  }
}

TEST_F(perf_topology, kinds__hyperthreads_of_one_core_are_all_there_is) {
  cpu(0, "0-1", "0-1");
  cpu(1, "0-1", "0-1");
  const topology all = read(2);
  EXPECT_EQ(all.kinds(), std::vector{placement::hyperthreads});
  EXPECT_EQ(all.cores(), 1);
}

TEST_F(perf_topology, read__an_older_kernel_has_the_siblings_under_another_name) {
  for (const int number : {0, 1})
    write("cpu/cpu" + std::to_string(number) + "/topology/thread_siblings_list", "0,1");
  EXPECT_EQ(read(2).between(0, 1), placement::hyperthreads);
}

TEST_F(perf_topology, read__without_any_tree_all_are_near) {
  const topology all = read(3);
  EXPECT_EQ(all.kinds(), std::vector{placement::near});
  EXPECT_STREQ(all.description({0, 1}), "two cores");
  EXPECT_EQ(all.cores(), 3);
  EXPECT_EQ(all.pairs(placement::near, 9).size(), 1u);
}

TEST(perf_cpu_list, parse__as_sysfs_writes_it) {
  EXPECT_EQ(parse_cpu_list("0-2,5"), (std::vector{0, 1, 2, 5}));
  EXPECT_EQ(parse_cpu_list("7"), std::vector{7});
  for (const char* text : {"", "x", "3-1", "1-", "-2", "0-99999999", "1;2"})
    EXPECT_TRUE(parse_cpu_list(text).empty()) << text;
}

TEST_F(perf_topology, describe__names_the_processor_and_a_hypervisor) {
  write("cpuinfo", "processor\t: 0\nmodel name\t: Imagined 9000\nflags\t\t: fpu hypervisor\n");
  write("loadavg", "2.50 1.00 0.50 3/200 4711");
  const machine found = describe(root_.string());
  EXPECT_DOUBLE_EQ(found.load, 2.5);
  EXPECT_EQ(found.model, "Imagined 9000");
  EXPECT_TRUE(found.is_virtual);
  EXPECT_EQ(describe(root_.string() + "/nowhere").model, "unknown processor");
}

}  // namespace
}  // namespace lci_perf
