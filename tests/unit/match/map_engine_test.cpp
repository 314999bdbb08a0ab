// What only the map engine does: growing, and its two ways to work.
#include "lci/match/map_engine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "lci/base/platform.hpp"
#include "lci/base/rough_clock.hpp"
#include "lci/base/thread_id.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/match/engines.hpp"

using lci::ANY_SOURCE;
using lci::ANY_TAG;
using lci::tag_t;
using lci::match::exact_key;
using lci::match::map_engine;
using lci::match::match_key;

namespace {

using lci::test::BOTH;
void* as_value(std::uint64_t i) { return reinterpret_cast<void*>(i); }
void* send(map_engine& e, tag_t tag, std::uint64_t v) {
  return e.insert_send({1, tag, BOTH}, as_value(v));
}
void* recv(map_engine& e, tag_t tag, std::uint64_t v) {
  return e.insert_recv({1, tag, BOTH}, as_value(v));
}
void* any(map_engine& e, std::uint64_t v) {
  return e.insert_recv({ANY_SOURCE, ANY_TAG, BOTH}, as_value(v));
}

}  // namespace

TEST(map_engine, grow__many_keys_make_the_table_larger_and_lose_nothing) {
  map_engine e;
  constexpr tag_t KEYS = 50000;
  for (std::uint64_t round = 0; round < 2; ++round)
    for (tag_t t = 0; t < KEYS; ++t) ASSERT_EQ(send(e, t, 1 + 2 * t + round), nullptr);
  EXPECT_GT(e.bucket_count(), map_engine::FIRST_BUCKETS);
  EXPECT_LE(e.bucket_count(), map_engine::MAX_BUCKETS);
  EXPECT_EQ(e.size(), 2 * KEYS);
  for (std::uint64_t round = 0; round < 2; ++round)
    for (tag_t t = 0; t < KEYS; ++t) ASSERT_EQ(recv(e, t, 1), as_value(1 + 2 * t + round));
}

TEST(map_engine, grow__one_key_many_times_does_not_need_a_larger_table) {
  map_engine e;
  for (std::uint64_t i = 1; i <= 50000; ++i) send(e, 7, i);
  EXPECT_EQ(e.bucket_count(), map_engine::FIRST_BUCKETS);
  for (std::uint64_t i = 1; i <= 50000; ++i) ASSERT_EQ(recv(e, 7, 1), as_value(i));
}

// A wildcard after the table grew: arrival order over all buckets comes from the stamps.
TEST(map_engine, wildcard__finds_the_oldest_of_many_buckets) {
  map_engine e;
  for (tag_t t = 0; t < 20000; ++t) send(e, t * 977, t + 1);
  for (std::uint64_t i = 1; i <= 20000; ++i) ASSERT_EQ(any(e, 1), as_value(i));
}

// Filed by threads on cores of which each has a clock of its own. The entries are lent, so that the
// test can make them messages with the stamps of such cores.
TEST(map_engine, wildcard__messages_of_one_key_keep_their_order_though_their_stamps_fall) {
  map_engine e;
  std::vector<lci::match::entry> sent(4);
  const tag_t tags[] = {7, 7, 7, 8};
  const std::uint64_t stamps[] = {30, 20, 10, 15};
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].value = as_value(i + 1);
    sent[i].is_lent = true;
    ASSERT_TRUE(e.file_recv(exact_key::of(match_key{1, tags[i], BOTH}), sent[i]));
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i].type = lci::matching_entry_type_t::send;
    sent[i].rank = 1;
    sent[i].tag = tags[i];
    sent[i].stamp = stamps[i];
  }
  EXPECT_EQ(any(e, 9), as_value(4)) << "of another key, the oldest by its stamp";
  for (std::uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(any(e, 9), as_value(i));
  EXPECT_EQ(e.size(), 0u);
}

// Keys that differ in any bit must not all meet in a few buckets.
TEST(map_engine, grow__keys_of_every_pattern_spread) {
  for (const int shift : {0, 4, 16, 32, 48, 56}) {
    map_engine e;
    for (tag_t t = 0; t < 200; ++t) send(e, t << shift, t + 1);
    EXPECT_EQ(e.bucket_count(), map_engine::FIRST_BUCKETS) << "tags that differ from bit " << shift;
    e.drain_st([](void*, lci::matching_entry_type_t, bool) {});
  }
  map_engine e;
  for (int r = 0; r < 200; ++r) e.insert_send({r, 7, BOTH}, as_value(1));
  EXPECT_EQ(e.bucket_count(), map_engine::FIRST_BUCKETS);
  e.drain_st([](void*, lci::matching_entry_type_t, bool) {});
}

TEST(map_engine, is_ordered__from_the_first_wildcard_until_long_after_the_last) {
  map_engine e;
  recv(e, 1, 1);
  EXPECT_FALSE(e.is_ordered());
  e.insert_recv({99, ANY_TAG, BOTH}, as_value(2));
  EXPECT_TRUE(e.is_ordered());
  for (std::uint64_t i = 0; i < map_engine::QUIET_OPERATIONS; ++i) {
    recv(e, 5, 3);
    send(e, 5, 3);
  }
  EXPECT_TRUE(e.is_ordered()) << "a wildcard still waits";
  EXPECT_EQ(e.insert_send({99, 9, BOTH}, as_value(3)), as_value(2));
  send(e, 9, 4);
  for (std::uint64_t i = 0; i < map_engine::QUIET_OPERATIONS; ++i) send(e, 6, i + 1);
  EXPECT_FALSE(e.is_ordered());
  EXPECT_EQ(send(e, 1, 5), as_value(1)) << "the receive from before is still there";
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(recv(e, 6, 9), as_value(i + 1));
  EXPECT_EQ(any(e, 9), as_value(4)) << "ordered once more, the oldest message first";
  e.drain_st([](void*, lci::matching_entry_type_t, bool) {});
}

// The way of nearly all receives: filed at once, or left to insert_recv() untouched.
class file_recv : public testing::TestWithParam<bool> {
 protected:
  file_recv() {
    mine_.value = as_value(60);
    mine_.is_lent = true;
    mine_.size = 8;
    engine_.take_recv({1, 0, BOTH});  // the bias is towards this thread
  }
  bool file(tag_t tag) { return file(tag, mine_); }
  bool file(tag_t tag, lci::match::entry& it) {
    const exact_key key = exact_key::of(match_key{1, tag, BOTH});
    if (!is_alone()) return engine_.file_recv(key, it);
    filed_ = engine_.file_recv_alone(key, [&it] { return &it; });
    return filed_ == map_engine::filing::done;
  }
  void* take(tag_t tag) {
    const match_key key{1, tag, BOTH};
    if (!is_alone()) return engine_.take_recv(key);
    const auto found = engine_.take_recv_alone(exact_key::of(key));
    EXPECT_TRUE(found.is_sure);
    return found.value;
  }
  static bool is_alone() { return GetParam(); }
  void TearDown() override {
    engine_.drain_st([](void*, lci::matching_entry_type_t, bool) {});
  }
  map_engine engine_;
  lci::match::entry mine_;
  map_engine::filing filed_ = map_engine::filing::left;
};

INSTANTIATE_TEST_SUITE_P(alone, file_recv, testing::Bool());

TEST_P(file_recv, waits_for_its_message) {
  EXPECT_TRUE(file(7));
  EXPECT_EQ(engine_.size(), 1u);
  EXPECT_EQ(take(8), nullptr);
  EXPECT_EQ(take(7), as_value(60));
  EXPECT_EQ(engine_.size(), 0u);
}

// Its stamp is of a clock of the process, which another core may have put ahead of this one.
TEST_P(file_recv, is_older_than_a_wildcard_that_comes_later) {
  const std::uint64_t ahead = lci::base::cpu_ticks() + 1000 * lci::base::ticks_per_ms();
  lci::base::the_rough_clock.look(ahead, 1);
  ASSERT_TRUE(file(7));
  ASSERT_GE(mine_.stamp, ahead);
  EXPECT_EQ(any(engine_, 2), nullptr);
  EXPECT_EQ(send(engine_, 7, 3), as_value(60)) << "the wildcard was posted later";
  EXPECT_EQ(send(engine_, 7, 4), as_value(2));
}

TEST_P(file_recv, comes_after_those_of_its_key) {
  EXPECT_EQ(recv(engine_, 7, 1), nullptr);
  EXPECT_TRUE(file(7));
  EXPECT_EQ(send(engine_, 7, 2), as_value(1));
  EXPECT_EQ(send(engine_, 7, 3), as_value(60));
}

TEST_P(file_recv, a_message_that_waits_is_left_to_the_caller) {
  EXPECT_EQ(send(engine_, 7, 1), nullptr);
  EXPECT_FALSE(file(7));
  if (is_alone()) {
    EXPECT_EQ(filed_, map_engine::filing::message_waits);
  }
  EXPECT_EQ(engine_.size(), 1u);
  EXPECT_EQ(engine_.insert_recv({1, 7, BOTH}, mine_), as_value(1));
}

TEST_P(file_recv, not_while_a_wildcard_is_in_use) {
  EXPECT_EQ(any(engine_, 50), nullptr);
  EXPECT_FALSE(file(7));
  EXPECT_EQ(engine_.size(), 1u);
}

TEST_P(file_recv, many_keys_make_the_table_larger) {
  std::vector<lci::match::entry> all(20000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].value = as_value(i + 1);
    all[i].is_lent = true;
    // The way without a call leaves crowded buckets to the other one, which makes the table larger.
    ASSERT_TRUE(file(i, all[i]) || engine_.file_recv(exact_key::of(match_key{1, i, BOTH}), all[i]));
  }
  EXPECT_GT(engine_.bucket_count(), map_engine::FIRST_BUCKETS);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(take(i), as_value(i + 1));
}

TEST_P(file_recv, wildcard_posted_between_look_and_lock) {
  if (is_alone()) GTEST_SKIP() << "nobody else is between";
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  lci::test::race_hook hook(
      "map_engine.file_recv.before_lock", [&] { EXPECT_EQ(any(engine_, 50), nullptr); }, 1);
  EXPECT_FALSE(file(7)) << "a message would meet it before the wildcard";
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(engine_.size(), 1u);
}

class alone_left : public file_recv {};
INSTANTIATE_TEST_SUITE_P(alone, alone_left, testing::Values(true));

TEST_P(alone_left, what_the_pool_has_to_get_back) {
  EXPECT_EQ(recv(engine_, 7, 1), nullptr);
  EXPECT_FALSE(engine_.take_recv_alone(exact_key::of(match_key{1, 7, BOTH})).is_sure);
  EXPECT_EQ(engine_.size(), 1u);
  EXPECT_EQ(send(engine_, 7, 2), as_value(1));
}

TEST_P(alone_left, while_a_wildcard_is_in_use) {
  ASSERT_TRUE(file(7));
  EXPECT_EQ(any(engine_, 50), nullptr);
  EXPECT_FALSE(engine_.take_recv_alone(exact_key::of(match_key{1, 7, BOTH})).is_sure);
  EXPECT_EQ(engine_.size(), 2u);
}

TEST_P(alone_left, without_an_entry) {
  const auto none = [] { return static_cast<lci::match::entry*>(nullptr); };
  EXPECT_EQ(engine_.file_recv_alone(exact_key::of(match_key{1, 7, BOTH}), none),
            map_engine::filing::left);
  EXPECT_EQ(engine_.size(), 0u);
}

TEST_P(alone_left, to_a_thread_that_the_bias_is_not_towards) {
  ASSERT_TRUE(file(7));
  lci::test::in_thread([&] {
    lci::base::thread_id();
    EXPECT_FALSE(engine_.take_recv_alone(exact_key::of(match_key{1, 7, BOTH})).is_sure);
    lci::match::entry other;
    EXPECT_FALSE(file(8, other));
  });
  EXPECT_EQ(take(7), as_value(60)) << "and it stays with this one";
}

// Two threads post, each with a key of its own, and a third one sends: the bias moves, and ends.
TEST_P(alone_left, to_threads_that_share__each_receive_meets_one_message) {
  constexpr std::size_t N = 2000;
  std::vector<std::vector<lci::match::entry>> mine(2);
  const auto post = [&](std::size_t which) {
    const exact_key key = exact_key::of(match_key{1, which, BOTH});
    for (std::size_t i = 0; i < N; ++i) {
      lci::match::entry& it = mine[which][i];
      it.value = as_value(1 + which);
      it.is_lent = true;
      while (engine_.file_recv_alone(key, [&it] { return &it; }) != map_engine::filing::done &&
             !engine_.file_recv(key, it)) {
      }
    }
  };
  for (auto& all : mine) all = std::vector<lci::match::entry>(N);
  std::thread first(post, 0), second(post, 1);
  std::size_t met[2] = {};
  while (met[0] + met[1] < 2 * N) {
    for (tag_t tag = 0; tag < 2; ++tag) {
      const match_key key{1, tag, BOTH};
      const auto quick = engine_.take_recv_alone(exact_key::of(key));
      void* const value = quick.is_sure ? quick.value : engine_.take_recv(key);
      if (value == nullptr) continue;
      EXPECT_EQ(value, as_value(1 + tag));
      ++met[tag];
    }
  }
  first.join();
  second.join();
  EXPECT_EQ(met[0], N);
  EXPECT_EQ(met[1], N);
  EXPECT_EQ(engine_.size(), 0u);
}

// A message has found its table open; before it takes the bucket's lock, a wildcard is posted.
TEST(map_engine, insert_send__wildcard_posted_between_look_and_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  map_engine e;
  lci::test::race_hook hook(
      "map_engine.meet_open.before_lock", [&] { EXPECT_EQ(any(e, 50), nullptr); }, 1);
  EXPECT_EQ(send(e, 7, 1), as_value(50)) << "message and wildcard passed each other";
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(e.size(), 0u);
}

// A receive waits, and while its message is on the way to it a wildcard is posted: the slow way
// knows which of the two came first.
TEST(map_engine, take_recv__wildcard_posted_between_look_and_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  map_engine e;
  EXPECT_EQ(recv(e, 7, 60), nullptr);
  lci::test::race_hook hook(
      "map_engine.take_recv.before_lock", [&] { EXPECT_EQ(any(e, 50), nullptr); }, 1);
  EXPECT_EQ(e.take_recv({1, 7, BOTH}), nullptr);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(send(e, 7, 1), as_value(60));
  EXPECT_EQ(send(e, 7, 2), as_value(50));
}

// The same with a table that grows: the message must not go into the old one.
TEST(map_engine, insert_send__table_grown_between_look_and_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  map_engine e;
  lci::test::race_hook hook(
      "map_engine.meet_open.before_lock",
      [&] {
        for (tag_t t = 100; e.bucket_count() == map_engine::FIRST_BUCKETS; ++t) send(e, t, t);
      },
      1);
  EXPECT_EQ(send(e, 7, 1), nullptr);
  EXPECT_EQ(hook.hits(), 1);
  EXPECT_EQ(recv(e, 7, 2), as_value(1)) << "the message is in a table that nobody looks at";
  e.drain_st([](void*, lci::matching_entry_type_t, bool) {});
}
