// What every matching engine does at its limits: a receive without room, and no memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/match/engines.hpp"

using lci::ANY_SOURCE;
using lci::ANY_TAG;
using lci::tag_t;
using lci::test::BOTH;

namespace {

class engine_limits : public lci::test::engines {};
INSTANTIATE_TEST_SUITE_P(all, engine_limits, lci::test::ALL_ENGINES, lci::test::engine_name);

}  // namespace

// A message that is too large for a receive stays at its place, before younger ones of its key and,
// for wildcards, of every key.
TEST_P(engine_limits, insert_recv__without_room_leaves_the_message_where_it_was) {
  const auto sized = [&](tag_t tag, int value, std::size_t size) {
    return engine_->insert_send({1, tag, BOTH, size}, as_value(static_cast<unsigned>(value)));
  };
  const auto with_room = [&](int rank, tag_t tag, std::size_t room) {
    return engine_->insert_recv({rank, tag, BOTH, room}, as_value(99));
  };
  // The map engine works in two ways: without wildcards so far, then with.
  for (const bool after_wildcard : {false, true}) {
    if (after_wildcard) {
      EXPECT_EQ(with_room(7, ANY_TAG, 0), nullptr);
      EXPECT_TRUE(engine_->remove_recv({7, ANY_TAG, BOTH}, as_value(99)));
    }
    sized(9, 1, 10);
    sized(5, 2, 200);
    sized(5, 3, 10);
    sized(6, 4, 10);
    EXPECT_THROW(with_room(1, 5, 199), lci::truncation_error);
    EXPECT_THROW(with_room(1, 5, 0), lci::truncation_error);
    EXPECT_EQ(engine_->size(), 4u) << "a refused receive is not filed";
    EXPECT_THROW(with_room(ANY_SOURCE, 5, 199), lci::truncation_error);
    EXPECT_EQ(with_room(ANY_SOURCE, ANY_TAG, 199), as_value(1)) << "the oldest of all fits";
    EXPECT_THROW(with_room(ANY_SOURCE, ANY_TAG, 199), lci::truncation_error);
    EXPECT_EQ(with_room(1, 5, 200), as_value(2));
    EXPECT_EQ(with_room(1, 5, 10), as_value(3));
    EXPECT_EQ(with_room(1, 6, 10), as_value(4));
    EXPECT_EQ(engine_->size(), 0u);
  }
}

TEST_P(engine_limits, insert_recv__without_room_tells_both_sizes_rank_and_tag) {
  engine_->insert_send({3, 77, BOTH, 1234}, as_value(1));
  try {
    engine_->insert_recv({ANY_SOURCE, 77, BOTH, 56}, as_value(2));
    FAIL();
  } catch (const lci::truncation_error& e) {
    for (const char* part : {"1234 bytes", "rank 3", "tag 77", "56 bytes"})
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  drain();
}

// The other way round the caller has to know of both: the receive is used up by its error.
TEST_P(engine_limits, insert_send__meets_a_receive_without_room) {
  EXPECT_EQ(engine_->insert_recv({1, 5, BOTH, 10}, as_value(1)), nullptr);
  EXPECT_EQ(engine_->insert_send({1, 5, BOTH, 11}, as_value(2)), as_value(1));
  EXPECT_EQ(engine_->size(), 0u);
}

// Whoever allocates under a spinlock makes every other thread spin through malloc.
TEST_P(engine_limits, insert__needs_no_memory_under_a_lock) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  std::size_t filed = 0;
  lci::test::race_hook hook("object_pool.refill.before_allocation",
                            [&] { EXPECT_EQ(engine_->size(), filed); });
  for (; filed < 200; ++filed) send(1, filed, 1);
  EXPECT_GT(hook.hits(), 1);
  drain();
}

// Memory runs out at each allocation in turn: nothing is filed then, and nothing stays locked.
TEST_P(engine_limits, insert__out_of_memory_changes_nothing) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  bool fired = true;
  for (std::uint64_t nth = 1; fired; ++nth) {
    engine_ = lci::match::make_engine(GetParam());
    std::size_t filed = 0;
    {
      const lci::test::fail_nth_allocation fail(nth);
      for (tag_t t = 0; t < 200; ++t) {
        try {
          send(1, t, 1);
          ++filed;
        } catch (const std::bad_alloc&) {
        }
      }
      fired = fail.fired();
    }
    EXPECT_EQ(filed, fired ? 199u : 200u);
    EXPECT_EQ(engine_->size(), filed);
    drain();
  }
}
