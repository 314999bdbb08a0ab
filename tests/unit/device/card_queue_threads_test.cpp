// Many threads, one queue, one card in software: nothing lost, doubled or out of order.
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/device_code/wqe_inputs.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::status;
namespace wqe = lci::wqe;

constexpr std::uint32_t THREADS = 4;
constexpr std::uint64_t EACH = IS_SANITIZED ? 1000 : 2000;

// Runs `post` in all threads while another one drives the card.
template <class Post>
void run(pair& p, const Post& post) {
  std::uint32_t over = 0;
  std::thread card([&] {
    while (wqe::word_at<std::uint32_t>(&over).load(std::memory_order_acquire) == 0)
      if (p.card->progress_st() == 0) std::this_thread::yield();
  });
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < EACH; ++i) ASSERT_EQ(post(t, i), status::ok);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wqe::flush(p.queue), status::ok);
  wqe::word_at<std::uint32_t>(&over).store(1, std::memory_order_release);
  card.join();
  EXPECT_TRUE(p.is_whole());
  EXPECT_FALSE(p.card->has_failed());
}

// A put of several sizes and a signal behind it: who has seen the signal sees the put, and counts
// of each thread only grow by one.
TEST(card_queue_threads, progress__puts_and_signals_of_each_thread_in_order) {
  pair p(64);
  std::uint64_t wrong = 0;
  std::uint32_t over = 0;
  const auto word = [&](std::uint32_t t, std::uint32_t at) {
    return reinterpret_cast<std::uint64_t*>(p.remote.data() + t * 256 + at);
  };
  std::thread looker([&] {
    std::uint64_t seen[THREADS] = {};
    while (wqe::word_at<std::uint32_t>(&over).load(std::memory_order_acquire) == 0) {
      for (std::uint32_t t = 0; t < THREADS; ++t) {
        const std::uint64_t signal =
            wqe::word_at<std::uint64_t>(word(t, 0)).load(std::memory_order_acquire);
        const std::uint64_t data =
            wqe::word_at<std::uint64_t>(word(t, 64)).load(std::memory_order_acquire);
        wrong += signal < seen[t] || data < signal;
        seen[t] = signal;
      }
      std::this_thread::yield();
    }
  });
  run(p, [&](std::uint32_t t, std::uint64_t i) {
    const std::uint64_t value = i + 1;
    std::uint64_t end = 0;
    wqe::send_request r = request_for(opcode::rdma_write);
    r.signaled = false;
    r.rkey = p.rkey;
    r.inline_data = &value;
    r.inline_length = 8;
    for (const std::uint32_t at : {64u, 0u}) {
      r.raddr = p.remote.address() + t * 256 + at;
      if (const status s = wqe::post(p.queue, r, &end); s != status::ok) return s;
    }
    return status::ok;
  });
  wqe::word_at<std::uint32_t>(&over).store(1, std::memory_order_release);
  looker.join();
  EXPECT_EQ(wrong, 0u);
  for (std::uint32_t t = 0; t < THREADS; ++t) {
    EXPECT_EQ(*word(t, 0), EACH);
    EXPECT_EQ(*word(t, 64), EACH);
  }
}

TEST(card_queue_threads, progress__every_addition_counts_once) {
  pair p(16, wqe::doorbell_form::eight_bytes, 0xff00);
  const auto add = [&](std::uint32_t t, std::uint64_t) {
    const wqe::sge old = p.entry(t * 8, 8);
    wqe::send_request r = request_for(opcode::atomic_fa);
    r.signaled = false;
    r.entries = &old;
    r.entry_count = 1;
    r.raddr = p.remote.address();
    r.rkey = p.rkey;
    r.atomic.swap_add = 1;
    std::uint64_t end = 0;
    return wqe::post(p.queue, r, &end);
  };
  run(p, add);
  std::uint64_t sum = 0;
  std::memcpy(&sum, p.remote.data(), 8);
  EXPECT_EQ(sum, THREADS * EACH);
}

}  // namespace
