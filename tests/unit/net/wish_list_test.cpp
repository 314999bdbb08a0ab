#include "lci/net/wish_list.hpp"

#include <gtest/gtest.h>

namespace lci::net {
namespace {

TEST(wish_list, take__each_once_and_then_again) {
  wish_list list(4);
  EXPECT_TRUE(list.take().empty());
  EXPECT_TRUE(list.add(2));
  EXPECT_FALSE(list.add(2));
  EXPECT_TRUE(list.add(0));
  EXPECT_EQ(list.take(), (std::vector<int>{0, 2}));
  EXPECT_TRUE(list.take().empty());
  EXPECT_TRUE(list.add(2)) << "it was taken";
}

}  // namespace
}  // namespace lci::net
