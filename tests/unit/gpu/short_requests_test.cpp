#include "lci/gpu/short_requests.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/gpu/job.hpp"

namespace lci::gpu {
namespace {

using test::gpu_job;

template <std::size_t SIZE>
struct some_bytes {
  explicit some_bytes(unsigned char first) {
    for (std::size_t i = 0; i < SIZE; ++i) byte[i] = static_cast<unsigned char>(first + i);
  }
  unsigned char byte[SIZE];
};

// The same call made twice, the second time by the code that loops over requests.
struct both_ways {
  std::function<status(const endpoint_t&, gpu_job&)> call, general;
};

found_place found(const endpoint_t& ep, const place_t& at, std::uint64_t size, int owner) {
  found_place out;
  EXPECT_EQ(find(*ep.record, at, size, static_cast<std::uint32_t>(owner), &out), status::ok);
  return out;
}

both_ways put_of(std::uint64_t size, bool with_signal) {
  return {[=](const endpoint_t& ep, gpu_job& job) {
            const place_t to = job.at(1, 64), from = job.here(0, 4 * size);
            return with_signal ? put_signal(ep, 1, to, from, size, job.at(1, 512), 7 + size)
                               : put(ep, 1, to, from, size);
          },
          [=](const endpoint_t& ep, gpu_job& job) {
            detail::signal_request signal = detail::no_signal();
            found_place word;
            if (with_signal) {
              signal = {job.at(1, 512), 7 + size, signal_op::set, true};
              word = found(ep, signal.at, 8, 1);
            }
            return detail::post_put<thread>(ep, 1, found(ep, job.at(1, 64), size, 1),
                                            found(ep, job.here(0, 4 * size), size, 0), size, signal,
                                            word);
          }};
}

template <std::size_t SIZE>
both_ways value_of() {
  static const some_bytes<SIZE> value(SIZE);
  return {[](const endpoint_t& ep, gpu_job& job) { return put_value(ep, 1, job.at(1, 64), value); },
          [](const endpoint_t& ep, gpu_job& job) {
            request_run run;
            wqe::send_request& r = run.requests[run.count++];
            r.op = wqe::opcode::rdma_write;
            r.signaled = false;
            r.raddr = job.at(1, 64).key.base + 64;
            r.rkey = job.at(1, 64).key.key;
            r.inline_data = &value;
            r.inline_length = SIZE;
            std::uint64_t end = 0;
            return post_run<thread>(ep.record->peers[1], run, &end);
          }};
}

template <std::size_t SIZE>
both_ways message_of(message_kind kind) {
  static const some_bytes<SIZE> value(SIZE);
  constexpr std::uint64_t TAG = 0x123456789abcdef0;
  return {[=](const endpoint_t& ep, gpu_job&) {
            return kind == message_kind::am ? am_value(ep, 1, value, gpu_job::HANDLER, TAG)
                                            : send_value(ep, 1, value, TAG);
          },
          [=](const endpoint_t& ep, gpu_job&) {
            message_head head = detail::head_of(
                kind, kind == message_kind::am ? std::uint32_t{gpu_job::HANDLER} : 0, TAG);
            head.inline_length = SIZE;
            return detail::post_message<thread>(ep, 1, head, &value);
          }};
}

std::vector<both_ways> all_short_calls() {
  std::vector<both_ways> calls;
  for (const std::uint64_t size : {4, 8, 12})
    for (const bool with_signal : {false, true}) calls.push_back(put_of(size, with_signal));
  calls.push_back(put_of(0, true));
  calls.push_back(value_of<1>());
  calls.push_back(value_of<4>());
  calls.push_back(value_of<7>());
  calls.push_back(value_of<8>());
  calls.push_back(value_of<12>());
  for (const message_kind kind : {message_kind::am, message_kind::send}) {
    calls.push_back(message_of<1>(kind));
    calls.push_back(message_of<4>(kind));
    calls.push_back(message_of<5>(kind));
    calls.push_back(message_of<8>(kind));
    calls.push_back(message_of<20>(kind));
  }
  return calls;
}

// What rank 0 has written for rank 1 in those blocks; addresses count from the begin of its memory.
std::vector<wqe::octoword> written(gpu_job& job, std::uint64_t from, std::uint64_t to) {
  std::vector<wqe::octoword> all;
  const wqe::send_ring& ring = job[0].queues[1]->queue.ring;
  while (from < to) {
    const std::uint32_t octowords =
        wqe::be32(octoword_at(ring, from, 0)->word[1]) & wqe::MAX_OCTOWORDS;
    const bool is_put = (wqe::be32(octoword_at(ring, from, 0)->word[0]) & 0xff) ==
                        static_cast<std::uint32_t>(wqe::opcode::rdma_write);
    for (std::uint32_t k = 0; k < octowords; ++k) {
      wqe::octoword o = *octoword_at(ring, from, k);
      if (is_put && k == 1) {
        const std::uint64_t address =
            std::uint64_t{wqe::be32(o.word[0])} << 32 | wqe::be32(o.word[1]);
        o = wqe::remote_address_segment(address - job.at(1, 0).key.base, wqe::be32(o.word[2]));
      }
      all.push_back(o);
    }
    from += wqe::blocks_of(octowords);
  }
  return all;
}

// Often enough that indices are of all kinds: those that must ask for a completion, and the ring's
// end.
TEST(short_requests, bytes_are_those_of_the_general_way) {
  gpu_job one, other;
  for (gpu_job* job : {&one, &other})
    for (std::size_t i = 0; i < 4096; ++i) job->bytes(0)[i] = static_cast<std::byte>(i * 5);
  const std::vector<both_ways> calls = all_short_calls();
  const auto &a = *one[0].queues[1], &b = *other[0].queues[1];
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::uint64_t before = a.state.reserved;
      ASSERT_EQ(calls[i].call(one.endpoint(0), one), status::ok) << i;
      ASSERT_EQ(calls[i].general(other.endpoint(0), other), status::ok) << i;
      ASSERT_EQ(a.state.reserved, b.state.reserved) << i;
      ASSERT_EQ(a.state.published, b.state.published) << i;
      ASSERT_EQ(a.state.rung, b.state.rung) << i;
      ASSERT_EQ(a.mailbox, b.mailbox) << i;
      ASSERT_EQ(a.state.bell_lock, 0u) << i;
      const auto x = written(one, before, a.state.reserved),
                 y = written(other, before, b.state.reserved);
      ASSERT_EQ(x.size(), y.size()) << i;
      ASSERT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])), 0) << i;
      ASSERT_EQ(one.progress(), other.progress());
    }
  }
  EXPECT_GT(a.state.reserved, 4 * a.queue.ring.blocks) << "too few turns of the ring";
  EXPECT_EQ(std::memcmp(one.bytes(1), other.bytes(1), 4096), 0);
  EXPECT_TRUE(one.is_whole());
}

// Blocks that somebody has reserved by hand, with a put of `value` to that place.
void write_by_hand(gpu_job& job, std::uint64_t base, std::uint64_t offset, std::uint64_t value) {
  const detail::short_put put =
      detail::short_of(found(job.endpoint(0), job.at(1, offset), sizeof(value), 1), value);
  detail::write_short(job[0].queues[1]->queue, base, put, wqe::fence_mode::none);
}

// Another has reserved before it and is slow: it waits for its turn, without the bell.
TEST(short_requests, wait_for_their_turn) {
  gpu_job job;
  auto& q = *job[0].queues[1];
  const std::uint64_t hole = reserve(q.queue, 1);
  std::atomic<bool> is_over{false};
  std::thread poster([&] {
    EXPECT_EQ(put_value(job.endpoint(0), 1, job.at(1, 8), std::uint64_t{2}), status::ok);
    is_over.store(true);
  });
  while (look_at(&q.state.reserved) != 2) std::this_thread::yield();
  // Whatever it took early it gives back.
  while (look_at(&q.state.bell_lock) != 0) std::this_thread::yield();
  EXPECT_FALSE(is_over.load());
  EXPECT_EQ(look_at(&q.mailbox), 0u);
  write_by_hand(job, hole, 0, 1);
  wqe::own_turn turn;
  ASSERT_EQ(wqe::publish(q.queue, hole, 1, 1, &turn), status::ok);
  EXPECT_EQ(wqe::ring_if_last(q.queue, hole, hole + 1, turn), status::ok);
  poster.join();
  EXPECT_EQ(look_at(&q.mailbox), 2u);
  EXPECT_EQ(job.progress(), 2u);
  EXPECT_EQ(*job.word(1, 0) + *job.word(1, 8), 3u);
  EXPECT_EQ(q.state.bell_lock, 0u);
}

// The one before left the ringing to it; it waits for room, which comes when it has rung.
TEST(short_requests, who_waits_for_room_rings_for_others) {
  test::job_options options;
  options.blocks = 16;
  gpu_job job(options);
  auto& q = *job[0].queues[1];
  const std::uint64_t first = reserve(q.queue, 16);
  for (std::uint64_t i = 0; i < 16; ++i) {
    write_by_hand(job, first + i, 8 * i, i);
    wqe::waiter wait(q.queue.waits);
    ASSERT_TRUE(wqe::try_publish(q.queue, first + i, 1, 1, wait));
  }
  EXPECT_EQ(q.mailbox, 0u);
  std::atomic<bool> is_over{false};
  std::thread poster([&] {
    EXPECT_EQ(put_value(job.endpoint(0), 1, job.at(1, 512), std::uint64_t{77}), status::ok);
    is_over.store(true);
  });
  while (look_at(&q.mailbox) != 16) std::this_thread::yield();
  while (!is_over.load()) job.progress();
  poster.join();
  job.progress();
  EXPECT_EQ(*job.word(1, 512), 77u);
}

// The queue has room for nobody: the call waits, and its requests are whole once there is.
TEST(short_requests, wait_for_room) {
  test::job_options options;
  options.blocks = 16;
  gpu_job job(options);
  const endpoint_t ep = job.endpoint(0);
  for (std::uint64_t i = 0; i < 16; ++i)
    ASSERT_EQ(put_value(ep, 1, job.at(1, 8 * i), i), status::ok);
  std::atomic<bool> is_over{false};
  std::thread poster([&] {
    EXPECT_EQ(put_value(ep, 1, job.at(1, 512), std::uint64_t{77}), status::ok);
    is_over.store(true);
  });
  const auto& q = *job[0].queues[1];
  while (look_at(&q.state.reserved) != 17) std::this_thread::yield();
  EXPECT_FALSE(is_over.load());
  while (!is_over.load()) job.progress();
  poster.join();
  job.progress();
  EXPECT_EQ(*job.word(1, 512), 77u);
  EXPECT_EQ(q.state.bell_lock, 0u);
}

// It rings for nobody while another has the bell, and the queue goes on.
TEST(short_requests, another_has_the_bell) {
  gpu_job job;
  const endpoint_t ep = job.endpoint(0);
  auto& q = *job[0].queues[1];
  ASSERT_TRUE(wqe::try_lock(&q.state.bell_lock));
  std::atomic<bool> is_over{false};
  std::thread poster([&] {
    EXPECT_EQ(put_value(ep, 1, job.at(1, 0), std::uint64_t{5}), status::ok);
    is_over.store(true);
  });
  while (look_at(&q.state.published) >> wqe::PUBLISHED_SHIFT != 1) std::this_thread::yield();
  EXPECT_FALSE(is_over.load());
  EXPECT_EQ(look_at(&q.mailbox), 0u);
  wqe::unlock(&q.state.bell_lock);
  poster.join();
  EXPECT_EQ(job.progress(), 1u);
  EXPECT_EQ(*job.word(1, 0), 5u);
}

TEST(short_requests, a_queue_that_has_ended_takes_none) {
  gpu_job job;
  const endpoint_t ep = job.endpoint(0);
  wqe::end(job[0].queues[1]->queue, status::aborted);
  EXPECT_EQ(put_value(ep, 1, job.at(1, 0), 5), status::dead);
  EXPECT_EQ(am_value(ep, 1, 5, gpu_job::HANDLER), status::dead);
  EXPECT_EQ(job[0].queues[1]->state.bell_lock, 0u);
  EXPECT_EQ(job[0].queues[1]->mailbox, 0u);
}

// A poster leaves the ringing to a reservation behind it, which is given up since the queue has
// ended: what it was told is in the queue is executed nevertheless.
TEST(short_requests, what_is_published_before_a_refused_one_is_rung_for) {
  for (const bool is_late : {false, true}) {
    gpu_job job;
    auto& q = *job[0].queues[1];
    const std::uint64_t base = reserve(q.queue, 1);
    write_by_hand(job, base, 0, 9);
    const auto publish = [&] {
      wqe::waiter wait(q.queue.waits);
      ASSERT_TRUE(wqe::try_publish(q.queue, base, 1, 1, wait));
    };
    if (!is_late) publish();
    wqe::end(q.queue, status::aborted);
    EXPECT_EQ(put_value(job.endpoint(0), 1, job.at(1, 8), 5), status::dead);
    // Who had looked before the end rings no more.
    EXPECT_EQ(q.mailbox, is_late ? 0u : 1u);
    if (is_late) publish();
    EXPECT_EQ(wqe::ring_if_last(q.queue, base, base + 1, {}), status::ok);
    EXPECT_EQ(q.mailbox, 1u) << is_late;
    EXPECT_EQ(job.progress(), 1u);
    EXPECT_EQ(*job.word(1, 0), 9u);
  }
}

// What an endpoint takes in a request, and queues that are not for messages.
TEST(short_requests, limits_of_the_endpoint) {
  test::job_options options;
  options.max_inline = 4;
  gpu_job job(options);
  const endpoint_t ep = job.endpoint(0);
  const auto& q = *job[0].queues[1];
  ASSERT_EQ(put(ep, 1, job.at(1, 0), job.here(0, 0), 8), status::ok);
  EXPECT_EQ(wqe::be32(octoword_at(q.queue.ring, 0, 2)->word[0]) & wqe::INLINE_FLAG, 0u)
      << "8 bytes travel in a request of 4";
  ASSERT_EQ(put(ep, 1, job.at(1, 0), job.here(0, 0), 4), status::ok);
  EXPECT_EQ(wqe::be32(octoword_at(q.queue.ring, 1, 2)->word[0]), wqe::INLINE_FLAG | 4);
  job[0].record.over_card = 1;
  EXPECT_EQ(am_value(ep, 1, 5, gpu_job::HANDLER), status::no_messages);
  EXPECT_EQ(q.state.reserved, 2u);
}

}  // namespace
}  // namespace lci::gpu
