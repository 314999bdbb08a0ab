// What every matching engine says of the receives that wait in it, and how one is taken back.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/match/engines.hpp"

using lci::ANY_SOURCE;
using lci::test::BOTH;

namespace {

class waiting_receives : public lci::test::engines {};
INSTANTIATE_TEST_SUITE_P(all, waiting_receives, lci::test::ALL_ENGINES, lci::test::engine_name);

}  // namespace

TEST_P(waiting_receives, remove_recv__takes_back_exactly_that_receive) {
  recv(1, 10, 1);
  recv(1, 10, 2);
  recv(1, 10, 3);
  recv(ANY_SOURCE, 10, 4);
  EXPECT_TRUE(engine_->remove_recv({1, 10, BOTH}, as_value(2)));
  EXPECT_FALSE(engine_->remove_recv({1, 10, BOTH}, as_value(2)));
  EXPECT_TRUE(engine_->remove_recv({1, 10, BOTH}, as_value(3)));
  recv(1, 10, 5);
  EXPECT_TRUE(engine_->remove_recv({ANY_SOURCE, 10, BOTH}, as_value(4)));
  EXPECT_EQ(send(1, 10, 9), as_value(1));
  EXPECT_EQ(send(1, 10, 9), as_value(5));
  EXPECT_EQ(send(1, 10, 9), nullptr);
  EXPECT_FALSE(engine_->remove_recv({1, 10, BOTH}, as_value(9))) << "that is a message";
  drain();
}

TEST_P(waiting_receives, all_older__asks_for_the_receives_of_the_key_that_wait_before) {
  std::vector<const void*> asked;
  const auto is_not = [&](std::uintptr_t bad) {
    return [&asked, bad](const void* value) {
      asked.push_back(value);
      return value != as_value(bad);
    };
  };
  recv(1, 11, 1);
  recv(1, 10, 2);
  recv(1, 10, 3);
  recv(1, 10, 4);
  recv(1, 10, 5);
  EXPECT_TRUE(engine_->all_older({1, 10, BOTH}, as_value(2), is_not(0)));
  EXPECT_TRUE(asked.empty());
  EXPECT_TRUE(engine_->all_older({1, 10, BOTH}, as_value(4), is_not(5)));
  EXPECT_EQ(asked, (std::vector<const void*>{as_value(2), as_value(3)}));
  EXPECT_FALSE(engine_->all_older({1, 10, BOTH}, as_value(4), is_not(3)));
  EXPECT_FALSE(engine_->all_older({1, 10, BOTH}, as_value(9), is_not(0))) << "it is not here";
  EXPECT_EQ(send(1, 10, 20), as_value(2));
  EXPECT_EQ(send(1, 10, 20), as_value(3));
  EXPECT_TRUE(engine_->all_older({1, 10, BOTH}, as_value(4), is_not(3)));
  recv(ANY_SOURCE, 12, 6);
  recv(1, 10, 7);
  EXPECT_FALSE(engine_->all_older({1, 10, BOTH}, as_value(7), is_not(0)))
      << "a receive with a wildcard was posted before";
  EXPECT_EQ(send(1, 10, 20), as_value(4));
  EXPECT_EQ(send(1, 10, 20), as_value(5));
  EXPECT_EQ(send(1, 10, 20), as_value(7));
  send(1, 10, 8);
  EXPECT_FALSE(engine_->all_older({1, 10, BOTH}, as_value(8), is_not(0))) << "that is a message";
  drain();
}
