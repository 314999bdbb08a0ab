#include "lci/gpu/atomics.hpp"

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

class atomics : public testing::TestWithParam<bool> {
 protected:
  atomics() {
    job.start();
    *job.word(1, 0) = 0;
  }
  ~atomics() override {
    job.stop();
    EXPECT_TRUE(job.is_whole());
  }
  place_t word(std::uint64_t offset = 0) { return job.at(1, offset, GetParam()); }
  std::uint64_t now() {
    EXPECT_EQ(quiet(ep), status::ok);
    return wqe::word_at<std::uint64_t>(job.word(1, 0)).load(std::memory_order_acquire);
  }

  gpu_job job;
  endpoint_t ep = job.endpoint(0);
};

TEST_P(atomics, eight_bytes__old_value_returned) {
  std::uint64_t old = 1;
  *job.word(1, 0) = 0xfffffffffull;
  ASSERT_EQ(fetch_add(ep, 1, word(), std::uint64_t{2}, &old), status::ok);
  EXPECT_EQ(old, 0xfffffffffull);
  ASSERT_EQ(compare_swap(ep, 1, word(), std::uint64_t{5}, std::uint64_t{6}, &old), status::ok);
  EXPECT_EQ(old, 0x1000000001ull);
  ASSERT_EQ(compare_swap(ep, 1, word(), old, std::uint64_t{6}, &old), status::ok);
  EXPECT_EQ(now(), 6u);
  ASSERT_EQ(gpu::swap(ep, 1, word(), ~std::uint64_t{0}, &old), status::ok);
  EXPECT_EQ(old, 6u);
  ASSERT_EQ(add(ep, 1, word(), std::uint64_t{3}), status::ok);
  EXPECT_EQ(now(), 2u);
  std::int64_t was = 0;
  ASSERT_EQ(fetch_add(ep, 1, word(), std::int64_t{-5}, &was), status::ok);
  EXPECT_EQ(was, 2);
  EXPECT_EQ(static_cast<std::int64_t>(now()), -3);
}

// The four bytes beside the word stay.
TEST_P(atomics, four_bytes__nothing_is_carried) {
  *job.word(1, 0) = 0x77000000ffffffffull;
  std::uint32_t old = 0;
  ASSERT_EQ(fetch_add(ep, 1, word(), 2u, &old), status::ok);
  EXPECT_EQ(old, 0xffffffffu);
  EXPECT_EQ(now(), 0x7700000000000001ull);
  ASSERT_EQ(compare_swap(ep, 1, word(), 1u, 0x80000000u, &old), status::ok);
  EXPECT_EQ(old, 1u);
  ASSERT_EQ(gpu::swap(ep, 1, word(), 3u, &old), status::ok);
  EXPECT_EQ(old, 0x80000000u);
  ASSERT_EQ(gpu::swap(ep, 1, word(4), -1, reinterpret_cast<int*>(&old)), status::ok);
  EXPECT_EQ(old, 0x77000000u);
  EXPECT_EQ(now(), 0xffffffff00000003ull);
}

TEST_P(atomics, set_and_fetch) {
  *job.word(1, 0) = 7;
  ASSERT_EQ(set(ep, 1, word(), std::uint64_t{0x0123456789abcdef}), status::ok);
  std::uint64_t old = 0;
  ASSERT_EQ(fetch(ep, 1, word(), &old), status::ok);
  EXPECT_EQ(old, 0x0123456789abcdefull);
  std::int32_t half = 0;
  ASSERT_EQ(set(ep, 1, word(4), -2), status::ok);
  ASSERT_EQ(fetch(ep, 1, word(4), &half), status::ok);
  EXPECT_EQ(half, -2);
  EXPECT_EQ(now(), 0xfffffffe89abcdefull);
}

// Numbers that no order of bytes or words makes alike.
TEST_P(atomics, bits__eight_bytes) {
  constexpr std::uint64_t BEFORE = 0x0123456789abcdef, VALUE = 0xf0e1d2c3a5968778;
  std::uint64_t old = 0;
  *job.word(1, 0) = BEFORE;
  ASSERT_EQ(fetch_and(ep, 1, word(), VALUE, &old), status::ok);
  EXPECT_EQ(old, BEFORE);
  EXPECT_EQ(now(), BEFORE & VALUE);
  *job.word(1, 0) = BEFORE;
  ASSERT_EQ(fetch_or(ep, 1, word(), VALUE, &old), status::ok);
  EXPECT_EQ(old, BEFORE);
  EXPECT_EQ(now(), BEFORE | VALUE);
  ASSERT_EQ(fetch_xor(ep, 1, word(), VALUE, &old), status::ok);
  EXPECT_EQ(old, BEFORE | VALUE);
  EXPECT_EQ(now(), (BEFORE | VALUE) ^ VALUE);
  *job.word(1, 0) = BEFORE;
  ASSERT_EQ(and_(ep, 1, word(), ~VALUE), status::ok);
  EXPECT_EQ(now(), BEFORE & ~VALUE);
  ASSERT_EQ(or_(ep, 1, word(), VALUE), status::ok);
  EXPECT_EQ(now(), BEFORE | VALUE);
  ASSERT_EQ(xor_(ep, 1, word(), ~std::uint64_t{0}), status::ok);
  EXPECT_EQ(now(), ~(BEFORE | VALUE));
}

// The four bytes beside the word stay.
TEST_P(atomics, bits__four_bytes) {
  constexpr std::uint32_t BEFORE = 0x89abcdef, VALUE = 0xa5968778;
  for (const std::uint64_t offset : {0u, 4u}) {
    constexpr std::uint64_t BESIDE = 0x7e6d5c4b;
    const auto beside = [&](std::uint32_t v) {
      return offset == 0 ? BESIDE << 32 | v : std::uint64_t{v} << 32 | BESIDE;
    };
    std::uint32_t old = 0;
    *job.word(1, 0) = beside(BEFORE);
    ASSERT_EQ(fetch_and(ep, 1, word(offset), VALUE, &old), status::ok);
    EXPECT_EQ(old, BEFORE);
    EXPECT_EQ(now(), beside(BEFORE & VALUE));
    *job.word(1, 0) = beside(BEFORE);
    ASSERT_EQ(fetch_or(ep, 1, word(offset), VALUE, &old), status::ok);
    EXPECT_EQ(old, BEFORE);
    EXPECT_EQ(now(), beside(BEFORE | VALUE));
    ASSERT_EQ(fetch_xor(ep, 1, word(offset), VALUE, &old), status::ok);
    EXPECT_EQ(old, BEFORE | VALUE);
    EXPECT_EQ(now(), beside((BEFORE | VALUE) ^ VALUE));
    ASSERT_EQ(xor_(ep, 1, word(offset), -1), status::ok);
    ASSERT_EQ(or_(ep, 1, word(offset), 1), status::ok);
    ASSERT_EQ(and_(ep, 1, word(offset), -2), status::ok);
    EXPECT_EQ(now(), beside(~((BEFORE | VALUE) ^ VALUE) & ~1u));
  }
}

TEST_P(atomics, bits__old_value_into_registered_memory) {
  *job.word(1, 0) = 0xff;
  for (const std::uint64_t offset : {64, 72, 80}) *job.word(0, offset) = 0;
  ASSERT_EQ(fetch_and(ep, 1, word(), std::uint64_t{0x3c}, job.here(0, 64)), status::ok);
  ASSERT_EQ(fetch_or(ep, 1, word(), std::uint64_t{0x01}, job.here(0, 72)), status::ok);
  ASSERT_EQ(fetch_xor(ep, 1, word(), 0x0fu, job.here(0, 80)), status::ok);
  EXPECT_EQ(now(), 0x32u);
  EXPECT_EQ(*job.word(0, 64), 0xffu);
  EXPECT_EQ(*job.word(0, 72), 0x3cu);
  EXPECT_EQ(*job.word(0, 80), 0x3du);
}

TEST_P(atomics, old_value__into_registered_memory) {
  *job.word(1, 0) = 41;
  *job.word(0, 64) = *job.word(0, 72) = *job.word(0, 80) = 0;
  ASSERT_EQ(fetch_add(ep, 1, word(), std::uint64_t{1}, job.here(0, 64)), status::ok);
  ASSERT_EQ(compare_swap(ep, 1, word(), 42u, 50u, job.here(0, 72)), status::ok);
  ASSERT_EQ(gpu::swap(ep, 1, word(), 60u, job.at(0, 80)), status::ok);  // no thread reads it
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(*job.word(0, 64), 41u);
  EXPECT_EQ(*job.word(0, 72), 42u);
  EXPECT_EQ(*job.word(0, 80), 50u);
  EXPECT_EQ(*job.word(0, 88), 0x1111111111111111u);
  // Not aligned, too.
  *job.word(1, 0) = 0x0102030405060708;
  ASSERT_EQ(fetch_add(ep, 1, word(), std::uint64_t{1}, job.here(0, 97)), status::ok);
  ASSERT_EQ(fetch_add(ep, 1, word(4), 1u, job.here(0, 111)), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(std::memcmp(job.bytes(0, 97), "\x8\x7\x6\x5\x4\x3\x2\x1", 8), 0);
  EXPECT_EQ(std::memcmp(job.bytes(0, 111), "\x4\x3\x2\x1", 4), 0);
}

// Memory that is reached, over a way that has no atomic operations.
TEST_P(atomics, no_atomics__takes_a_request) {
  place_t there = word();
  there.key.no_atomics = 1;
  std::uint64_t old = 9;
  ASSERT_EQ(fetch_add(ep, 1, there, std::uint64_t{5}, &old), status::ok);
  EXPECT_EQ(old, 0u);
  ASSERT_EQ(add(ep, 1, there, std::uint64_t{5}), status::ok);
  ASSERT_EQ(put_signal(ep, 1, place_t{}, place_t{}, 0, there, 32, signal_op::add), status::ok);
  const std::uint64_t posted = job[0].queues[1]->state.reserved;
  EXPECT_GE(posted, 3u);
  EXPECT_EQ(now(), 42u);
  // A store is one all the same.
  const std::uint64_t before = job[0].queues[1]->state.reserved;
  ASSERT_EQ(gpu::signal(ep, 1, there, 7), status::ok);
  EXPECT_EQ(job[0].queues[1]->state.reserved == before, GetParam());
  EXPECT_EQ(now(), 7u);
}

TEST_P(atomics, refusals) {
  std::uint64_t old = 9;
  EXPECT_EQ(fetch_add(ep, 1, word(4), std::uint64_t{1}, &old), status::misaligned_atomic);
  EXPECT_EQ(fetch_add(ep, 1, word(4096), std::uint64_t{1}, &old), status::out_of_range);
  EXPECT_EQ(fetch_add(ep, 1, word(4092), std::uint64_t{1}, &old), status::out_of_range);
  EXPECT_EQ(fetch_add(ep, 5, word(), std::uint64_t{1}, &old), status::bad_rank);
  EXPECT_EQ(fetch_add(ep, 0, word(), std::uint64_t{1}, &old), status::bad_rank);
  EXPECT_EQ(add(ep, 1, place_t{}, std::uint64_t{1}), status::bad_key);
  EXPECT_EQ(fetch_add(ep, 1, word(), std::uint64_t{1}, word()), status::bad_rank);
  EXPECT_EQ(fetch_add(ep, 1, word(), std::uint64_t{1}, job.here(0, 4092)), status::out_of_range);
  EXPECT_EQ(add(endpoint_t{}, 1, word(), 1u), status::bad_endpoint);
  EXPECT_EQ(old, 9u);
  EXPECT_EQ(now(), 0u);
  EXPECT_EQ(job[0].queues[1]->state.reserved, 0u);
}

// What was written before a word is seen also by who did not find what it expected. The thread
// sanitizer tells where it is not.
TEST_P(atomics, compare_swap__that_changes_nothing_sees_what_came_with_the_word) {
  std::uint64_t data = 0, old = 0;
  status said = status::ok;
  std::thread looks([&] {
    while (old != 2 && said == status::ok)
      said = compare_swap(ep, 1, word(), std::uint64_t{1}, std::uint64_t{3}, &old);
    EXPECT_EQ(data, 42u);
  });
  data = 42;
  wqe::word_at<std::uint64_t>(job.word(1, 0)).store(2, std::memory_order_release);
  looks.join();
  EXPECT_EQ(said, status::ok);
  EXPECT_EQ(now(), 2u);
}

// More threads than places for old values.
TEST_P(atomics, many_threads__each_sees_another_value) {
  constexpr std::uint64_t THREADS = 8;
  constexpr std::uint64_t EACH = test::IS_SANITIZED ? 50 : 500;
  std::vector<std::vector<std::uint64_t>> seen(THREADS);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < EACH; ++i) {
        std::uint64_t old = 0;
        EXPECT_EQ(fetch_add(ep, 1, word(), std::uint64_t{1}, &old), status::ok);
        seen[t].push_back(old);
        EXPECT_EQ(add(ep, 1, word(8), 1u), status::ok);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::vector<bool> all(THREADS * EACH);
  for (const auto& of_one : seen)
    for (const std::uint64_t old : of_one) all.at(old) = true;
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(all.begin(), all.end(), true)), THREADS * EACH);
  for (const std::uint64_t taken : job[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

// Each thread turns bits of its own byte over, sets and clears them; the others' bytes stay.
TEST_P(atomics, many_threads__bits_of_one_word) {
  constexpr unsigned THREADS = 8, EACH = test::IS_SANITIZED ? 30 : 300;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      const std::uint64_t byte = std::uint64_t{0xff} << 8 * t;
      const std::uint64_t bit = std::uint64_t{0x10} << 8 * t;
      for (unsigned i = 0; i < EACH; ++i) {
        std::uint64_t old = 0;
        EXPECT_EQ(fetch_or(ep, 1, word(), byte, &old), status::ok);
        EXPECT_EQ(old & byte, i == 0 ? 0 : bit);
        EXPECT_EQ(fetch_xor(ep, 1, word(), bit, &old), status::ok);
        EXPECT_EQ(old & byte, byte);
        EXPECT_EQ(fetch_and(ep, 1, word(), ~byte, &old), status::ok);
        EXPECT_EQ(old & byte, byte & ~bit);
        EXPECT_EQ(xor_(ep, 1, word(), bit), status::ok);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(now(), 0x1010101010101010u);
}

// All places are taken, as by other threads, but their queue moves. The first look rings and finds
// a completion; the bell is the word that says that the rank has ended, so the second look tells.
TEST(atomics_limit, fetch_add__is_counted_from_when_the_queue_moved) {
  gpu_job job;
  job[0].scratch_taken.assign(job[0].scratch_taken.size(), 1);
  job[0].record.waits.limit_ns = 1;
  const endpoint_t ep = job.endpoint(0);
  std::uint64_t end = 0, old = 0, bell = 0;
  ASSERT_EQ(wqe::post(job[0].queues[1]->queue, wqe::send_request(), &end), status::ok);
  ASSERT_EQ(job.progress(), 1u);
  job[0].queues[1]->state.rung = 0;
  job[0].peers[1].queue.bell.target = &bell;
  job[0].peers[1].ended = reinterpret_cast<std::uint32_t*>(&bell);
  EXPECT_EQ(fetch_add(ep, 1, job.at(1, 0), std::uint64_t{1}, &old), status::peer_lost);
  EXPECT_EQ(job[0].queues[1]->state.done, end);
  // Nothing moves any more.
  bell = 0;
  EXPECT_EQ(fetch_add(ep, 1, job.at(1, 0), std::uint64_t{1}, &old), status::timed_out);
}

INSTANTIATE_TEST_SUITE_P(direct, atomics, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(requests, atomics, testing::Values(false));

}  // namespace
}  // namespace lci::gpu
