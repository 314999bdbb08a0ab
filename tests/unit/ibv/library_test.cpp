// Other libraries than the one of the other tests, and none: each in a process of its own, since a
// process loads it once.
#include "backends/ibv/library.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "backends/ibv/select.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ibv {
namespace {

std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// What the child below prints when the loader looks in that folder first.
std::string said_with(const std::string& folder) {
  test::scoped_env environment;
  environment.set("LD_LIBRARY_PATH", folder);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* const pipe = popen(
      (self + " --gtest_also_run_disabled_tests --gtest_filter=*says_what_it_finds 2>&1").c_str(),
      "r");
  std::string out;
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe) != nullptr)
    if (std::string_view(line).starts_with("said: ")) out += line + 6;
  if (pipe != nullptr) pclose(pipe);
  return out;
}

// For the tests below, not by itself.
TEST(library_child, DISABLED_says_what_it_finds) {
  std::string why_not;
  const verbs* const found = find_library(why_not);
  std::printf("said: %s\n", found == nullptr ? why_not.c_str() : "loaded");
  if (found == nullptr) return;
  std::string ignored;
  EXPECT_EQ(find_library(ignored), found);
  const chosen_port port = std::move(open_ports({}).front());
  std::printf("said: %s, %s%s%s\n", port.name.c_str(), port.why_gid.c_str(),
              found->reg_mr_iova2 == nullptr ? ", no reg_mr_iova2" : "",
              found->query_gid_table == nullptr ? ", no query_gid_table" : "");
}

TEST(library, new_one__has_all) {
  EXPECT_EQ(said_with(folder_of(LCI_FAKE_IBV)), "loaded\nfake_0:1, RoCE v2, an IPv4 address\n");
}

// Without the types of GIDs all of them pass for RoCE v2.
TEST(library, old_one__does_without_what_is_optional) {
  EXPECT_EQ(said_with(folder_of(LCI_FAKE_IBV_OLD)),
            "loaded\nfake_0:1, RoCE v2, an IPv4 address, no reg_mr_iova2, no query_gid_table\n");
}

TEST(library, without_a_call__is_too_old_and_says_which_is_missing) {
  EXPECT_EQ(said_with(folder_of(LCI_FAKE_IBV_BROKEN)),
            "libibverbs.so.1 has no ibv_resize_cq: it is too old\n");
}

TEST(library, that_is_none__is_named_with_the_package_that_has_it) {
  const std::string folder = testing::TempDir() + "lci_no_ibverbs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libibverbs.so.1") << "this is no library";
  const std::string said = said_with(folder);
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(said.starts_with("libibverbs cannot be loaded (")) << said;
  EXPECT_TRUE(said.ends_with("); it is in the package libibverbs1\n")) << said;
}

}  // namespace
}  // namespace lci::ibv
