#include "lci/net/connected/pending_connects.hpp"

#include <gtest/gtest.h>

namespace lci::net::connected {
namespace {

TEST(pending_connects, take__each_once_and_then_again) {
  pending_connects list(4);
  EXPECT_TRUE(list.take().empty());
  EXPECT_TRUE(list.add(2));
  EXPECT_FALSE(list.add(2));
  EXPECT_TRUE(list.add(0));
  EXPECT_EQ(list.take(), (std::vector<int>{0, 2}));
  EXPECT_TRUE(list.take().empty());
  EXPECT_TRUE(list.add(2)) << "it was taken";
}

}  // namespace
}  // namespace lci::net::connected
