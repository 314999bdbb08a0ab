#include "lci/gpu/barrier.hpp"

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;
using test::job_options;

static_assert(barrier_words(1) == 0 && barrier_words(2) == 1 && barrier_words(3) == 2 &&
              barrier_words(4) == 2 && barrier_words(5) == 3 && barrier_words(8) == 3 &&
              barrier_words(9) == 4);

// Ranks, each a thread, with words that are reached directly or by requests.
struct barrier_job {
  barrier_job(int ranks, bool is_mapped) : job(options(ranks)) {
    for (int i = 0; i < ranks; ++i) {
      std::memset(job.bytes(i), 0, 4096);
      words.push_back(job.at(i, 0, is_mapped));
    }
  }
  static job_options options(int ranks) {
    job_options o;
    o.ranks = ranks;
    return o;
  }
  status come(int rank, std::uint64_t round) {
    return barrier(job.endpoint(rank), words.data(), job.word(rank, 0), round);
  }

  gpu_job job;
  std::vector<place_t> words;
};

class barriers : public testing::TestWithParam<bool> {};

// Before each round every rank writes its number to all; behind it all of them are there, and
// nobody writes the next one before the round behind that.
TEST_P(barriers, everybody_sees_what_all_did_before) {
  constexpr std::uint64_t ROUNDS = test::IS_SANITIZED ? 20 : 100, NUMBERS = 1024;
  for (const int ranks : {1, 2, 3, 4, 5}) {
    barrier_job all(ranks, GetParam());
    all.job.start();
    std::vector<std::thread> threads;
    for (int me = 0; me < ranks; ++me) {
      threads.emplace_back([&, me] {
        const endpoint_t ep = all.job.endpoint(me);
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 1; i <= ROUNDS; ++i) {
          for (int to = 0; to < ranks; ++to) {
            const std::uint64_t mine = NUMBERS + 8 * static_cast<std::uint64_t>(me);
            wrong += put_value(ep, to, all.job.at(to, mine, GetParam()), i) != status::ok;
          }
          wrong += all.come(me, 2 * i - 1) != status::ok;
          for (int from = 0; from < ranks; ++from)
            wrong += *all.job.word(me, NUMBERS + 8 * static_cast<std::uint64_t>(from)) != i;
          wrong += all.come(me, 2 * i) != status::ok;
        }
        EXPECT_EQ(wrong, 0u) << me << " of " << ranks;
      });
    }
    for (std::thread& t : threads) t.join();
    all.job.stop();
    EXPECT_TRUE(all.job.is_whole());
  }
}

TEST_P(barriers, in_every_scope) {
  barrier_job all(2, GetParam());
  all.job.start();
  std::thread other([&] {
    for (std::uint64_t round = 1; round <= 2; ++round) EXPECT_EQ(all.come(1, round), status::ok);
  });
  const endpoint_t ep = all.job.endpoint(0);
  EXPECT_EQ(barrier<warp>(ep, all.words.data(), all.job.word(0, 0), 1), status::ok);
  EXPECT_EQ(barrier<block>(ep, all.words.data(), all.job.word(0, 0), 2), status::ok);
  other.join();
}

// Nobody else comes. The first step tells rank 1; the next one waits for what does not come.
TEST_P(barriers, ends_as_waits_do) {
  barrier_job all(3, GetParam());
  all.job.start();
  auto& record = all.job[0].record;
  record.waits.limit_ns = 1;
  EXPECT_EQ(all.come(0, 1), status::timed_out);
  EXPECT_EQ(quiet(all.job.endpoint(0)), status::ok);
  EXPECT_EQ(*all.job.word(1, 0), 1u);
  EXPECT_EQ(*all.job.word(2, 0), 0u);
  EXPECT_EQ(*all.job.word(2, 8), 0u);
  record.waits.limit_ns = 0;
  all.job[0].any_ended = 1;
  EXPECT_EQ(all.come(0, 2), status::peer_lost);
  EXPECT_EQ(quiet(all.job.endpoint(0)), status::ok);
  all.job[0].abort = 1;
  EXPECT_EQ(all.come(0, 3), status::aborted);
  record.generation = 8;
  EXPECT_EQ(all.come(0, 4), status::bad_endpoint);
  all.job.stop();
  EXPECT_TRUE(all.job.is_whole());
}

// What was started before has failed: nobody is told.
TEST_P(barriers, a_request_that_failed_ends_it) {
  barrier_job all(2, GetParam());
  all.job.start();
  place_t wrong = all.job.at(1, 64);
  wrong.key.key ^= 0x100000;
  ASSERT_EQ(put_value(all.job.endpoint(0), 1, wrong, 7), status::ok);
  EXPECT_EQ(all.come(0, 1), status::failed);
  EXPECT_EQ(*all.job.word(1, 0), 0u);
}

TEST_P(barriers, places_of_other_ranks_are_refused) {
  barrier_job all(2, GetParam());
  std::swap(all.words[0], all.words[1]);
  EXPECT_EQ(all.come(0, 1), status::bad_rank);
  EXPECT_EQ(barrier(endpoint_t{}, all.words.data(), nullptr, 1), status::bad_endpoint);
}

INSTANTIATE_TEST_SUITE_P(direct, barriers, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(requests, barriers, testing::Values(false));

}  // namespace
}  // namespace lci::gpu
