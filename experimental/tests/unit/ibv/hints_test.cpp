#include "experimental/ibv/gpu_tiers/hints.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lci::ibv {
namespace {

class hints_test : public testing::Test {
 protected:
  hints_test() { std::filesystem::create_directories(root_ + "/driver/nvidia"); }
  ~hints_test() override { std::filesystem::remove_all(root_); }
  void write_params(const char* line) {
    std::ofstream(root_ + "/driver/nvidia/params") << "ModifyDeviceFiles: 1\n" << line << "\n";
  }
  const std::string root_ = testing::TempDir() + "lci_hints." + std::to_string(::getpid());
};

TEST_F(hints_test, peer_mapping__only_the_option_itself_counts) {
  EXPECT_EQ(why_no_peer_mapping(root_), "there is no " + root_ + "/driver/nvidia/params");
  for (const char* line : {"RegistryDwords: \"\"", "RegistryDwords: \"PeerMappingOverride=0;\"",
                           "Other: \"PeerMappingOverride=1;\""}) {
    write_params(line);
    EXPECT_NE(why_no_peer_mapping(root_).find("PeerMappingOverride=1 is not in RegistryDwords"),
              std::string::npos)
        << line;
  }
  write_params("RegistryDwords: \"RmX=2;PeerMappingOverride=1;\"");
  EXPECT_EQ(why_no_peer_mapping(root_), "");
}

TEST_F(hints_test, peermem__each_of_its_names) {
  EXPECT_EQ(why_no_peermem(root_), "the module nvidia_peermem is not loaded");
  for (const char* name : {"kernel/mm/memory_peers/nv_mem", "kernel/mm/memory_peers/nv_mem_nc",
                           "kernel/mm/memory_peers/nvidia-peermem", "module/nvidia_peermem"}) {
    std::filesystem::create_directories(root_ + "/" + name);
    EXPECT_EQ(why_no_peermem(root_), "") << name;
    std::filesystem::remove_all(root_ + "/kernel");
    std::filesystem::remove_all(root_ + "/module");
  }
}

}  // namespace
}  // namespace lci::ibv
