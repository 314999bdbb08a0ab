#include "lci/gpu/messages.hpp"

#include <gtest/gtest.h>

#include "tests/support/sanitized.hpp"
#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

class messages : public testing::Test {
 protected:
  messages() { job.start(); }
  ~messages() override {
    job.stop();
    EXPECT_TRUE(job.is_whole());
  }
  gpu_job job;
  endpoint_t from = job.endpoint(0), to = job.endpoint(1);
};

TEST_F(messages, send__sizes_around_what_travels_in_a_request) {
  for (const std::uint64_t size : {0, 1, 8, 179, 180, 181, 220, 1000}) {
    for (std::size_t i = 0; i < 1000; ++i) job.bytes(0)[i] = static_cast<std::byte>(i + size);
    std::memset(job.bytes(1), 0, 4096);
    ticket_t ticket;
    message_t got;
    ASSERT_EQ(recv(to, 0, job.here(1, 16), 1000, size, &ticket), status::ok);
    ASSERT_EQ(send(from, 1, job.here(0, 0), size, size), status::ok);
    ASSERT_EQ(wait_receive(to, ticket, &got), status::ok);
    EXPECT_EQ(got.size, size);
    EXPECT_EQ(got.tag, size);
    EXPECT_EQ(got.rank, 0);
    EXPECT_EQ(std::memcmp(job.bytes(1, 16), job.bytes(0), size), 0);
    EXPECT_EQ(job.bytes(1)[16 + size], std::byte{0});
    EXPECT_EQ(wait_receive(to, ticket, &got), status::bad_key);  // a ticket is good for once
  }
}

TEST_F(messages, send__before_the_receive_and_from_anybody) {
  ASSERT_EQ(send_value(from, 1, 77, 5), status::ok);
  ASSERT_EQ(quiet(from, 1), status::ok);
  ticket_t other, ticket;
  message_t got;
  ASSERT_EQ(recv(to, ANY_RANK, job.here(1, 0), 4, 6, &other), status::ok);
  ASSERT_EQ(recv(to, ANY_RANK, job.here(1, 8), 4, 5, &ticket), status::ok);
  ASSERT_EQ(wait_receive(to, ticket, &got), status::ok);
  int value = 0;
  std::memcpy(&value, job.bytes(1, 8), 4);
  EXPECT_EQ(value, 77);
  EXPECT_EQ(test_receive(to, other, &got), status::nothing);
  ASSERT_EQ(send_value(to, 1, 78, 6), status::ok);  // to itself
  ASSERT_EQ(wait_receive(to, other, &got), status::ok);
  EXPECT_EQ(got.rank, 1);
}

TEST_F(messages, recv__a_message_longer_than_the_room) {
  ticket_t ticket;
  message_t got;
  ASSERT_EQ(recv(to, 0, job.here(1, 0), 7, 1, &ticket), status::ok);
  ASSERT_EQ(send(from, 1, job.here(0, 0), 8, 1), status::ok);
  EXPECT_EQ(wait_receive(to, ticket, &got), status::too_long);
  EXPECT_EQ(got.size, 8u);
  EXPECT_EQ(job.bytes(1)[0], std::byte{0x11});
}

TEST_F(messages, recv__as_many_as_the_endpoint_takes_and_then_again) {
  ticket_t tickets[4], another;
  for (std::uint64_t i = 0; i < 4; ++i)
    ASSERT_EQ(recv(to, 0, job.here(1, 8 * i), 8, i, &tickets[i]), status::ok);
  EXPECT_EQ(recv(to, 0, job.here(1, 64), 8, 9, &another), status::no_receive_slot);
  EXPECT_EQ(another.turn, 0u);
  EXPECT_EQ(wait_receive(to, another), status::bad_key);
  // The slot that is given back is not the next one in turn.
  ASSERT_EQ(send_value(from, 1, 1, 2), status::ok);
  ASSERT_EQ(wait_receive(to, tickets[2]), status::ok);
  ASSERT_EQ(recv(to, 0, job.here(1, 64), 8, 9, &another), status::ok);
  ASSERT_EQ(send_value(from, 1, 1, 9), status::ok);
  ASSERT_EQ(wait_receive(to, another), status::ok);
}

// A message waits for the card's queue, which has ended: nothing is posted, and no slot is lost.
TEST_F(messages, recv__behind_a_queue_of_a_card_that_has_ended) {
  job.stop();
  gpu_job beside;  // whose queues are those for messages
  job[1].record.over_card = 1;
  job[1].record.message_peers = beside[1].peers.data();
  ASSERT_EQ(wqe::end(job[1].queues[1]->queue, status::failed), status::failed);
  for (std::uint64_t i = 0; i <= job[1].receives.size(); ++i) {
    ticket_t ticket;
    EXPECT_EQ(recv(to, 0, place_t{}, 0, i, &ticket), status::failed) << i;
    EXPECT_EQ(ticket.turn, 0u);
  }
  for (const receive_slot& slot : job[1].receives) EXPECT_EQ(slot.state, 0u);
  EXPECT_EQ(beside[1].queues[1]->state.reserved, 0u);
}

TEST_F(messages, refusals) {
  ticket_t ticket;
  EXPECT_EQ(send(from, 2, job.here(0, 0), 8, 1), status::bad_rank);
  EXPECT_EQ(send(from, 1, job.here(0, 4090), 8, 1), status::out_of_range);
  EXPECT_EQ(send(from, 1, place_t{}, 8, 1), status::bad_key);
  EXPECT_EQ(send(from, 1, job.here(1, 0), 8, 1), status::bad_rank);
  EXPECT_EQ(send_value(endpoint_t{}, 1, 8, 1), status::bad_endpoint);
  EXPECT_EQ(am(from, 1, job.here(0, 4090), 8, 1), status::out_of_range);
  EXPECT_EQ(am_value(from, -2, 8, 1), status::bad_rank);
  EXPECT_EQ(recv(to, 2, job.here(1, 0), 8, 1, &ticket), status::bad_rank);
  EXPECT_EQ(recv(to, 0, job.here(1, 4090), 8, 1, &ticket), status::out_of_range);
  EXPECT_EQ(recv(endpoint_t{}, 0, job.here(1, 0), 8, 1, &ticket), status::bad_endpoint);
  for (const receive_slot& slot : job[1].receives) EXPECT_EQ(slot.state, 0u);
  EXPECT_EQ(job[0].queues[1]->state.reserved, 0u);
}

TEST_F(messages, wait_receive__ends_and_its_ticket_stays_good) {
  ticket_t ticket;
  ASSERT_EQ(recv(to, 0, job.here(1, 0), 8, 1, &ticket), status::ok);
  status said = status::ok;
  std::thread waits([&] { said = wait_receive(to, ticket); });
  wqe::word_at<std::uint32_t>(&job[1].abort).store(1, std::memory_order_relaxed);
  waits.join();
  EXPECT_EQ(said, status::aborted);
  wqe::word_at<std::uint32_t>(&job[1].abort).store(0, std::memory_order_relaxed);
  ASSERT_EQ(send_value(from, 1, 3, 1), status::ok);
  EXPECT_EQ(wait_receive(to, ticket), status::ok);
}

// What the host says of a rank that has ended.
TEST_F(messages, wait_receive__of_a_rank_that_has_ended) {
  ticket_t ticket;
  ASSERT_EQ(recv(to, 0, job.here(1, 0), 8, 1, &ticket), status::ok);
  job.stop();
  receive_slot& slot = job[1].receives[0];
  slot.result = static_cast<std::int32_t>(status::peer_lost);
  wqe::word_at<std::uint64_t>(&slot.state).store(2, std::memory_order_release);
  EXPECT_EQ(wait_receive(to, ticket), status::peer_lost);
  EXPECT_EQ(slot.state, 0u);
}

// Whose message it would have been nobody knows; another rank may still send it.
TEST_F(messages, wait_receive__of_any_rank_when_one_has_ended) {
  ticket_t of_one, of_any;
  ASSERT_EQ(recv(to, 0, job.here(1, 0), 8, 1, &of_one), status::ok);
  ASSERT_EQ(recv(to, ANY_RANK, job.here(1, 8), 8, 2, &of_any), status::ok);
  job[1].any_ended = 1;
  EXPECT_EQ(test_receive(to, of_any), status::nothing);
  job[1].record.waits.limit_ns = 1;  // the second look ends what nothing else has ended
  EXPECT_EQ(wait_receive(to, of_any), status::peer_lost);
  EXPECT_EQ(wait_receive(to, of_one), status::timed_out);
  job[1].record.waits.limit_ns = 0;
  ASSERT_EQ(send_value(from, 1, 3, 2), status::ok);
  status said = status::peer_lost;
  while (said == status::peer_lost) said = wait_receive(to, of_any);
  EXPECT_EQ(said, status::ok);
  EXPECT_EQ(wait_receive(to, of_any), status::bad_key);
}

TEST_F(messages, am__to_a_handler_of_the_host) {
  std::memset(job.bytes(0), 4, 1000);
  ASSERT_EQ(am_value(from, 1, std::uint64_t{12}, gpu_job::HANDLER, 3), status::ok);
  ASSERT_EQ(am(from, 1, job.here(0, 0), 1000, gpu_job::HANDLER), status::ok);
  ASSERT_EQ(am(from, 1, place_t{}, 0, gpu_job::HANDLER, 8), status::ok);
  ASSERT_EQ(quiet(from, 1), status::ok);
  job.stop();
  ASSERT_EQ(job[1].active.size(), 3u);
  EXPECT_EQ(job[1].active[0].bytes.size(), 8u);
  EXPECT_EQ(job[1].active[0].tag, 3u);
  EXPECT_EQ(job[1].active[1].bytes, std::vector<std::byte>(1000, std::byte{4}));
  EXPECT_TRUE(job[1].active[2].bytes.empty());
}

// Four places for receives, eight threads that want one each.
TEST_F(messages, many_threads__send_and_receive) {
  constexpr int EACH = test::IS_SANITIZED ? 50 : 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    const auto offset = static_cast<std::uint64_t>(t) * 16;
    threads.emplace_back([&, t, offset] {
      for (int i = 0; i < EACH; ++i) {
        ticket_t ticket;
        status s = status::no_receive_slot;
        while (s == status::no_receive_slot) {
          s = recv(to, 0, job.here(1, offset), 8, static_cast<std::uint64_t>(t), &ticket);
          if (s == status::no_receive_slot) std::this_thread::yield();
        }
        ASSERT_EQ(s, status::ok);
        ASSERT_EQ(send_value(from, 1, std::uint64_t(i), static_cast<std::uint64_t>(t)), status::ok);
        message_t got;
        ASSERT_EQ(wait_receive(to, ticket, &got), status::ok);
        ASSERT_EQ(*job.word(1, offset), static_cast<std::uint64_t>(i));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace lci::gpu
