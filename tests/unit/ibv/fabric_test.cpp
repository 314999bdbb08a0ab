#include "backends/ibv/fabric.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class fabric_test : public on_a_card {
 protected:
  // Connections that are wanted at once: each device's, to one peer.
  static constexpr int CALLS = 40;
  static errorcode_t send_over(test::group& g, int from, int device) {
    const std::uint32_t word = 7;
    return g.at(from).to(device).send_inline(1 - from, 7, nullptr, 0, &word, sizeof(word));
  }
  // Two ranks, of which rank 0 wants all of them.
  std::unique_ptr<test::group> open_calling() {
    net::device_config wanted;
    wanted.max_recvs = 16;
    auto g = open(2, CALLS, {}, wanted);
    for (int device = 0; device < CALLS; ++device)
      EXPECT_EQ(send_over(*g, 0, device), errorcode_t::retry_nomem);
    return g;
  }
  // Opens a rank with a device while the n-th call of that name fails; what was thrown, if
  // anything.
  std::string open_with_failure(const char* call, int n, int error) {
    card().reset();
    card().fail_nth(call, n, error);
    try {
      open(1);
    } catch (const backend_error& problem) {
      return problem.what();
    }
    return "";
  }
};

TEST_F(fabric_test, set_up__any_failing_call_throws_its_name_and_leaves_nothing) {
  // Called, and the word that the message has.
  const std::pair<const char*, const char*> calls[] = {
      {"ibv_get_device_list", "device"},    {"ibv_open_device", "opened"},
      {"ibv_query_device", "queried"},      {"ibv_query_port", "queried"},
      {"ibv_alloc_pd", "ibv_alloc_pd"},     {"ibv_reg_mr", "ibv: "},
      {"ibv_create_cq", "ibv_create_cq"},   {"ibv_create_qp", "ibv_create_qp"},
      {"ibv_modify_qp", "ibv_modify_qp"},   {"post_recv", "ibv_post_recv"},
      {"ibv_create_srq", "ibv_create_srq"}, {"post_srq_recv", "could not be posted"}};
  for (const auto& [call, word] : calls) {
    ASSERT_EQ(open_with_failure(call, 1 << 30, ENOMEM), "");
    const auto times = static_cast<int>(card().count(call));
    EXPECT_GT(times, 0) << call;
    for (int n = 1; n <= std::min(times, 40); ++n) {
      const std::string said = open_with_failure(call, n, ENOMEM);
      EXPECT_NE(said.find(word), std::string::npos)
          << call << ", time " << n << ": \"" << said << '"';
      EXPECT_NE(said, "") << call << ", time " << n;
      EXPECT_EQ(card().live().all(), 0u) << call << ", time " << n;
    }
  }
}

// The limit of the card is found out and named; what fits is used.
TEST_F(fabric_test, max_inject__beyond_what_a_queue_pair_inlines_is_an_error_that_says_the_limit) {
  for (const std::uint32_t most : {88u, 97u, 512u}) {
    test::fake_ibv_config config;
    config.devices[0].max_inline = most;
    card().reset(config);
    const auto ask = [&](std::size_t wanted) {
      open(1, 1, [=](net::fabric_config& c) { c.max_inject_wanted = wanted; });
    };
    EXPECT_NO_THROW(ask(64));
    EXPECT_NO_THROW(ask(most));
    for (const std::size_t wanted : {most + 1u, 4096u}) {
      try {
        ask(wanted);
        ADD_FAILURE() << wanted << " of " << most;
      } catch (const backend_error& problem) {
        const std::string said = problem.what();
        EXPECT_NE(said.find("max_inject_size " + std::to_string(wanted)), std::string::npos)
            << said;
        EXPECT_TRUE(said.ends_with("at most " + std::to_string(most))) << said;
      }
    }
  }
  test::fake_ibv_config config;
  config.devices[0].max_inline = 79;
  card().reset(config);
  EXPECT_THROW(open(1), backend_error) << "too little for our own messages";
}

TEST_F(fabric_test, device_index__outside_is_refused) {
  auto g = open(1);
  EXPECT_THROW(at(0).make_device(-1), backend_error);
  EXPECT_THROW(at(0).make_device(1024), backend_error);
}

TEST_F(fabric_test, device_index__may_be_high) {
  auto g = open(2);
  expect_a_message_over(*g, 1023);
}

TEST_F(fabric_test, connecting__any_call_that_fails_once_is_made_again) {
  for (const char* call : {"ibv_create_qp", "ibv_modify_qp", "ibv_create_ah", "post_send",
                           "post_recv", "post_srq_recv", "ibv_reg_mr"}) {
    for (int n = 1; n <= 8; ++n) {
      card().reset();
      auto g = open(2);
      card().fail_nth(call, n, ENOMEM);
      meet(*g, 0, 1);
      ASSERT_FALSE(testing::Test::HasFailure()) << call << ", time " << n;
    }
  }
}

// A connection that is not kept for want of memory is not in the map of queue pairs' numbers
// either: it would be found after its end, and the map has no more places than all ranks need.
TEST_F(fabric_test, make_connection__that_is_not_kept_leaves_nothing) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  auto g = open(2);
  const auto queues = [&]() -> event_queue& {
    return at(0).devices().get(0, []() -> std::unique_ptr<event_queue> { return nullptr; });
  };
  const test::alloc_counter all;
  queues().make_connection(1);
  const std::uint64_t last = all.allocations();
  g.reset();
  card().reset();
  g = open(2);
  const std::size_t before = card().live().qps;
  for (int i = 0; i < 20; ++i) {
    const test::fail_nth_allocation short_of(last);
    EXPECT_THROW(queues().make_connection(1), std::bad_alloc);
    EXPECT_EQ(card().live().qps, before);
  }
  meet(*g, 0, 1);
}

// Nobody posts again: the wish itself has to last, and others are granted meanwhile.
TEST_F(fabric_test, connect__that_cannot_be_granted_now_is_granted_later) {
  auto g = open(4);
  const std::size_t before = card().live().qps;
  card().fail_nth("ibv_create_qp", 1, ENOMEM);
  for (int rank = 1; rank < 4; ++rank) at(0).connect(rank);
  g->at(0).poll();
  EXPECT_EQ(card().live().qps, before + 2) << "two of three";
  ASSERT_TRUE(g->until([&] { return card().live().qps == before + 6; }, "all connections"));
}

// Each has called the other, and no answer was heard when one of them leaves.
TEST_F(fabric_test, leave__in_the_middle_of_a_call_is_no_death) {
  auto g = open(2);
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}}) {
    EXPECT_EQ(send(*g, from, to), errorcode_t::retry_nomem);
    g->at(from).poll();
  }
  card().change(datagrams(1, 0, 0));  // what was said by now is all that is heard
  g->at(1).poll();
  card().change({});
  g->close(1, true);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_TRUE(g->at(0).seen().gone()[0].orderly);
}

// Its last hello is read while the one that leaves waits for another one.
TEST_F(fabric_test, leave__of_who_becomes_connected_meanwhile_is_no_death) {
  auto g = open(3);
  meet(*g, 0, 2);
  EXPECT_EQ(send(*g, 1, 0), errorcode_t::retry_nomem);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  g->at(0).poll();
  g->at(1).poll();
  g->close(0, true);
  ASSERT_TRUE(until_gone(*g, 1));
  EXPECT_TRUE(g->at(1).seen().gone()[0].orderly);
}

// More calls than there are places for hellos: what cannot be said now is said at the next look,
// however soon that is, and not after the time in which an answer may come.
TEST_F(fabric_test, connect__more_than_can_be_said_at_once) {
  auto g = open_calling();
  const auto look = [&] { g->at(0).devices[0]->poll(g->at(0).seen(), 32); };
  const std::size_t before = card().live().qps;
  look();
  for (int i = 0; i < 64; ++i) g->at(1).poll();  // one of these looks
  EXPECT_LT(card().live().qps, before + 2 * CALLS) << "the test calls too few";
  look();
  for (int i = 0; i < 64; ++i) g->at(1).poll();
  EXPECT_EQ(card().live().qps, before + 2 * CALLS);
}

TEST_F(fabric_test, leave__is_heard_by_more_than_can_be_told_at_once) {
  auto g = open_calling();
  card().change(datagrams(1, 0, 0));
  for (int device = 0; device < CALLS; ++device)
    EXPECT_EQ(send_over(*g, 1, device), errorcode_t::retry_nomem);
  for (const int rank : {0, 1}) g->at(rank).devices[0]->poll(g->at(rank).seen(), 32);
  card().change({});
  g->close(0, true);
  ASSERT_TRUE(g->until(
      [&] {
        for (int device = 0; device < CALLS; ++device)
          if (g->at(1).seen(device).gone().empty()) return false;
        return true;
      },
      "every device to hear it"));
  for (int device = 0; device < CALLS; ++device)
    EXPECT_TRUE(g->at(1).seen(device).gone()[0].orderly) << device;
}

TEST_F(fabric_test, killed_peer__is_gone_without_leave) {
  auto g = open(2);
  meet(*g, 0, 1);
  card().kill(1);
  ASSERT_TRUE(until_gone(*g, 0));  // by a keepalive: nothing is sent
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
}

TEST_F(fabric_test, leave__with_a_dead_peer_ends_in_the_time_of_the_card) {
  test::fake_ibv_config config;
  config.waits_for_dead = true;
  card().reset(config);
  auto g = open(2);
  meet(*g, 0, 1);
  card().kill(1);
  const auto start = std::chrono::steady_clock::now();
  at(0).leave();
  // Twice 4 us * 2^8, and not the 5 s after which nobody waits any longer.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

// 1000 ranks, of which rank 0 talks to 10: what a connection costs, and what there is besides.
class big_book final : public net::address_book {
 public:
  big_book(net::address_book& inner) : inner_(inner) {}
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return 1000; }
  std::string lookup(int rank) override { return rank < inner_.size() ? inner_.lookup(rank) : ""; }

 private:
  net::address_book& inner_;
};

// What malloc has handed out and not got back; sanitizers answer 0.
std::size_t heap_in_use() noexcept {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST_F(fabric_test, thousand_ranks__cost_what_is_talked_to) {
  std::vector<std::unique_ptr<big_book>> books;
  constexpr std::size_t MIB = 1 << 20, PEERS = 10;
  const std::size_t heap_before = heap_in_use();
  auto g = open(1 + PEERS, 1, [&](net::fabric_config& config) {
    books.push_back(std::make_unique<big_book>(*config.book));
    config.book = books.back().get();
  });
  const auto before = card().live();
  const std::size_t registered = card().registered_bytes();
  for (int rank = 1; rank <= static_cast<int>(PEERS); ++rank) meet(*g, 0, rank);
  const auto after = card().live();
  EXPECT_EQ(after.qps - before.qps, 2 * PEERS) << "one at each end";
  EXPECT_EQ(after.cqs, before.cqs);
  EXPECT_EQ(after.srqs, before.srqs);
  EXPECT_EQ(after.ahs - before.ahs, 2 * PEERS);
  // The table of regions and the test's own packets are not the network's.
  const test::member bare;
  const std::size_t committed = g->at(0).arena.committed() - bare.arena.committed();
  // With what the test and its card keep, so it is too much rather than too little.
  const std::size_t heap = heap_in_use() - heap_before;
  std::printf(
      "heap of all 11 ranks: %zu KiB; rank 0: %zu KiB of arena for the network; registered by 11 "
      "ranks: %zu KiB, %zu KiB of it by "
      "%zu"
      " connections\n",
      heap / 1024, committed / 1024, card().registered_bytes() / 1024,
      (card().registered_bytes() - registered) / 1024, PEERS);
  EXPECT_LE(committed + heap, 32 * MIB + PEERS * 64 * 1024);
  EXPECT_EQ(card().registered_bytes(), registered);
}

}  // namespace
}  // namespace lci::ibv
