#include "lci/gpu/wait.hpp"

#include <gtest/gtest.h>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

class wait_test : public testing::Test {
 protected:
  test::gpu_job job;
  endpoint_t ep = job.endpoint(0);
  std::uint64_t word = 5;
};

TEST_F(wait_test, test__each_comparison_of_each_width) {
  const auto is = [&](auto* at, comparison how, auto value) {
    return gpu::test(ep, at, how, value) == status::ok;
  };
  EXPECT_TRUE(is(&word, comparison::equal, 5));
  EXPECT_FALSE(is(&word, comparison::equal, 6));
  EXPECT_TRUE(is(&word, comparison::not_equal, 6));
  EXPECT_TRUE(is(&word, comparison::greater, 4));
  EXPECT_FALSE(is(&word, comparison::greater, 5));
  EXPECT_TRUE(is(&word, comparison::greater_equal, 5));
  EXPECT_TRUE(is(&word, comparison::less, 6));
  EXPECT_FALSE(is(&word, comparison::less, 5));
  EXPECT_TRUE(is(&word, comparison::less_equal, 5));
  std::int32_t four = -1;
  EXPECT_TRUE(is(&four, comparison::less, 0));
  EXPECT_FALSE(is(&four, comparison::greater, 0));
  EXPECT_EQ(gpu::test(ep, &word, comparison::equal, 6), status::nothing);
  EXPECT_EQ(gpu::test(endpoint_t{}, &word, comparison::equal, 5), status::bad_endpoint);
}

TEST_F(wait_test, wait_until__what_holds_already) {
  job[0].any_ended = 1;
  job[0].abort = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5), status::ok);
  EXPECT_EQ(wait_until<warp>(ep, &word, comparison::equal, 5), status::ok);
  EXPECT_EQ(wait_until<block>(ep, &word, comparison::equal, 5, 1), status::ok);
}

TEST_F(wait_test, wait_until__ends) {
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5, 2), status::bad_rank);
  endpoint_t freed = ep;
  freed.generation = 8;
  EXPECT_EQ(wait_until(freed, &word, comparison::equal, 6), status::bad_endpoint);
  job[0].any_ended = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6), status::peer_lost);
  job[0].record.waits.limit_ns = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::timed_out);  // another ended
  job[0].record.waits.limit_ns = 0;
  job[0].ended[1] = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::peer_lost);
  job[0].abort = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::aborted);
}

// Each end, while the thread waits.
TEST_F(wait_test, wait_until__ends_while_it_waits) {
  std::uint32_t* const ends[] = {&job[0].any_ended, &job[0].abort};
  for (std::uint32_t* const end : ends) {
    status said = status::ok;
    std::thread waits([&] { said = wait_until(ep, &word, comparison::equal, 6); });
    wqe::word_at<std::uint32_t>(end).store(1, std::memory_order_relaxed);
    waits.join();
    EXPECT_EQ(said, end == &job[0].abort ? status::aborted : status::peer_lost);
    *end = 0;
  }
  status said = status::ok;
  std::thread waits([&] { said = wait_until(ep, &word, comparison::equal, 6); });
  wqe::word_at<std::uint64_t>(&job[0].record.generation).store(8, std::memory_order_relaxed);
  waits.join();
  EXPECT_EQ(said, status::bad_endpoint);
}

// The answer to a request that failed does not come.
TEST_F(wait_test, wait_until__ends_with_a_request_that_failed) {
  job.start();
  place_t wrong = job.at(1, 0);
  wrong.key.key ^= 0x100000;
  ASSERT_EQ(put_value(ep, 1, wrong, 7), status::ok);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 1), status::failed);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6), status::failed);
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 5, 1), status::ok);
  job[0].record.waits.limit_ns = 1;
  EXPECT_EQ(wait_until(ep, &word, comparison::equal, 6, 0), status::timed_out);  // not that queue
}

// As long as the word moves, the limit does not count: here it would pass between two changes
// only.
TEST_F(wait_test, wait_until__the_limit_is_counted_from_the_last_change) {
  patience wait(ep, nullptr, ANY_RANK);
  job[0].record.waits.limit_ns = 1;
  patience short_wait(ep, nullptr, 1);
  for (std::uint64_t i = 1; i < 10 * patience::LOOK_EVERY; ++i) {
    short_wait.saw(i);
    EXPECT_EQ(short_wait(), status::ok);
    EXPECT_EQ(wait(), status::ok);
  }
  status said = status::ok;
  while (said == status::ok) said = short_wait();
  EXPECT_EQ(said, status::timed_out);
}

class wait_several : public wait_test {
 protected:
  status any() { return wait_until_any(ep, words, 4, comparison::equal, 6, &which, skipped, rank); }
  status all() { return wait_until_all(ep, words, 4, comparison::equal, 6, skipped, rank); }
  void store(std::size_t i, std::uint64_t value) {
    wqe::word_at<std::uint64_t>(words + i).store(value, std::memory_order_release);
  }

  std::uint64_t words[4] = {5, 5, 5, 5};
  std::uint64_t which = 77;
  int skipped[4] = {0, 0, 0, 0};
  int rank = ANY_RANK;
};

TEST_F(wait_several, any__the_first_that_holds) {
  job[0].any_ended = 1;
  words[1] = words[3] = 6;
  EXPECT_EQ(any(), status::ok);
  EXPECT_EQ(which, 1u);
  skipped[1] = 1;
  EXPECT_EQ(any(), status::ok);
  EXPECT_EQ(which, 3u);
  const std::int32_t small[] = {0, -1};
  EXPECT_EQ(wait_until_any<warp>(ep, small, 2, comparison::less, 0, &which), status::ok);
  EXPECT_EQ(which, 1u);
  EXPECT_EQ(wait_until_any<block>(ep, small, 2, comparison::less_equal, 0, &which), status::ok);
  EXPECT_EQ(which, 0u);
}

TEST_F(wait_several, all__each_but_those_that_are_skipped) {
  job[0].any_ended = 1;
  words[0] = words[1] = words[3] = 6;
  EXPECT_EQ(all(), status::peer_lost);
  skipped[2] = 1;
  EXPECT_EQ(all(), status::ok);
  const std::int32_t small[] = {-3, -1};
  EXPECT_EQ(wait_until_all<warp>(ep, small, 2, comparison::less, 0), status::ok);
  EXPECT_EQ(wait_until_all<block>(ep, small, 2, comparison::less, 0), status::ok);
}

TEST_F(wait_several, no_word__ends_at_once) {
  EXPECT_EQ(wait_until_all(ep, words, 0, comparison::equal, 6), status::ok);
  EXPECT_EQ(wait_until_any(ep, words, 0, comparison::equal, 6, &which), status::nothing);
  for (int& one : skipped) one = 1;
  EXPECT_EQ(all(), status::ok);
  EXPECT_EQ(any(), status::nothing);
  EXPECT_EQ(which, 77u);
}

TEST_F(wait_several, both__every_end) {
  const auto expect = [&](status how) {
    EXPECT_EQ(any(), how);
    EXPECT_EQ(all(), how);
    EXPECT_EQ(which, 77u);
  };
  rank = 2;
  expect(status::bad_rank);
  rank = ANY_RANK;
  ep.generation = 8;
  expect(status::bad_endpoint);
  ep.generation = 7;
  job[0].any_ended = 1;
  expect(status::peer_lost);
  job[0].record.waits.limit_ns = 1;
  rank = 1;
  expect(status::timed_out);  // another ended
  job[0].record.waits.limit_ns = 0;
  job[0].ended[1] = 1;
  expect(status::peer_lost);
  job[0].abort = 1;
  expect(status::aborted);
}

// Words that others store, one after the other, the last one first; what was written before a word
// is there.
TEST_F(wait_several, both__while_the_words_come) {
  std::uint64_t data[4] = {};
  status said[5] = {};
  std::uint64_t order[4] = {}, there[4] = {};
  std::thread waits([&] {
    for (std::size_t n = 0; n < 4; ++n) {
      said[n] = any();
      if (said[n] != status::ok) return;
      order[n] = which;
      there[n] = data[which];
      skipped[which] = 1;
    }
    for (int& one : skipped) one = 0;
    said[4] = all();
  });
  for (std::size_t i = 4; i-- > 0;) {
    data[i] = 40 + i;
    store(i, 6);
  }
  waits.join();
  for (const status s : said) EXPECT_EQ(s, status::ok);
  std::uint64_t seen = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    seen |= std::uint64_t{1} << order[n];
    EXPECT_EQ(there[n], 40 + order[n]);
  }
  EXPECT_EQ(seen, 15u);
}

// Each word has held, if never all at the same time.
TEST_F(wait_several, all__a_word_that_has_held_may_change_again) {
  words[1] = words[2] = words[3] = 6;
  const detail::word_list<std::uint64_t> list{words, 4, nullptr, comparison::equal, 6};
  EXPECT_EQ(detail::see_from(list, 0).misses, 0u);
  words[0] = 6;
  words[2] = 7;
  EXPECT_EQ(detail::see_from(list, 0).misses, 2u);
  words[0] = 9;
  words[2] = 6;
  EXPECT_EQ(detail::see_from(list, 2).misses, 4u);
}

// The limit is counted from the last change of any of them.
TEST_F(wait_several, see_from__tells_each_change) {
  const detail::word_list<std::uint64_t> list{words, 4, skipped, comparison::equal, 6};
  std::uint64_t before = detail::see_from(list, 0).all;
  for (std::uint64_t& word_here : words) {
    ++word_here;
    const std::uint64_t now = detail::see_from(list, 0).all;
    EXPECT_NE(now, before);
    before = now;
  }
  skipped[3] = 1;
  before = detail::see_from(list, 0).all;
  ++words[3];
  EXPECT_EQ(detail::see_from(list, 0).all, before);
  EXPECT_EQ(detail::see_from(list, 0).looked_at, 3u);
}

// Also of one that has held before.
TEST_F(wait_several, see_from__tells_changes_before_the_first_that_misses) {
  const detail::word_list<std::uint64_t> list{words, 4, nullptr, comparison::equal, 6};
  words[0] = words[2] = 6;
  const detail::seen_words before = detail::see_from(list, 1);
  EXPECT_EQ(before.misses, 1u);
  EXPECT_EQ(before.holds, 2u);
  words[0] = 7;
  const detail::seen_words now = detail::see_from(list, 1);
  EXPECT_NE(now.all, before.all);
  EXPECT_EQ(now.misses, 1u);
  EXPECT_EQ(now.holds, 2u);
}

}  // namespace
}  // namespace lci::gpu
