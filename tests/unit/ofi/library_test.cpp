// Other libraries than the one of the other tests, and none: each in a process of its own, since a
// process loads it once.
#include "backends/ofi/library.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>

#include "tests/support/child_says.hpp"
#include "tests/support/fake_ofi/fake_ofi.hpp"

namespace lci::ofi {
namespace {

// For the tests below, not by itself.
TEST(ofi_library_child, DISABLED_says_what_it_finds) {
  std::string why_not;
  const entries* const found = find_library(why_not);
  std::printf("said: %s\n", found == nullptr ? why_not.c_str() : "loaded");
  struct sigaction now {};
  sigaction(SIGTERM, nullptr, &now);
  if (now.sa_handler != SIG_DFL) std::printf("said: SIGTERM is handled\n");
}

}  // namespace

TEST(ofi_library, usual_one__is_loaded) {
  EXPECT_EQ(test::said_beside(LCI_FAKE_OFI_LIBRARY), "loaded\n");
}

// PSM installs handlers when it is loaded.
TEST(ofi_library, one_that_installs_handlers__leaves_those_of_the_program) {
  test::scoped_env environment;
  environment.set("LCI_FAKE_OFI_HANDLES", "yes");
  EXPECT_EQ(test::said_beside(LCI_FAKE_OFI_LIBRARY), "loaded\n");
}

TEST(ofi_library, old_one__is_refused_with_its_version) {
  EXPECT_EQ(test::said_beside(LCI_FAKE_OFI_OLD), "libfabric 1.9 is too old: 1.10 is the least\n");
}

TEST(ofi_library, broken_one__is_refused_with_what_it_lacks) {
  EXPECT_EQ(test::said_beside(LCI_FAKE_OFI_BROKEN), "libfabric.so.1 has no fi_strerror\n");
}

}  // namespace lci::ofi
