// What every matching engine says of the receives that wait in it, and how one is taken back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
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

// Those for which one sender alone could have a message, however they were filed.
TEST_P(waiting_receives, remove_recvs__says_whose_messages_a_receive_takes) {
  recv(1, 10, 1);
  recv(1, 10, 2);
  recv(2, 10, 3);
  recv(1, 11, 4, lci::matching_policy_t::tag_only);
  recv(1, 12, 5, lci::matching_policy_t::rank_only);
  const auto sources = [&] {
    std::map<std::uintptr_t, int> out;
    engine_->remove_recvs([&](int source, void* value) {
      EXPECT_TRUE(out.emplace(reinterpret_cast<std::uintptr_t>(value), source).second);
      return false;
    });
    return out;
  };
  using list = std::map<std::uintptr_t, int>;
  const list exact = {{1, 1}, {2, 1}, {3, 2}, {4, ANY_SOURCE}, {5, 1}};
  EXPECT_EQ(sources(), exact);
  send(3, 10, 20);
  engine_->insert_raw(10, as_value(21), lci::matching_entry_type_t::recv);
  recv(ANY_SOURCE, 13, 6);
  recv(1, lci::ANY_TAG, 7);
  list all = exact;
  all.insert({{6, ANY_SOURCE}, {7, 1}});
  EXPECT_EQ(sources(), all) << "no messages, and no entries of the program";
  EXPECT_EQ(engine_->size(), 9u) << "nothing was taken";
  drain();
}

TEST_P(waiting_receives, remove_recvs__leaves_the_others_in_their_order) {
  for (const bool is_ordered : {false, true}) {
    for (int i = 1; i <= 6; ++i) recv(1, 10, i);
    if (is_ordered)
      for (int i = 11; i <= 14; ++i) recv(1, lci::ANY_TAG, i);
    recv(2, 10, 8);
    const auto remove = [&](auto&& is_it) {
      engine_->remove_recvs(
          [&](int, void* value) { return is_it(reinterpret_cast<std::uintptr_t>(value)); });
    };
    remove([](std::uintptr_t v) { return v == 1 || v == 4 || v == 6 || v == 11 || v == 13; });
    recv(1, 10, 7);
    for (const int left : {2, 3, 5})
      EXPECT_EQ(send(1, 10, 9), as_value(static_cast<std::uint64_t>(left)));
    if (is_ordered) {
      EXPECT_EQ(send(1, 10, 9), as_value(12));
      EXPECT_EQ(send(1, 10, 9), as_value(14));
    }
    EXPECT_EQ(send(1, 10, 9), as_value(7));
    EXPECT_EQ(send(2, 10, 9), as_value(8));
    EXPECT_EQ(engine_->size(), 0u);
    recv(1, 10, 1);
    recv(1, 10, 2);
    remove([](std::uintptr_t) { return true; });
    EXPECT_EQ(send(1, 10, 9), nullptr) << "the queue was emptied";
    EXPECT_EQ(recv(1, 10, 3), as_value(9));
  }
  drain();
}

TEST_P(waiting_receives,
       remove_sends__leaves_receives_entries_of_the_program_and_the_other_messages) {
  for (const bool is_ordered : {false, true}) {
    if (is_ordered) recv(7, lci::ANY_TAG, 30);
    for (int i = 1; i <= 6; ++i) send(1, 10, i);
    send(2, 10, 8);
    recv(3, 10, 20);
    engine_->insert_raw(10, as_value(21), lci::matching_entry_type_t::send);
    std::vector<std::uintptr_t> asked;
    engine_->remove_sends([&](void* value) {
      asked.push_back(reinterpret_cast<std::uintptr_t>(value));
      return asked.back() == 1 || asked.back() == 4 || asked.back() == 6;
    });
    EXPECT_THAT(asked, testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6, 8));
    send(1, 10, 7);
    EXPECT_EQ(recv(1, 10, 9), as_value(2));
    if (is_ordered) {
      EXPECT_EQ(recv(1, lci::ANY_TAG, 9), as_value(3)) << "a wildcard sees none that was taken";
    } else {
      EXPECT_EQ(recv(1, 10, 9), as_value(3));
    }
    EXPECT_EQ(recv(1, 10, 9), as_value(5));
    EXPECT_EQ(recv(1, 10, 9), as_value(7));
    EXPECT_EQ(recv(2, 10, 9), as_value(8));
    EXPECT_EQ(send(3, 10, 9), as_value(20));
    if (is_ordered) {
      EXPECT_EQ(send(7, 11, 9), as_value(30));
    }
    EXPECT_EQ(engine_->insert_raw(10, as_value(22), lci::matching_entry_type_t::recv),
              as_value(21));
    EXPECT_EQ(engine_->size(), 0u);
  }
}
