#include "lci/transport/write_order.hpp"

#include <gtest/gtest.h>

namespace lci::transports {
namespace {

TEST(write_order, completes_in_any_order) {
  write_order order;
  EXPECT_EQ(order.last(), 0u);
  EXPECT_EQ(order.begin(), 1u);
  EXPECT_EQ(order.begin(), 2u);
  EXPECT_EQ(order.begin(), 3u);
  EXPECT_EQ(order.last(), 3u);
  order.complete(2);
  EXPECT_EQ(order.complete_through(), 0u);
  order.complete(1);
  EXPECT_EQ(order.complete_through(), 2u);
  EXPECT_EQ(order.begin(), 4u);
  order.complete(4);
  EXPECT_EQ(order.complete_through(), 2u);
  order.complete(3);
  EXPECT_EQ(order.complete_through(), 4u);
  EXPECT_EQ(order.last(), 4u);
}

}  // namespace
}  // namespace lci::transports
