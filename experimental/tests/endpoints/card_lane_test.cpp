// Queues of endpoints over cards between ranks: both ends find each other, what a thread puts is at
// the other rank, and what cannot be made there is an error here.
#include "lci/proxy/card_lane.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "experimental/tests/endpoints/cards_job.hpp"

namespace lci::ibv {
namespace {

using gpu::status;
using test::cards_job;

class between_ranks : public testing::Test {
 protected:
  between_ranks() {
    environment_.set("LCI_IBV_TIMEOUT", "8");
    environment_.set("LCI_IBV_RETRY", "1");
    card().reset();
    maker().reset();
    global_initialize();
    g_default_attr.backend = attr_backend_t::ibv;
    g_default_attr.shm_enable = false;
  }
  ~between_ranks() override {
    job_.reset();
    EXPECT_TRUE(maker().queues().empty()) << "a queue has outlived its endpoint";
    global_finalize();
    g_default_attr = before_;
    EXPECT_EQ(card().live().all(), 0u);
  }
  cards_job& start(int ranks) {
    job_ = std::make_unique<cards_job>(ranks);
    return *job_;
  }
  // Carries out what is in all queues while every rank makes progress.
  void each_with_cards(const std::function<void(cards_job::member&, int)>& step) {
    std::map<std::uint32_t, std::unique_ptr<stand_in_card>>& cards = cards_;
    for (const test::fake_direct_queue& one : maker().queues()) {
      if (one.max_send_wr <= 1 || cards.contains(one.qpn)) continue;
      cards[one.qpn] = std::make_unique<stand_in_card>(one);
      cards[one.qpn]->looks_at_peer = true;
    }
    std::atomic<bool> is_over{false};
    std::thread all_cards([&] {
      while (!is_over.load()) {
        for (auto& [number, each] : cards) each->progress();
        std::this_thread::yield();
      }
    });
    job_->each(step);
    is_over.store(true);
    all_cards.join();
  }
  // The ends of queue pairs that were made for others.
  static std::size_t targets() {
    std::size_t out = 0;
    for (const test::fake_direct_queue& one : maker().queues())
      if (one.max_send_wr == 1) ++out;
    return out;
  }
  // Each rank writes to each, and reads back.
  void put_all_to_all(attr_gpu_tier_t tier, int ranks) {
    constexpr std::uint32_t PIECE = 300;
    cards_job& job = start(ranks);
    job.make_endpoints(tier);
    EXPECT_EQ(targets(), static_cast<std::size_t>(ranks * (ranks - 1)));
    each_with_cards([&](cards_job::member& m, int me) {
      std::memset(m.memory, me + 1, PIECE);
      const gpu::key_t own = job.key_at(me, me);
      for (int to = 0; to < ranks; ++to) {
        const gpu::place_t there{job.key_at(me, to), 1024 + std::uint64_t(me) * PIECE};
        ASSERT_EQ(gpu::put(m.ep, to, there, {own, 0}, PIECE), status::ok);
        ASSERT_EQ(gpu::get(m.ep, to, {own, 4096 + std::uint64_t(to) * PIECE}, there, PIECE),
                  status::ok);
      }
      // A thread waits, as a kernel does; the host makes progress.
      std::atomic<bool> is_over{false};
      status said = status::nothing;
      std::thread kernel([&] {
        said = gpu::quiet(m.ep);
        is_over.store(true);
      });
      while (!is_over.load()) m.progress();
      kernel.join();
      EXPECT_EQ(said, status::ok);
    });
    for (int at = 0; at < ranks; ++at) {
      EXPECT_EQ(job.why(at), "");
      for (const gpu_request_error& one : job.at(at).thrown) ADD_FAILURE() << one.what();
      for (int from = 0; from < ranks; ++from)
        for (std::uint32_t i = 0; i < PIECE; ++i) {
          ASSERT_EQ(job.at(at).memory[1024 + from * PIECE + i], from + 1);
          ASSERT_EQ(job.at(at).memory[4096 + from * PIECE + i], at + 1);
        }
    }
  }

  // What a rank's kernel adds to all ranks, and what it has found in their words before. In each
  // round it puts a number to each, with a signal that adds behind it, and waits for those of all.
  struct adder {
    static constexpr std::uint64_t ROUNDS = 8, TOTAL = 0, SIGNALS = 64, SOURCE = 512;
    static constexpr std::uint64_t NUMBERS = 1024, OLD = 4096;
    // Of a round and the one before, so that none is written while it is looked at.
    static std::uint64_t number_at(std::uint64_t from, std::uint64_t round) {
      return NUMBERS + 8 * (2 * from + round % 2);
    }
    std::uint64_t* word(std::uint64_t offset) const {
      return reinterpret_cast<std::uint64_t*>(mine->memory + offset);
    }
    status add_in_round(std::uint64_t round, int to) {
      const gpu::key_t& there = keys[static_cast<std::size_t>(to)];
      status s = gpu::put_signal(mine->ep, to, {there, number_at(me, round)}, {own, SOURCE}, 8,
                                 {there, SIGNALS + 8 * me}, 1, gpu::signal_op::add);
      std::uint64_t old = 0;
      if (s == status::ok) s = gpu::fetch_add(mine->ep, to, {there, TOTAL}, std::uint64_t{1}, &old);
      found.emplace_back(to, old);
      if (s == status::ok)
        s = gpu::fetch_add(mine->ep, to, {there, TOTAL}, std::uint64_t{1}, {own, OLD});
      found.emplace_back(to, *word(OLD));
      return s == status::ok ? gpu::add(mine->ep, to, {there, TOTAL}, std::uint64_t{1} << 32) : s;
    }
    status run() {
      for (std::uint64_t round = 1; round <= ROUNDS; ++round) {
        *word(SOURCE) = round;
        for (std::size_t to = 0; to < keys.size(); ++to)
          if (const status s = add_in_round(round, static_cast<int>(to)); s != status::ok) return s;
        for (std::size_t from = 0; from < keys.size(); ++from) {
          const status s = gpu::wait_until(mine->ep, word(SIGNALS + 8 * from),
                                           gpu::comparison::greater_equal, round);
          if (s != status::ok) return s;
          EXPECT_EQ(*word(number_at(from, round)), round) << "the signal came before its data";
        }
      }
      return status::ok;
    }
    cards_job::member* mine = nullptr;
    std::uint64_t me = 0;
    gpu::key_t own;
    std::vector<gpu::key_t> keys;  // by rank
    std::vector<std::pair<int, std::uint64_t>> found;
  };
  void add_all_to_all(attr_gpu_tier_t tier, int ranks) {
    cards_job& job = start(ranks);
    job.make_endpoints(tier);
    std::vector<adder> all(static_cast<std::size_t>(ranks));
    each_with_cards([&](cards_job::member& m, int me) {
      adder& one = all[static_cast<std::size_t>(me)];
      one.mine = &m;
      one.me = static_cast<std::uint64_t>(me);
      one.own = job.key_at(me, me);
      for (int to = 0; to < ranks; ++to) one.keys.push_back(job.key_at(me, to));
      std::atomic<bool> is_over{false};
      status said = status::nothing;
      std::thread kernel([&] {
        said = one.run();
        is_over.store(true);
      });
      while (!is_over.load()) {
        m.progress();
        std::this_thread::yield();  // there are more threads than cores
      }
      kernel.join();
      EXPECT_EQ(said, status::ok);
    });
    const std::uint64_t each = adder::ROUNDS * static_cast<std::uint64_t>(ranks);
    std::set<std::pair<int, std::uint64_t>> found;
    for (const adder& one : all)
      for (const auto& [to, old] : one.found) found.emplace(to, old & 0xffffffffu);
    EXPECT_EQ(found.size(), 2 * each * static_cast<std::uint64_t>(ranks))
        << "two have found the same";
    for (int at = 0; at < ranks; ++at) {
      EXPECT_EQ(job.why(at), "");
      for (const gpu_request_error& one : job.at(at).thrown) ADD_FAILURE() << one.what();
      EXPECT_EQ(*all[static_cast<std::size_t>(at)].word(adder::TOTAL), each << 32 | 2 * each);
    }
  }

  test::scoped_env environment_;
  const global_attr_t before_ = g_default_attr;
  std::unique_ptr<cards_job> job_;
  std::map<std::uint32_t, std::unique_ptr<stand_in_card>> cards_;
};

TEST_F(between_ranks, gpu_direct__two_ranks_write_to_each_other) {
  put_all_to_all(attr_gpu_tier_t::gpu_direct, 2);
}
TEST_F(between_ranks, cpu_rings__four_ranks_write_to_each_other) {
  put_all_to_all(attr_gpu_tier_t::cpu_rings, 4);
}

// The stand-in fails atomic operations, as a card would: these go past it.
TEST_F(between_ranks, gpu_direct__two_ranks_add_to_each_other) {
  add_all_to_all(attr_gpu_tier_t::gpu_direct, 2);
}
TEST_F(between_ranks, cpu_rings__four_ranks_add_to_each_other) {
  add_all_to_all(attr_gpu_tier_t::cpu_rings, 4);
}

// Numbers of both ends: each queue's peer is a pair whose peer it is.
TEST_F(between_ranks, cpu_forwards__both_ends_know_each_other) {
  cards_job& job = start(3);
  job.make_endpoints(attr_gpu_tier_t::cpu_forwards);
  std::map<std::uint32_t, std::uint32_t> peers;
  for (const test::fake_direct_queue& one : maker().queues()) {
    EXPECT_TRUE(one.is_connected);
    peers[one.qpn] = one.peer;
  }
  EXPECT_EQ(peers.size(), 3u * 3 + 3 * 2) << "to each rank, and for each other one";
  for (const auto& [number, peer] : peers) EXPECT_EQ(peers[peer], number);
}

TEST_F(between_ranks, free__ends_both_ends) {
  cards_job& job = start(2);
  job.make_endpoints(attr_gpu_tier_t::gpu_direct);
  EXPECT_EQ(targets(), 2u);
  job.each([](cards_job::member& m, int me) {
    if (me == 0) free_gpu_endpoint(&m.ep);
  });
  job.each([](cards_job::member& m, int) {
    while (m.device.p_impl->queues.pairs.count() > 1) m.progress();
  });
  // What rank 0 has freed is gone at rank 1; the other direction stays.
  job.each([&](cards_job::member& m, int me) {
    while (me == 1 && m.device.p_impl->queues.pairs.count() != 0) m.progress();
  });
  EXPECT_EQ(targets(), 1u);
}

// Without endpoints of its own a rank serves others.
TEST_F(between_ranks, one_sided__the_other_rank_has_no_endpoint) {
  cards_job& job = start(2);
  job.each([&](cards_job::member& m, int me) {
    if (me == 0) m.ep = cards_job::make_endpoint(m, attr_gpu_tier_t::gpu_direct);
  });
  EXPECT_EQ(job.why(0), "");
  each_with_cards([&](cards_job::member& m, int me) {
    if (me != 0) return;
    m.memory[0] = 42;
    ASSERT_EQ(gpu::put(m.ep, 1, {job.key_at(0, 1), 100}, {job.key_at(0, 0), 0}, 1), status::ok);
    EXPECT_EQ(gpu::quiet(m.ep), status::ok);
  });
  EXPECT_EQ(job.at(1).memory[100], 42);
}

// The key is that of the memory it was asked for, and of no other.
TEST_F(between_ranks, key_of_a_freed_region__is_an_argument_error) {
  cards_job& job = start(2);
  job.make_endpoints(attr_gpu_tier_t::gpu_direct);
  job.each([&](cards_job::member& m, int me) {
    if (me != 0) return;
    EXPECT_THROW(get_gpu_key_x(job.at(1).rmr).endpoint(m.ep)(), argument_error) << "whose is it?";
  });
  EXPECT_EQ(job.why(0), "");
  mr_t other = register_memory_x(job.at(1).memory, 64).runtime(job.at(1).runtime())();
  const rmr_t name = get_rmr_x(other)();
  deregister_memory(&other);
  job.each([&](cards_job::member& m, int me) {
    if (me != 0) return;
    EXPECT_THROW(get_gpu_key_x(name).endpoint(m.ep).rank(1).runtime(m.runtime())(), argument_error);
  });
  EXPECT_EQ(job.why(0), "");
}

TEST_F(between_ranks, forced__what_a_peer_cannot_make_is_an_error_that_names_it) {
  cards_job& job = start(2);
  // The first two are rank 0's own, the third is the other end at rank 1.
  card().fail_nth("mlx5dv_create_qp", 3, ENOMEM);
  job.each([&](cards_job::member& m, int me) {
    if (me == 0) m.ep = cards_job::make_endpoint(m, attr_gpu_tier_t::gpu_direct);
  });
  card().reset_failures();
  EXPECT_NE(job.why(0).find("rank 1"), std::string::npos) << job.why(0);
  EXPECT_NE(job.why(0).find("T0"), std::string::npos) << job.why(0);
  EXPECT_TRUE(job.at(0).ep.is_empty());
  EXPECT_TRUE(maker().queues().empty()) << "nothing is left of it";
  // And once more, when it can.
  job.make_endpoints(attr_gpu_tier_t::gpu_direct);
}

// A put that the card has not carried out, and a message behind it: it waits for the card.
TEST_F(between_ranks, messages__behind_what_the_card_has_under_way) {
  cards_job& job = start(2);
  job.make_endpoints(attr_gpu_tier_t::gpu_direct);
  gpu::key_t own, there;
  job.each([&](cards_job::member&, int me) {
    if (me != 0) return;
    own = job.key_at(0, 0);
    there = job.key_at(0, 1);
  });
  cards_job::member& peer = job.at(1);
  comp_t got = alloc_cq_x().runtime(peer.runtime())();
  std::uint64_t room = 0;
  ASSERT_TRUE(post_recv_x(0, &room, sizeof(room), 3, got)
                  .device(peer.device)
                  .runtime(peer.runtime())()
                  .is_posted());
  std::memset(job.at(0).memory, 42, 300);
  std::atomic<bool> is_over{false};
  status said = status::nothing;
  std::thread kernel([&] {
    said = gpu::put(job.at(0).ep, 1, {there, 500}, {own, 0}, 300);
    if (said == status::ok) said = gpu::send_value(job.at(0).ep, 1, std::uint64_t{77}, 3);
    if (said == status::ok) said = gpu::quiet(job.at(0).ep);
    is_over.store(true);
  });
  const auto round = [&] {
    job.at(0).progress();
    peer.progress();
  };
  const wqe::send_queue_state& to_peer = *job.at(0).ep.record->peers[1].queue.state;
  const auto now = [](const std::uint64_t& word) {
    return wqe::word_at<std::uint64_t>(const_cast<std::uint64_t*>(&word))
        .load(std::memory_order_relaxed);
  };
  while (now(to_peer.reserved) == now(to_peer.done) && !is_over.load()) round();
  for (int i = 0; i < 2000; ++i) round();
  EXPECT_FALSE(is_over.load());
  EXPECT_NE(now(to_peer.reserved), now(to_peer.done)) << "nothing is under way";
  EXPECT_FALSE(cq_pop_x(got).runtime(peer.runtime())().is_done()) << "it has overtaken the put";
  std::vector<std::unique_ptr<stand_in_card>> cards;
  for (const test::fake_direct_queue& one : maker().queues())
    if (one.max_send_wr > 1) cards.push_back(std::make_unique<stand_in_card>(one));
  status_t one;
  while (!(one = cq_pop_x(got).runtime(peer.runtime())()).is_done()) {
    for (const auto& each : cards) each->progress();
    round();
  }
  EXPECT_EQ(peer.memory[799], 42);
  EXPECT_EQ(room, 77u);
  while (!is_over.load()) round();
  kernel.join();
  EXPECT_EQ(said, status::ok);
  free_comp_x(&got).runtime(peer.runtime())();
}

// Rank 1 is silent when it is asked, and then it is gone.
TEST_F(between_ranks, a_peer_that_dies_while_it_is_asked__ends_the_call) {
  cards_job& job = start(2);
  // They have met, so that the death is noticed.
  job.each([&](cards_job::member& m, int me) {
    std::uint64_t got = 0;
    status_t said;
    do {
      said = post_get_x(1 - me, &got, sizeof(got), COMP_NULL, 0, job.at(1 - me).rmr)
                 .device(m.device)();
      m.progress();
    } while (said.is_retry());
    for (int i = 0; i < 1000; ++i) m.progress();
  });
  EXPECT_EQ(job.why(0), "");
  const std::size_t sent = card().count("post_send");
  std::thread alone([&] {
    EXPECT_THROW(cards_job::make_endpoint(job.at(0), attr_gpu_tier_t::gpu_direct),
                 peer_failure_error);
  });
  // Both queues are there, and rank 0 has sent the question: nothing else was left to send.
  while (maker().queues().size() < 2 || card().count("post_send") == sent)
    std::this_thread::yield();
  card().kill(1);
  alone.join();
  EXPECT_TRUE(maker().queues().empty());
}

}  // namespace
}  // namespace lci::ibv
