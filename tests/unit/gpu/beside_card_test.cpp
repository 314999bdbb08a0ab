// Atomic operations of an endpoint over a card: a second job's queues are those beside the card's.
#include "lci/gpu/beside_card.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;
using test::job_rank;

// Rank 0 has both; rank 1's memory goes by one number with the card and by another beside it.
class beside_card : public testing::Test {
 protected:
  beside_card() {
    using namespace device;
    job_rank& mine = card[0];
    job_rank& theirs = card[1];
    mine.record.over_card = 1;
    mine.record.message_peers = beside[0].peers.data();
    // So that no number of the one names memory with the other.
    for (int i = 0; i < 8; ++i) beside.keys.add({});
    mine.record.scratch.key = beside.keys.add({mine.scratch.data(), mine.scratch.size(), WRITE});
    own = card.key(0);
    own.message_key = beside.keys.add({mine.memory.data(), mine.memory.size(), WRITE});
    there = card.key(1);
    there.message_key = beside.keys.add(
        {theirs.memory.data(), theirs.memory.size(), REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC});
    own.of_card = there.of_card = 1;
    for (const int rank : {0, 1}) std::memset(card.bytes(rank), 0, 64);
  }
  ~beside_card() override {
    card.stop();
    beside.stop();
    EXPECT_TRUE(card.is_whole());
  }
  static std::uint64_t posted(gpu_job& to) {
    return wqe::word_at<std::uint64_t>(&to[0].queues[1]->state.reserved)
        .load(std::memory_order_relaxed);
  }
  std::uint64_t now(int rank, std::uint64_t offset) {
    return wqe::word_at<std::uint64_t>(card.word(rank, offset)).load(std::memory_order_acquire);
  }

  gpu_job card, beside;
  endpoint_t ep = card.endpoint(0);
  key_t own, there;
};

// Each is carried out when its call returns, and the card has nothing of them.
TEST_F(beside_card, atomics__are_done_when_the_call_returns) {
  card.start();
  beside.start();
  ASSERT_EQ(add(ep, 1, {there, 8}, std::uint64_t{5}), status::ok);
  EXPECT_EQ(now(1, 8), 5u);
  std::uint64_t old = 0;
  ASSERT_EQ(fetch_add(ep, 1, {there, 8}, std::uint64_t{2}, &old), status::ok);
  EXPECT_EQ(old, 5u);
  ASSERT_EQ(gpu::swap(ep, 1, {there, 8}, std::uint64_t{100}, {own, 16}), status::ok);
  EXPECT_EQ(now(0, 16), 7u);
  ASSERT_EQ(compare_swap(ep, 1, {there, 8}, std::uint64_t{100}, std::uint64_t{1}, &old),
            status::ok);
  EXPECT_EQ(old, 100u);
  ASSERT_EQ(signal(ep, 1, {there, 8}, 3, signal_op::add), status::ok);
  EXPECT_EQ(now(1, 8), 4u);
  EXPECT_EQ(posted(card), 0u);
}

TEST_F(beside_card, put_signal__adds_behind_its_data) {
  card.start();
  beside.start();
  *card.word(0, 0) = 42;
  ASSERT_EQ(put_signal(ep, 1, {there, 0}, {own, 0}, 8, {there, 8}, 3, signal_op::add), status::ok);
  EXPECT_EQ(now(1, 8), 3u);
  EXPECT_EQ(now(1, 0), 42u);
  // What the card writes next comes behind it.
  ASSERT_EQ(signal(ep, 1, {there, 8}, 9), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(now(1, 8), 9u);
}

// The card has not carried out the put: the operation is not even posted.
TEST_F(beside_card, add__waits_for_what_the_card_has_under_way) {
  *card.word(0, 0) = 42;
  status said = status::nothing;
  std::atomic<bool> is_over{false};
  std::thread kernel([&] {
    said = put(ep, 1, {there, 0}, {own, 0}, 8);
    if (said == status::ok) said = add(ep, 1, {there, 8}, std::uint64_t{1});
    is_over.store(true);
  });
  // The put, and the request that waits for it.
  while (posted(card) < 2 && !is_over.load()) {
    beside.progress();
    std::this_thread::yield();
  }
  EXPECT_EQ(posted(beside), 0u);
  EXPECT_EQ(now(1, 8), 0u);
  while (!is_over.load()) {
    card.progress();
    beside.progress();
    std::this_thread::yield();
  }
  kernel.join();
  EXPECT_EQ(said, status::ok);
  EXPECT_EQ(now(1, 0), 42u);
  EXPECT_EQ(now(1, 8), 1u);
}

TEST_F(beside_card, get_value__past_the_card_and_behind_it) {
  card.start();
  beside.start();
  *card.word(0, 0) = 42;
  std::uint64_t value = 7;
  ASSERT_EQ(put(ep, 1, {there, 8}, {own, 0}, 8), status::ok);
  ASSERT_EQ(get_value(ep, 1, {there, 8}, &value), status::ok);
  EXPECT_EQ(value, 42u);
  EXPECT_EQ(posted(beside), 1u);
  card[0].record.message_peers = nullptr;
  EXPECT_EQ(get_value(ep, 1, {there, 8}, &value), status::no_messages);
  for (const std::uint64_t taken : card[0].scratch_taken) EXPECT_EQ(taken, 0u);
}

// Refused, and the card's queue goes on.
TEST_F(beside_card, atomics__without_queues_beside_the_card) {
  card.start();
  card[0].record.message_peers = nullptr;
  std::uint64_t old = 0;
  EXPECT_EQ(add(ep, 1, {there, 8}, std::uint64_t{1}), status::no_atomics);
  EXPECT_EQ(fetch_add(ep, 1, {there, 8}, std::uint64_t{1}, &old), status::no_atomics);
  EXPECT_EQ(fetch_add(ep, 1, {there, 8}, std::uint64_t{1}, {own, 16}), status::no_atomics);
  EXPECT_EQ(signal(ep, 1, {there, 8}, 1, signal_op::add), status::no_atomics);
  EXPECT_EQ(put_signal(ep, 1, {there, 0}, {own, 0}, 8, {there, 8}, 1, signal_op::add),
            status::no_atomics);
  EXPECT_EQ(posted(card), 0u) << "a part of a call that was refused";
  *card.word(0, 0) = 42;
  ASSERT_EQ(put_signal(ep, 1, {there, 0}, {own, 0}, 8, {there, 8}, 1), status::ok);
  ASSERT_EQ(quiet(ep), status::ok);
  EXPECT_EQ(now(1, 0), 42u);
  EXPECT_EQ(now(1, 8), 1u);
}

// A card's queue that has ended refuses them, and none keeps a place for old values.
TEST_F(beside_card, fetch_add__behind_a_queue_that_has_ended) {
  ASSERT_EQ(wqe::end(card[0].queues[1]->queue, status::timed_out), status::timed_out);
  std::uint64_t old = 0;
  for (std::size_t i = 0; i <= card[0].scratch_taken.size(); ++i)
    EXPECT_EQ(fetch_add(ep, 1, {there, 8}, std::uint64_t{1}, &old), status::timed_out);
  for (const std::uint64_t taken : card[0].scratch_taken) EXPECT_EQ(taken, 0u);
  EXPECT_EQ(posted(beside), 0u);
}

}  // namespace
}  // namespace lci::gpu
