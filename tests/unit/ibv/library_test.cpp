// Other libraries than the one of the other tests, and none: each in a process of its own, since a
// process loads it once.
#include "backends/ibv/library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "backends/ibv/select.hpp"
#include "tests/support/child_says.hpp"
#include "tests/support/fake_ibv/fake_ibv.hpp"

namespace lci::ibv {
namespace {

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
  EXPECT_EQ(test::said_beside(LCI_FAKE_IBV), "loaded\nfake_0:1, RoCE v2, an IPv4 address\n");
}

// Without the types of GIDs all of them pass for RoCE v2.
TEST(library, old_one__does_without_what_is_optional) {
  EXPECT_EQ(test::said_beside(LCI_FAKE_IBV_OLD),
            "loaded\nfake_0:1, RoCE v2, an IPv4 address, no reg_mr_iova2, no query_gid_table\n");
}

TEST(library, without_a_call__is_too_old_and_says_which_is_missing) {
  EXPECT_EQ(test::said_beside(LCI_FAKE_IBV_BROKEN),
            "libibverbs.so.1 has no ibv_resize_cq: it is too old\n");
}

TEST(library, that_is_none__is_named_with_the_package_that_has_it) {
  const std::string folder = testing::TempDir() + "lci_no_ibverbs." + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libibverbs.so.1") << "this is no library";
  const std::string said = test::said_beside(folder + "/");
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(said.starts_with("libibverbs cannot be loaded (")) << said;
  EXPECT_TRUE(said.ends_with("); it is in the package libibverbs1\n")) << said;
}

}  // namespace
}  // namespace lci::ibv
