#include "lci/boot/local.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::boot {
namespace {

using test::throws_with;

TEST(local_bootstrap, rank_and_size__alone) {
  local_bootstrap boot;
  EXPECT_EQ(boot.rank(), 0);
  EXPECT_EQ(boot.size(), 1);
  EXPECT_STREQ(boot.name(), "local");
}

TEST(local_bootstrap, get__only_after_a_fence) {
  local_bootstrap boot;
  boot.put("k", "v1");
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.get(0, "k"); }, {"rank 0", "\"k\""}));
  boot.fence();
  EXPECT_EQ(boot.get(0, "k"), "v1");
  boot.put("k", "v2");
  EXPECT_EQ(boot.get(0, "k"), "v1");
  boot.fence();
  EXPECT_EQ(boot.get(0, "k"), "v2");
}

TEST(local_bootstrap, fence__keeps_what_was_put_before) {
  local_bootstrap boot;
  boot.put("a", "1");
  boot.fence();
  boot.put("b", "2");
  boot.fence();
  EXPECT_EQ(boot.get(0, "a"), "1");
  EXPECT_EQ(boot.get(0, "b"), "2");
}

TEST(local_bootstrap, put__limits_are_named) {
  local_bootstrap boot;
  boot.put(std::string(MAX_KEY, 'k'), std::string(MAX_VALUE, '\0'));
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.put("", "v"); }, {"0 bytes", "1 to 255"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.put(std::string(256, 'k'), "v"); },
                                          {"256 bytes", "255"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.put("key", std::string(65537, 'v')); },
                                          {"65537", "\"key\"", "65536"}));
}

TEST(local_bootstrap, get__rank_out_of_range) {
  local_bootstrap boot;
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.get(1, "k"); }, {"rank 1", "0 to 0"}));
}

}  // namespace
}  // namespace lci::boot
