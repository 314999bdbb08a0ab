#include "backends/shm/select.hpp"

#include <gtest/gtest.h>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {

TEST(probe, here__usable) { EXPECT_EQ(PROVIDER.probe(), ""); }

TEST(provider, open__gives_a_fabric_of_that_name) {
  EXPECT_EQ(PROVIDER.name, "shm");
  EXPECT_EQ(PROVIDER.backend, attr_backend_t::shm);
  test::addresses all(1);
  test::test_book book(0, all);
  mem::arena arena(std::size_t{64} << 20);
  net::fabric_config config;
  config.book = &book;
  config.arena = &arena;
  const auto net = PROVIDER.open(config);
  EXPECT_EQ(net->name(), "shm");
  EXPECT_GE(net->caps().max_inject, 64u);
  EXPECT_GE(net->caps().max_send, 8128u);
  EXPECT_TRUE(net->caps().write_with_immediate);
  EXPECT_TRUE(net->caps().ordered);
  EXPECT_FALSE(net->caps().device_memory);
}

}  // namespace lci::shm
