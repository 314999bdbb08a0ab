// Who is told of a lost peer, and how often.
#include "lci/proto/losses.hpp"

#include <gtest/gtest.h>

#include "lci/proto/arrival.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::proto::losses;
using lci::test::in_thread;

constexpr bool DEAD = true, LEFT = false;

TEST(losses, taken_by_progress__once_each_and_in_order) {
  losses l;
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

TEST(losses, told_by_a_wait__progress_tells_another_thread) {
  losses l;
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
  losses l;
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
  losses l;
  l.add(4, DEAD);
  l.heard(4);
  for (int i = 0; i < 1023; ++i) in_thread([&] { l.heard(4); });
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  in_thread([&] { l.heard(4); });
  EXPECT_EQ(l.take(DEAD), 4);
}

TEST(losses, one_more__ends_the_silence) {
  losses l;
  l.add(4, DEAD);
  l.heard(4);
  EXPECT_EQ(l.take(DEAD), losses::NONE);
  EXPECT_TRUE(l.is_silent_here());
  l.add(5, DEAD);
  EXPECT_FALSE(l.is_silent_here());
  EXPECT_EQ(l.take(DEAD), 5);
}

TEST(losses, before_a_wait__do_not_end_it) {
  losses l;
  EXPECT_EQ(l.begin_wait(), 0u);
  l.add(4, DEAD);
  l.add(5, DEAD);
  EXPECT_EQ(l.begin_wait(), l.count());
}

// Two were lost at once, and an exception names one.
TEST(losses, that_a_wait_did_not_tell__are_owed_to_its_thread) {
  losses l;
  const std::uint32_t since = l.begin_wait();
  l.add(4, DEAD);
  l.add(5, DEAD);
  l.add(6, DEAD);
  EXPECT_EQ(l.tell(since), 4);
  l.owe(since);
  in_thread([&] { EXPECT_EQ(l.begin_wait(), 3u) << "another thread has not waited"; });
  EXPECT_EQ(l.begin_wait(), 1u);
  l.owe(1);
  EXPECT_EQ(l.take(DEAD), 5) << "meanwhile progress tells";
  EXPECT_EQ(l.begin_wait(), 2u);
  EXPECT_EQ(l.tell(2), 6);
  l.owe(2);
  EXPECT_EQ(l.begin_wait(), 3u);
}

TEST(losses, of_a_channel__are_counted_for_waits_and_left_to_progress) {
  lci::test::proto_world w({}, 3);
  lci::proto::channel& via = *w[0].channel;
  lci::proto::arrival_sink(via).on_peer_gone(1, false, "it died");
  EXPECT_NO_THROW(via.progress_in_wait());
  EXPECT_EQ(via.lost.count(), 1u);
  in_thread([&] { EXPECT_THROW(via.throw_loss(0), lci::peer_failure_error); });
  EXPECT_THROW(via.progress(), lci::peer_failure_error) << "this thread was not told";
  EXPECT_NO_THROW(via.progress());
  lci::proto::arrival_sink(via).on_peer_gone(2, false, "it died");
  EXPECT_EQ(via.lost.count(), 1u);
  via.look_for_gone();
  EXPECT_EQ(via.lost.count(), 2u);
  EXPECT_THROW(via.throw_loss(1), lci::peer_failure_error);
  via.keep(std::make_exception_ptr(std::domain_error("another problem")));
  EXPECT_THROW(via.progress(), std::domain_error) << "behind what this thread was told";
  EXPECT_NO_THROW(via.progress());
}

}  // namespace
