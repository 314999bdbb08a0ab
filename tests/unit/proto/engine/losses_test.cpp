// Who is told of a lost peer, and how often.
#include "lci/proto/engine/losses.hpp"

#include <gtest/gtest.h>

#include "lci/proto/host/arrival.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::proto::losses;
using lci::test::in_thread;

constexpr bool DEAD = true, LEFT = false;

struct with_table {
  lci::net::peer_table peers{8};
};
// Those of ranks that are reported first.
struct known_losses : with_table, losses {
  known_losses() : losses(peers) {}
  void add(int rank, bool has_failed, bool is_due = true) {
    peers.report(rank, has_failed ? lci::net::peer_event::fail : lci::net::peer_event::leave, "");
    losses::add(rank, is_due);
  }
};

TEST(losses, taken_by_progress__once_each_and_in_order) {
  known_losses l;
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  l.add(4, DEAD);
  l.add(7, LEFT);
  l.add(2, DEAD);
  EXPECT_TRUE(l.any());
  EXPECT_EQ(l.take(DEAD), 4);
  EXPECT_EQ(l.take(DEAD), 2);
  EXPECT_FALSE(l.is_silent_here());
  EXPECT_EQ(l.take(LEFT), 7);
  EXPECT_EQ(l.take(LEFT), losses::NONE);
  EXPECT_FALSE(l.any());
  EXPECT_TRUE(l.is_silent_here());
}

TEST(losses, of_a_rank_that_fails_after_it_left__are_those_of_a_failure) {
  known_losses l;
  l.add(4, LEFT);
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  l.peers.report(4, lci::net::peer_event::fail, "it died");
  EXPECT_EQ(l.take(LEFT), losses::NONE);
  EXPECT_EQ(l.take(DEAD), 4);
}

TEST(losses, told_by_a_wait__progress_tells_another_thread) {
  known_losses l;
  l.add(4, DEAD);
  EXPECT_EQ(l.tell(0), 4);
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  EXPECT_TRUE(l.is_silent_here());
  in_thread([&] {
    EXPECT_FALSE(l.is_silent_here());
    EXPECT_EQ(l.take(DEAD), 4);
  });
  EXPECT_FALSE(l.any());
}

// Threads take over the small numbers of those that have ended.
TEST(losses, told_to_a_thread_that_has_ended__are_news_to_others) {
  known_losses l;
  l.add(4, DEAD);
  std::uint32_t number = 0;
  in_thread([&] {
    number = lci::base::thread_id();
    l.heard(4);
    EXPECT_EQ(l.take(DEAD), losses::NONE);
  });
  in_thread([&] {
    ASSERT_EQ(lci::base::thread_id(), number);
    EXPECT_FALSE(l.is_silent_here());
    EXPECT_EQ(l.take(DEAD), 4);
  });
}

TEST(losses, told_to_very_many_threads__one_that_is_forgotten_hears_of_it_again) {
  known_losses l;
  l.add(4, DEAD);
  l.heard(4);
  for (int i = 0; i < 1023; ++i) in_thread([&] { l.heard(4); });
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  in_thread([&] { l.heard(4); });
  EXPECT_EQ(l.take(DEAD), 4);
}

TEST(losses, one_more__ends_the_silence) {
  known_losses l;
  l.add(4, DEAD);
  l.heard(4);
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  EXPECT_TRUE(l.is_silent_here());
  l.add(5, DEAD);
  EXPECT_FALSE(l.is_silent_here());
  EXPECT_EQ(l.take(DEAD), 5);
}

TEST(losses, before_a_wait__do_not_end_it) {
  known_losses l;
  EXPECT_EQ(l.begin_wait(), 0u);
  l.add(4, DEAD);
  l.add(5, DEAD);
  EXPECT_EQ(l.begin_wait(), l.count());
}

// Two were lost at once, and an exception names one.
TEST(losses, that_a_wait_did_not_tell__are_owed_to_its_thread) {
  known_losses l;
  const std::uint32_t since = l.begin_wait();
  l.add(4, DEAD);
  l.add(5, DEAD);
  l.add(6, DEAD);
  EXPECT_EQ(l.tell(since), 4);
  l.put_back(since);
  in_thread([&] { EXPECT_EQ(l.begin_wait(), 3u) << "another thread has not waited"; });
  EXPECT_EQ(l.begin_wait(), 1u);
  l.put_back(1);
  EXPECT_EQ(l.take(DEAD), 5) << "meanwhile progress tells";
  EXPECT_EQ(l.begin_wait(), 2u);
  EXPECT_EQ(l.tell(2), 6);
  l.put_back(2);
  EXPECT_EQ(l.begin_wait(), 3u);
}

TEST(losses, that_are_not_due__are_counted_for_waits_only_until_called_for) {
  known_losses l;
  l.add(4, DEAD, false);
  l.add(5, DEAD);
  EXPECT_EQ(l.count(), 2u);
  EXPECT_EQ(l.take(DEAD), 5);
  EXPECT_FALSE(l.any());
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  l.call_for(7);
  EXPECT_FALSE(l.any());
  l.call_for(4);
  l.call_for(4);
  EXPECT_FALSE(l.is_silent_here());
  EXPECT_EQ(l.take(DEAD), 4);
  EXPECT_FALSE(l.any());
}

}  // namespace
