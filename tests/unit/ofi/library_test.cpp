// Other libraries than the one of the other tests, and none: each in a process of its own, since a
// process loads it once.
#include "backends/ofi/library.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "tests/support/fake_ofi/fake_ofi.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ofi {
namespace {

// What the child below prints when the loader looks in the folder of that library first.
std::string said_with(const std::string& path) {
  test::scoped_env environment;
  environment.set("LD_LIBRARY_PATH", std::filesystem::path(path).parent_path().string());
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
TEST(ofi_library_child, DISABLED_says_what_it_finds) {
  std::string why_not;
  const entries* const found = find_library(why_not);
  std::printf("said: %s\n", found == nullptr ? why_not.c_str() : "loaded");
}

}  // namespace

TEST(ofi_library, usual_one__is_loaded) { EXPECT_EQ(said_with(LCI_FAKE_OFI_LIBRARY), "loaded\n"); }

TEST(ofi_library, old_one__is_refused_with_its_version) {
  EXPECT_EQ(said_with(LCI_FAKE_OFI_OLD), "libfabric 1.9 is too old: 1.10 is the least\n");
}

TEST(ofi_library, broken_one__is_refused_with_what_it_lacks) {
  EXPECT_EQ(said_with(LCI_FAKE_OFI_BROKEN), "libfabric.so.1 has no fi_strerror\n");
}

}  // namespace lci::ofi
