// What do the others see when a rank leaves, or disappears without a word?
#include <gtest/gtest.h>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// Both sides have heard of each other.
void make_contact(group& g, int a, int b) {
  for (const auto& way : {std::pair{a, b}, std::pair{b, a}}) {
    const int from = way.first, to = way.second;
    const std::size_t before = g.at(to).seen().arrived();
    const std::uint32_t word = 0;
    g.post([&] { return g.at(from).to().send_inline(to, 0, nullptr, 0, &word, sizeof word); });
    ASSERT_TRUE(g.until([&] { return g.at(to).seen().arrived() > before; }, "first contact"));
  }
}

// Rank 1 goes, in one of the two ways; rank 0 hears of it.
void end_rank_1(group& g, bool orderly) {
  g.close(1, orderly);
  ASSERT_TRUE(
      g.until([&] { return !g.at(0).seen().gone().empty(); }, "the news that rank 1 is gone"));
}

// Rank 1 posts as much as fits, then goes; rank 0 must see all of it, and then that rank 1 is gone.
void expect_last_words(group& g, bool orderly) {
  make_contact(g, 0, 1);
  std::uint32_t accepted = 0;
  for (; accepted < 20; ++accepted) {
    const errorcode_t answer =
        g.at(1).to().send_inline(0, accepted, nullptr, 0, &accepted, sizeof accepted);
    if (is_retry(answer)) break;
  }
  end_rank_1(g, orderly);
  for (int i = 0; i < 200; ++i) g.poll();
  const auto gone = g.at(0).seen().gone();
  ASSERT_EQ(gone.size(), 1u) << "said more than once";
  EXPECT_EQ(gone[0].rank, 1);
  EXPECT_EQ(gone[0].orderly, orderly);
  EXPECT_EQ(gone[0].messages_before, accepted + 1u) << "said before everything was delivered";
  EXPECT_EQ(g.at(0).seen().arrived(), accepted + 1u);
}

// Posts to a rank that is gone answer fatal, or fail later; posts to others go on.
void expect_only_that_rank_is_gone(group& g, bool orderly) {
  make_contact(g, 0, 1);
  make_contact(g, 0, 2);
  end_rank_1(g, orderly);
  std::deque<op_fate> fates;
  std::vector<errorcode_t> answers;
  auto bytes = pattern(300, 1);
  for (int i = 0; i < 10; ++i) {
    net::net_op op;
    op.rank = 1;
    op.buffer = bytes.data();
    op.size = bytes.size();
    op.context = &fates.emplace_back();
    answers.push_back(g.at(0).to().send(op));
    EXPECT_TRUE(answers.back() == errorcode_t::posted || answers.back() == errorcode_t::fatal)
        << name_of(answers.back());
    const std::uint32_t word = 7;
    EXPECT_EQ(name_of(g.at(0).to().send_inline(1, 7, nullptr, 0, &word, sizeof word)),
              std::string("fatal"));
  }
  const std::size_t before = g.at(2).seen().arrived();
  for (std::uint32_t i = 0; i < 500; ++i) {
    g.post([&] { return g.at(0).to().send_inline(2, i, nullptr, 0, &i, sizeof i); });
  }
  ASSERT_TRUE(
      g.until([&] { return g.at(2).seen().arrived() == before + 500; }, "messages to the living"));
  g.settle();
  for (std::size_t i = 0; i < answers.size(); ++i) expect_fate(answers[i], fates[i], true);
  EXPECT_EQ(g.at(0).seen().gone().size(), 1u);
}

}  // namespace

TEST_P(backend_contract, contact__is_reported_by_both_and_of_nobody_else) {
  group& g = open(3);
  EXPECT_EQ(g.at(0).peers.state(1), net::peer_state::unknown);
  make_contact(g, 0, 1);
  for (const auto& way : {std::pair{0, 1}, std::pair{1, 0}}) {
    const int from = way.first, to = way.second;
    EXPECT_TRUE(g.until([&] { return g.at(from).peers.state(to) == net::peer_state::ready; },
                        "the report that they are connected"));
  }
  for (const int rank : {0, 1}) EXPECT_EQ(g.at(rank).peers.state(2), net::peer_state::unknown);
  for (const int rank : {0, 1}) EXPECT_EQ(g.at(2).peers.state(rank), net::peer_state::unknown);
  EXPECT_EQ(g.at(0).peers.epoch(), 0u);
}

TEST_P(backend_contract, leave__last_messages_are_delivered_then_the_peer_is_gone) {
  expect_last_words(open(), true);
}

// Rank 0 has never polled: whether something waits for it is known all the same.
TEST_P(backend_contract, leave__what_may_come_of_a_stranger_is_known) {
  group& g = open();
  std::size_t accepted = 0;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const errorcode_t answer = g.at(1).to().send_inline(0, i, nullptr, 0, &i, sizeof i);
    if (!is_retry(answer)) ++accepted;
    g.at(1).poll();
  }
  g.close(1, true);
  EXPECT_TRUE(g.at(0).fabric->hear_callers());
  const bool may_come = g.at(0).devices[0]->may_bring(1);
  EXPECT_TRUE(may_come || accepted == 0) << accepted << " messages are on their way";
  // Else rank 0 need not look: libfabric would answer the call of one that is gone, and keep its
  // socket (docs/gotchas.md).
  if (!may_come) return;
  for (int i = 0; i < 200; ++i) g.poll();
  EXPECT_TRUE(g.until([&] { return g.at(0).seen().arrived() == accepted; }, "what was sent"));
}

TEST_P(backend_contract, death__last_messages_are_delivered_then_the_peer_is_gone) {
  expect_last_words(open(), false);
}

TEST_P(backend_contract, leave__posts_to_that_rank_end_and_others_go_on) {
  expect_only_that_rank_is_gone(open(3), true);
}

TEST_P(backend_contract, death__posts_to_that_rank_end_and_others_go_on) {
  expect_only_that_rank_is_gone(open(3), false);
}

TEST_P(backend_contract, gone__what_was_posted_before_is_signalled_once) {
  group& g = open();
  make_contact(g, 0, 1);
  std::vector<std::byte> memory(4096);
  const net::remote_key key = g.at(1).expose(memory.data(), memory.size());
  g.learn(0, 1, key);
  auto bytes = pattern(2000, 1);
  std::deque<op_fate> fates;
  std::vector<errorcode_t> answers;
  for (int i = 0; i < 8; ++i) {
    net::net_op op;
    op.rank = 1;
    op.buffer = bytes.data();
    op.size = bytes.size();
    op.remote = key;
    op.context = &fates.emplace_back();
    const errorcode_t answer = i % 2 == 0 ? g.at(0).to().send(op) : g.at(0).to().put(op);
    if (is_retry(answer))
      fates.pop_back();
    else
      answers.push_back(answer);
  }
  g.at(1).hide(key);
  end_rank_1(g, false);
  ASSERT_TRUE(g.until(
      [&] {
        for (std::size_t i = 0; i < answers.size(); ++i) {
          if (answers[i] == errorcode_t::posted && fates[i].signals() == 0) return false;
        }
        return true;
      },
      "every posted operation to end"));
  g.settle();
  for (std::size_t i = 0; i < answers.size(); ++i) expect_fate(answers[i], fates[i], true);
}

}  // namespace lci::test
