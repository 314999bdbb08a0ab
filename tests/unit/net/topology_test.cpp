// The kernel's files and hwloc's description of invented machines.
#include "lci/net/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

namespace lci::net {
namespace {

namespace fs = std::filesystem;

class topology_test : public testing::Test {
 protected:
  topology_test() {
    std::string name = (fs::temp_directory_path() / "lci_sysfs_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "bus/pci/devices");
    for (int cpu = 0; cpu < 8; ++cpu)
      write("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id",
            std::to_string(cpu / 4) + "\n");
  }
  ~topology_test() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  // A function below those bridges.
  void add(const std::string& folder, const std::string& cpus) {
    write("devices/" + folder + "/local_cpulist", cpus + "\n");
    const fs::path name = fs::path(folder).filename();
    fs::create_symlink(root_ / "devices" / folder, root_ / "bus/pci/devices" / name);
  }
  fs::path root_;
};

TEST_F(topology_test, kernel__bridges_cores_and_sockets) {
  add("pci0000:3a/0000:3a:00.0/0000:3b:00.0", "4-7");
  const topology machine(root_.string(), "/no/such/file");
  const place got = machine.of_pci("0000:3B:00.0");
  EXPECT_EQ(got.bridges, (std::vector<std::string>{"pci0000:3a", "0000:3a:00.0"}));
  EXPECT_EQ(got.cpus, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(got.packages, std::vector<int>{1});
  const place none = machine.of_pci("0000:99:00.0");
  EXPECT_TRUE(none.bridges.empty() && none.cpus.empty() && none.packages.empty());
  EXPECT_EQ(machine.of_cpus({5, 0, 5}).packages, (std::vector<int>{0, 1}));
}

TEST_F(topology_test, process__the_cores_it_is_bound_to) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int one = 0;
  while (!CPU_ISSET(one, &before)) ++one;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(one, &only);
  ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  EXPECT_EQ(topology().of_process().cpus, std::vector<int>{one});
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST_F(topology_test, address_behind_a_link) {
  add("pci0000:3a/0000:3b:00.0", "0");
  EXPECT_EQ(pci_address_behind((root_ / "bus/pci/devices/0000:3b:00.0").string()), "0000:3b:00.0");
  EXPECT_EQ(pci_address_behind(root_.string()), "");
  EXPECT_EQ(pci_address_behind("/no/such/link"), "");
}

TEST_F(topology_test, cpu_list__numbers_and_ranges) {
  EXPECT_EQ(parse_cpu_list("0-2,8,5"), (std::vector<int>{0, 1, 2, 5, 8}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("3,x,9"), std::vector<int>{3});
  EXPECT_EQ(parse_cpu_list("3-"), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("7-3"), std::vector<int>{});
}

#if LCI_HAVE_HWLOC
// Two sockets; a switch with two functions at the first, a third function at the second.
TEST_F(topology_test, hwloc__says_the_same_of_a_machine_that_it_has_written_down) {
  const topology machine(root_.string(), LCI_SOURCE_DIR "/tests/unit/net/two_sockets.xml");
  const place a = machine.of_pci("0000:03:00.0");
  const place b = machine.of_pci("0000:04:00.0");
  const place c = machine.of_pci("0000:81:00.0");
  EXPECT_EQ(a.cpus, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(a.packages, std::vector<int>{0});
  EXPECT_EQ(c.cpus, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(nearness_of(a, b), nearness::same_switch);
  EXPECT_EQ(nearness_of(a, c), nearness::far);
  EXPECT_EQ(nearness_of(c, machine.of_cpus({6})), nearness::same_node);
  // What hwloc does not know is looked for in the kernel's files.
  add("pci0000:3a/0000:3b:00.0", "0");
  EXPECT_EQ(machine.of_pci("0000:3b:00.0").bridges, std::vector<std::string>{"pci0000:3a"});
}
#endif

}  // namespace
}  // namespace lci::net
