// The same with ranks that die, garbage, memory that runs out, and many threads.
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "lci/proto/host/arrival.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/proto/atomics_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
namespace wqe = lci::wqe;
using lci::errorcode_t;
using wqe::opcode;

TEST(remote_atomics, on_peer_ended__what_a_leaver_has_answered_is_still_read) {
  atomics_world w;
  std::uint64_t word = 1;
  asked one;
  one.rank = 1;
  one.region = w.name_of(w[1].expose(&word, sizeof(word)));
  one.change = add(1);
  w.post(0, one);
  for (int i = 0; i < 20 && word == 1; ++i) w[1].queues->progress();
  EXPECT_EQ(word, 2u);
  proto::part& here = w.of(0);
  here.on_peer_ended(1, proto::peer_end::left);
  EXPECT_EQ(one.times, 0);
  EXPECT_EQ(w.finish(one), atomic_outcome::done);
  EXPECT_EQ(one.old, 1u);
  one.times = 0;
  w.post(0, one);
  here.on_peer_ended(1, proto::peer_end::all_here);
  EXPECT_EQ(one.times, 1);
  EXPECT_EQ(one.ended, atomic_outcome::peer_lost);
}

TEST(remote_atomics, on_peer_ended__ends_what_waits_and_later_ones_are_fatal) {
  atomics_world w;
  std::uint64_t word = 1;
  const wire::name region = w.name_of(w[1].expose(&word, sizeof(word)));
  std::array<asked, 5> all;
  for (asked& one : all) {
    one.rank = 1;
    one.region = region;
    one.change = add(1);
    w.post(0, one);
  }
  // Each starts one more when it hears of the end.
  asked more;
  errorcode_t answer = errorcode_t::done;
  all[0].then = [&] {
    more.rank = 1;
    more.region = region;
    answer = w.of(0).start(more);
  };
  w.sim.kill(1);
  w.step();
  for (const asked& one : all) {
    EXPECT_EQ(one.times, 1);
    EXPECT_EQ(one.ended, atomic_outcome::peer_lost);
  }
  EXPECT_EQ(answer, errorcode_t::fatal);
  EXPECT_EQ(w.of(0).start(more), errorcode_t::fatal);
  EXPECT_EQ(more.times, 0);
  EXPECT_EQ(w.of(0).open(), 0u);
  EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
  // A late answer of the dead finds nothing.
  const auto before = w.dropped(0);
  proto::single_arrival sink(w[0].queues->host);
  const wire::atomic_end late{{0, 1}, 5, wire::atomic_result::done, 0};
  sink.on_message({1, wire::kind_imm(wire::kind::atomic_end),
                   reinterpret_cast<const std::byte*>(&late), sizeof(late), nullptr});
  EXPECT_EQ(w.dropped(0), before + 1);
}

TEST(remote_atomics, on_answer__of_another_rank_or_twice_finds_nothing) {
  sim_options options;
  options.duplicate_one_in = 1;
  atomics_world w(options, 3);
  std::uint64_t word = 5;
  const wire::name region = w.name_of(w[1].expose(&word, sizeof(word)));
  asked one;
  // Idempotent, as this network brings the request twice, which none of ours does.
  EXPECT_EQ(w.change(one, region, 0, wqe::change_of(opcode::atomic_masked_cs, {9, 0, ALL, 0, 8})),
            atomic_outcome::done);
  w.step(50);
  EXPECT_EQ(one.times, 1);
  EXPECT_GE(w.dropped(0), 1);
  EXPECT_EQ(word, 9u);
  w.sim.change([](sim_options& o) {
    o.duplicate_one_in = 0;
    o.max_delay_polls = 0;
  });
  one.times = 0;
  w.post(0, one);
  // Rank 2 guesses the name of each slot.
  proto::single_arrival sink(w[0].queues->host);
  for (std::uint32_t slot = 0; slot < 4; ++slot)
    for (std::uint32_t generation = 0; generation < 64; ++generation) {
      const wire::atomic_end forged{{slot, generation}, 77, wire::atomic_result::done, 0};
      sink.on_message({2, wire::kind_imm(wire::kind::atomic_end),
                       reinterpret_cast<const std::byte*>(&forged), sizeof(forged), nullptr});
    }
  EXPECT_EQ(one.times, 0);
  EXPECT_EQ(w.finish(one), atomic_outcome::done);
  EXPECT_EQ(one.old, 9u);
  w.expect_quiet();
}

TEST(remote_atomics, on_request__garbage_is_dropped_and_counted) {
  atomics_world w;
  std::array<std::uint64_t, 8> words{};
  const wire::name region = w.name_of(w[1].expose(words.data(), sizeof(words)));
  proto::single_arrival sink(w[1].queues->host);
  std::mt19937_64 random = seeded(1);
  const auto tell = [&](wire::kind what, const void* body, std::size_t size) {
    EXPECT_EQ(sink.on_message(
                  {0, wire::kind_imm(what), static_cast<const std::byte*>(body), size, nullptr}),
              lci::net::verdict::taken);
  };
  const auto before = w.dropped(1);
  std::array<std::byte, 96> bytes{};
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    if (size != sizeof(wire::atomic)) tell(wire::kind::atomic, bytes.data(), size);
    if (size != sizeof(wire::atomic_end)) tell(wire::kind::atomic_end, bytes.data(), size);
  }
  EXPECT_EQ(w.dropped(1), before + 2 * 97 - 2);
  for (int i = 0; i < 400; ++i) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    wire::atomic body;
    std::memcpy(static_cast<void*>(&body), bytes.data(), sizeof(body));
    if (i % 2 == 0) body.region = region;
    if (i % 4 == 0) body.change.size = i % 8 == 0 ? 8 : 4;
    tell(wire::kind::atomic, &body, sizeof(body));
    if (i % 16 == 0) tell(wire::kind::atomic_end, bytes.data(), sizeof(wire::atomic_end));
    w.step(1);
  }
  for (const std::uint64_t word : words) EXPECT_EQ(word, 0u);
  w.expect_quiet();
}

TEST(remote_atomics, start__each_allocation_may_fail) {
  for_each_allocation([](std::uint64_t n) {
    sim_options options;
    options.depth = 2;
    atomics_world w(options);
    w.thrown.reserve(64);
    std::uint64_t word = 0;
    const wire::name region = w.name_of(w[1].expose(&word, sizeof(word)));
    std::array<asked, 40> all;
    const fail_nth_new failing(n);
    for (asked& one : all) {
      one.rank = 1;
      one.region = region;
      one.change = add(1);
      w.post(0, one);
    }
    for (asked& one : all) EXPECT_EQ(w.finish(one), atomic_outcome::done);
    EXPECT_EQ(word, all.size());
    EXPECT_TRUE(w.thrown.empty());
    w.expect_quiet();
    return failing.fired();
  });
}

// More answers than can wait without memory.
TEST(remote_atomics, reply__that_there_is_no_memory_for_goes_later) {
  if (!CAN_NEW_FAIL) GTEST_SKIP() << "this sanitizer has an operator new of its own";
  sim_options options;
  options.depth = 1;
  atomics_world w(options);
  std::uint64_t word = 0;
  const wire::name region = w.name_of(w[1].expose(&word, sizeof(word)));
  std::array<asked, 100> all;
  bool has_waited = false;
  std::size_t posted = 0;
  // Rank 0 does not look, so that its network takes no answers.
  for (int i = 0; i < 2000 && posted < all.size(); ++i) {
    asked& one = all[posted];
    one.rank = 1;
    one.region = region;
    one.change = add(1);
    if (w.of(0).start(one) == errorcode_t::posted) ++posted;
    const fail_nth_new failing(i % 4 == 3 ? 2 : 1);
    w[1].queues->progress();
    has_waited |= w.of(1).is_waiting();
  }
  EXPECT_EQ(posted, all.size());
  EXPECT_TRUE(has_waited);
  EXPECT_FALSE(w[1].queues->is_drained());
  for (asked& one : all) EXPECT_EQ(w.finish(one), atomic_outcome::done);
  EXPECT_EQ(word, all.size());
  EXPECT_TRUE(w.thrown.empty());
  w.expect_quiet();
}

// Threads of two ranks, which also poll; a third one's words.
TEST(remote_atomics, start__many_threads) {
  constexpr int RANKS = 2, THREADS = 2, EACH = 200;
  atomics_world w({}, RANKS);
  alignas(8) std::array<std::uint64_t, 4> words{};
  const wire::name region = w.name_of(w[1].expose(words.data(), sizeof(words)));
  std::atomic<int> running{RANKS * THREADS};
  std::vector<std::thread> threads;
  const auto turn = [](node& mine) {
    if (!lci::error_t(mine.queues->progress()).is_done()) std::this_thread::yield();
  };
  for (int t = 0; t < RANKS * THREADS; ++t)
    threads.emplace_back([&, t] {
      node& mine = w[t % RANKS];
      struct counted final : proto::atomic_request {
        void on_atomic(atomic_outcome how) noexcept override {
          is_good = how == atomic_outcome::done;
          is_over.store(true, std::memory_order_release);  // edge atomics_test.over
        }
        std::atomic<bool> is_over{false};
        bool is_good = false;
      };
      for (int i = 0; i < EACH; ++i) {
        counted one;
        one.rank = 1;
        one.region = region;
        one.offset = static_cast<std::uint64_t>(i % 4) * 8;
        one.change = add(1, i % 4 == 3 ? 4 : 8);
        while (proto::is_retry(mine.queues->atomics.start(one))) turn(mine);
        // edge atomics_test.over
        while (!one.is_over.load(std::memory_order_acquire)) turn(mine);
        EXPECT_TRUE(one.is_good);
      }
      running.fetch_sub(1, std::memory_order_relaxed);
      while (running.load(std::memory_order_relaxed) != 0) turn(mine);
    });
  for (std::thread& one : threads) one.join();
  for (const std::uint64_t word : words) EXPECT_EQ(word, RANKS * THREADS * EACH / 4u);
  w.expect_quiet();
}
