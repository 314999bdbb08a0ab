// Several requests of one queue under way over the fake network, which is late, refuses and loses
// its peer: what arrives is what one after the other would have brought.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "lci/proxy/proxy_world.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using gpu::status;
using test::proxied_job;

test::sim_options slow_network(std::uint64_t seed, std::uint32_t refuse_one_in) {
  test::sim_options options = test::card_options();
  options.max_delay_polls = 6;
  options.refuse_one_in = refuse_one_in;
  options.seed = seed;
  return options;
}

class beside_test : public testing::Test {
 protected:
  static constexpr std::size_t SIZE = 8192;
  void start(const test::sim_options& options) {
    job_ = std::make_unique<proxied_job>(options);
    mr_ = register_memory_x(mine_, SIZE).runtime(job_->handle())();
    own_ = get_gpu_key(mr_);
    there_ = get_gpu_key_x(job_->expose(theirs_, SIZE))
                 .rank(proxied_job::PEER)
                 .runtime(job_->handle())();
    own_.mapped = there_.mapped = 0;
  }
  void end() {
    deregister_memory(&mr_);
    job_.reset();
  }
  alignas(64) unsigned char mine_[SIZE] = {}, theirs_[SIZE] = {};
  std::unique_ptr<proxied_job> job_;
  mr_t mr_;
  gpu::key_t own_, there_;
};

TEST_F(beside_test, random_puts_signals_and_gets__as_one_after_the_other) {
  for (std::uint64_t seed = 1; seed <= (test::IS_SANITIZED ? 2 : 4); ++seed) {
    start(slow_network(seed, seed % 2 == 0 ? 4 : 0));
    std::mt19937_64 random(seed);
    std::vector<unsigned char> model(SIZE);
    std::memset(theirs_, 0, SIZE);
    for (std::size_t i = 0; i < SIZE; ++i) mine_[i] = static_cast<unsigned char>(i * 7 + seed);
    gpu::endpoint_t ep = job_->endpoint(64);
    std::uint64_t count = 0, wrong = 0;
    const status said = job_->run([&] {
      for (int round = 0; round < 15; ++round) {
        // Puts to places of their own, and a signal behind some.
        for (std::uint64_t i = 0; i < 8; ++i) {
          const std::uint64_t size = 1 + random() % 500, from = random() % 3000, to = i * 512;
          const bool signals = random() % 3 == 0;
          const gpu::place_t at{there_, to}, word{there_, SIZE - 8};
          const status s = signals ? gpu::put_signal(ep, 1, at, {own_, from}, size, word, ++count)
                                   : gpu::put(ep, 1, at, {own_, from}, size);
          if (s != status::ok) return s;
          std::copy_n(mine_ + from, size, model.begin() + static_cast<std::ptrdiff_t>(to));
          if (signals) std::memcpy(model.data() + SIZE - 8, &count, 8);
        }
        // What is read behind them is what they wrote.
        for (std::uint64_t i = 0; i < 8; ++i)
          if (const status s = gpu::get(ep, 1, {own_, 4096 + i * 512}, {there_, i * 512}, 500);
              s != status::ok)
            return s;
        if (const status s = gpu::quiet(ep, 1); s != status::ok) return s;
        for (std::size_t i = 0; i < 8; ++i)
          wrong += !std::equal(model.begin() + i * 512, model.begin() + i * 512 + 500,
                               mine_ + 4096 + i * 512);
        wrong += !std::equal(model.begin(), model.end(), theirs_);
      }
      return status::ok;
    });
    EXPECT_EQ(said, status::ok) << "seed " << seed;
    EXPECT_EQ(wrong, 0u) << "seed " << seed;
    EXPECT_TRUE(job_->thrown.empty());
    free_gpu_endpoint(&ep);
    end();
  }
}

// All that are under way end, and the queue says who is gone.
TEST_F(beside_test, peer_dies__all_end) {
  start(slow_network(3, 0));
  job_->meet();
  gpu::endpoint_t ep = job_->endpoint(64);
  const auto get_some = [&] {
    for (std::uint64_t i = 0; i < 20; ++i)
      ASSERT_EQ(gpu::get(ep, 1, {own_, 0}, {there_, i * 64}, 64), status::ok);
  };
  get_some();
  job_->device().queues.progress();
  job_->kill();
  get_some();
  EXPECT_EQ(job_->run([&] { return gpu::quiet(ep, 1); }), status::peer_lost);
  EXPECT_EQ(job_->texts<gpu_request_error>().size(), 1u) << "once for each queue";
  free_gpu_endpoint(&ep);
  end();
}

// Of a queue of its own, so that both ways can be had.
struct driven_queue {
  driven_queue(proxied_job& job, std::uint32_t most_beside)
      : receives(slots, 1),
        world(job.device(), proxied_job::PEER, job.side().all_keys, receives, aborted) {
    queue.ring = {ring.data(), BLOCKS};
    queue.cq = {cq.data(), BLOCKS, wqe::CQE_SIZE, record};
    queue.bell = {wqe::doorbell_form::mailbox, nullptr, &mailbox, 0};
    queue.state = &state;
    EXPECT_EQ(wqe::prepare(queue), status::ok);
    device::card_queue_options options;
    options.ring = queue.ring;
    options.cq = queue.cq;
    options.bell = queue.bell;
    options.most_beside = most_beside;
    card = std::make_unique<device::card_queue>(options, job.side().all_keys.own(), world);
  }
  static constexpr std::uint32_t BLOCKS = 1024;
  struct alignas(64) block {
    unsigned char bytes[64];
  };
  std::vector<block> ring{BLOCKS}, cq{BLOCKS};
  std::uint32_t record[2] = {};
  std::uint64_t mailbox = 0;
  wqe::send_queue_state state{};
  wqe::send_queue queue;
  gpu::receive_slot slots[1] = {};
  std::atomic<bool> aborted{false};
  open_receives receives;
  proxy_world world;
  std::unique_ptr<device::card_queue> card;
};

// A network with a way to go: gets that wait for each other, and gets beside each other.
TEST_F(beside_test, gets__beside_each_other_take_a_part_of_the_rounds) {
  constexpr std::uint64_t GETS = 2000;
  start(slow_network(1, 0));
  job_->meet();
  std::uint64_t rounds[2] = {};
  double seconds[2] = {};
  for (const int way : {0, 1}) {
    driven_queue q(*job_, way == 0 ? 1 : 64);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t posted = 0; q.card->next() < GETS; ++rounds[way]) {
      for (; posted < GETS && posted - q.card->next() < 512; ++posted) {
        const wqe::sge to{own_.base, 64, own_.key};
        wqe::send_request r;
        r.op = wqe::opcode::rdma_read;
        r.signaled = false;
        r.entries = &to;
        r.entry_count = 1;
        r.raddr = there_.base;
        r.rkey = there_.key;
        std::uint64_t last = 0;
        ASSERT_EQ(wqe::post(q.queue, r, &last), status::ok);
        wqe::drain(q.queue);
      }
      q.card->progress_st();
      job_->step();
    }
    seconds[way] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_FALSE(q.card->has_failed());
  }
  std::printf("rounds %.1f times fewer, gets a second %.1f times more\n",
              static_cast<double>(rounds[0]) / static_cast<double>(rounds[1]),
              seconds[0] / seconds[1]);
  EXPECT_GT(rounds[0], 4 * rounds[1]);
  end();
}

}  // namespace
}  // namespace lci::proxy
