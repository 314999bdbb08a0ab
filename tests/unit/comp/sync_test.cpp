#include "lci/comp/sync.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "lci/comp/signal.hpp"
#include "lci/errors.hpp"
#include "tests/support/race_hook.hpp"

using lci::errorcode_t;
using lci::status_t;
using synchronizer = lci::comp::sync;  // unistd.h has a function of the short name

namespace {

lci::comp_attr_t with_threshold(int threshold) {
  lci::comp_attr_t attr;
  attr.sync_threshold = threshold;
  return attr;
}
status_t twice_numbered(std::uint64_t n) {
  status_t s = errorcode_t::done;
  s.tag = n;
  s.size = n;  // a torn status would have two different numbers
  return s;
}

}  // namespace

TEST(sync, constructor__threshold_below_one_is_refused_with_its_value) {
  for (int bad : {0, -1}) {
    try {
      synchronizer s(with_threshold(bad));
      FAIL();
    } catch (const lci::argument_error& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(bad)), std::string::npos) << e.what();
    }
  }
}

TEST(sync, test__false_before_the_signal_and_out_untouched) {
  synchronizer s(with_threshold(1));
  status_t out = twice_numbered(77);
  EXPECT_FALSE(s.test(&out));
  EXPECT_EQ(out.tag, 77u);
}

TEST(sync, test__true_once_after_the_signal) {
  synchronizer s(with_threshold(1));
  s.add(twice_numbered(5));
  status_t out;
  EXPECT_TRUE(s.test(&out));
  EXPECT_EQ(out.tag, 5u);
  EXPECT_FALSE(s.test(&out));
  s.signal(twice_numbered(6));
  EXPECT_TRUE(s.test(nullptr)) << "null out is allowed";
}

TEST(sync, test__needs_all_signals_of_the_threshold) {
  synchronizer s(with_threshold(3));
  status_t out[3] = {twice_numbered(90), twice_numbered(91), twice_numbered(92)};
  for (std::uint64_t i = 0; i < 2; ++i) {
    s.add(twice_numbered(i));
    EXPECT_FALSE(s.test(out));
    EXPECT_EQ(out[0].tag, 90u);
  }
  s.add(twice_numbered(2));
  EXPECT_TRUE(s.test(out));
  EXPECT_EQ((std::set<lci::tag_t>{out[0].tag, out[1].tag, out[2].tag}),
            (std::set<lci::tag_t>{0, 1, 2}));
}

TEST(sync, add__one_signal_too_many_throws_and_keeps_the_round) {
  for (int threshold : {1, 2}) {
    synchronizer s(with_threshold(threshold));
    for (int i = 0; i < threshold; ++i) s.add(twice_numbered(static_cast<unsigned>(i)));
    EXPECT_THROW(s.add(twice_numbered(9)), lci::argument_error);
    EXPECT_THROW(s.add(twice_numbered(9)), lci::argument_error);
    status_t out[2];
    EXPECT_TRUE(s.test(out));
    for (int i = 0; i < threshold; ++i) EXPECT_EQ(out[i].tag, static_cast<unsigned>(i));
    for (int i = 0; i < threshold; ++i) EXPECT_NO_THROW(s.add(twice_numbered(5)));
    EXPECT_TRUE(s.test(out));
  }
}

// Between a tester's look and its claim another tester takes the round, and the next round begins.
TEST(sync, test__round_taken_between_look_and_claim) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  for (unsigned begun : {0u, 1u, 2u}) {
    synchronizer s(with_threshold(2));
    s.add(twice_numbered(1));
    s.add(twice_numbered(2));
    status_t other[2], mine[2];
    lci::test::race_hook hook(
        "sync.take.between_look_and_claim",
        [&] {
          EXPECT_TRUE(s.test(other));
          for (unsigned i = 0; i < begun; ++i) s.add(twice_numbered(10 + i));
        },
        1);
    const bool got = s.test(mine);
    EXPECT_EQ(hook.hits(), 1);
    EXPECT_EQ(other[0].tag + other[1].tag, 3u);
    EXPECT_EQ(got, begun == 2) << "of one round, two testers got true";
    if (got) {
      EXPECT_EQ(mine[0].tag + mine[1].tag, 21u);
    }
  }
}

// Signals of round r carry numbers of round r; testers compete; every round must be seen once,
// whole and unmixed.
TEST(sync, stress__rounds_never_mix_and_one_tester_wins) {
  constexpr std::uint64_t ROUNDS = 3000;
  for (int threshold : {1, 3}) {
    synchronizer s(with_threshold(threshold));
    const auto n = static_cast<std::uint64_t>(threshold);
    std::atomic<std::uint64_t> taken{0};
    std::atomic<int> errors{0};
    std::vector<std::thread> threads;
    for (std::uint64_t p = 0; p < n; ++p)
      threads.emplace_back([&, p] {
        for (std::uint64_t r = 0; r < ROUNDS; ++r) {
          while (taken.load(std::memory_order_acquire) < r) std::this_thread::yield();
          s.add(twice_numbered(r * n + p));
        }
      });
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        std::vector<status_t> out(n);
        while (taken.load(std::memory_order_relaxed) < ROUNDS) {
          if (!s.test(out.data())) {
            std::this_thread::yield();
            continue;
          }
          const std::uint64_t round = taken.load(std::memory_order_relaxed);
          std::set<std::uint64_t> seen;
          for (const status_t& each : out) {
            if (each.tag / n != round || each.size != each.tag) ++errors;
            seen.insert(each.tag);
          }
          if (seen.size() != n) ++errors;
          taken.fetch_add(1, std::memory_order_release);
        }
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(errors, 0);
    EXPECT_EQ(taken, ROUNDS);
  }
}

TEST(sync, lost__until_it_is_given_to_another_operation) {
  synchronizer s(with_threshold(1));
  EXPECT_EQ(s.lost(), synchronizer::NOBODY);
  s.lose(0, 0);
  EXPECT_EQ(s.lost(), 0);
  EXPECT_FALSE(s.test(nullptr));
  EXPECT_EQ(s.lost(), 0) << "everybody who waits is to hear of it";
  lci::comp::renewal given(&s);
  EXPECT_EQ(s.lost(), synchronizer::NOBODY);
  s.lose(2, 0);
  EXPECT_EQ(s.lost(), synchronizer::NOBODY) << "the first one has ended late";
  s.lose(2, given.number());
  EXPECT_EQ(s.lost(), 2);
}

TEST(sync, lost__and_given_to_an_operation_that_was_refused) {
  synchronizer s(with_threshold(1));
  s.lose(3, 0);
  { const lci::comp::renewal refused(&s); }
  EXPECT_EQ(s.lost(), 3);
  {
    lci::comp::renewal posted(&s);
    posted.keep();
  }
  EXPECT_EQ(s.lost(), synchronizer::NOBODY);
  {
    const lci::comp::renewal refused(&s);
    s.lose(4, refused.number());
  }
  EXPECT_EQ(s.lost(), 4) << "it was posted, and lost, before the call came back";
}

// Its other signals may be those of operations that are under way, so one more is no new round.
TEST(sync, lost_of_several__until_the_round_is_full) {
  synchronizer s(with_threshold(2));
  s.lose(3, 0);
  lci::comp::renewal given(&s);
  given.keep();
  s.add(twice_numbered(1));
  EXPECT_FALSE(s.test(nullptr));
  EXPECT_EQ(s.lost(), 3);
  s.add(twice_numbered(2));
  EXPECT_TRUE(s.test(nullptr));
  EXPECT_EQ(s.lost(), synchronizer::NOBODY);
}
