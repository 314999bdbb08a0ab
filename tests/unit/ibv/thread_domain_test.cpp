// Queue pairs live where ibv_td_strategy says, on cards that have such a place.
#include "backends/ibv/thread_domain.hpp"

#include <thread>

#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

using strategy = attr_ibv_td_strategy_t;

class thread_domain_test : public on_a_card {
 protected:
  static void use_card(bool has_domains) {
    test::fake_ibv_config config;
    config.devices[0].has_thread_domains = has_domains;
    card().reset(config);
  }
  // Three ranks that have met; domains that there are.
  std::size_t domains_with(strategy wanted) {
    auto g = open(3, {.ibv_td_strategy = wanted});
    for (const int rank : {1, 2}) meet(*g, 0, rank);
    return card().live().tds;
  }
  strategy made(strategy wanted) {
    auto g = open(1);
    net::device_config config{.ibv_td_strategy = wanted};
    const auto device = at(0).make_device(1, config);
    return config.ibv_td_strategy;
  }
};

TEST_F(thread_domain_test, strategy__says_how_many_there_are) {
  use_card(true);
  EXPECT_EQ(domains_with(strategy::none), 0u);
  EXPECT_EQ(domains_with(strategy::all_qp), 3u) << "one for each rank's device";
  EXPECT_EQ(domains_with(strategy::per_qp), 4u) << "one at each end of a connection";
}

TEST_F(thread_domain_test, strategy__is_none_where_the_card_has_none_and_says_so) {
  for (const strategy wanted : {strategy::none, strategy::all_qp, strategy::per_qp}) {
    use_card(true);
    EXPECT_EQ(made(wanted), wanted);
    use_card(false);
    EXPECT_EQ(made(wanted), strategy::none);
    EXPECT_EQ(domains_with(wanted), 0u);
  }
}

// The card has no more of them, or fails half-way: the connection comes about all the same.
TEST_F(thread_domain_test, per_qp__that_cannot_be_had_is_done_without) {
  for (const char* call : {"ibv_alloc_td", "ibv_alloc_parent_domain"}) {
    use_card(true);
    auto g = open(2);
    card().fail_nth(call, 1, ENOMEM, 1 << 30);
    meet(*g, 0, 1);
    EXPECT_EQ(card().live().tds, 0u) << call;
    card().reset_failures();
  }
}

// One lock for all: the card would complain about two posts at the same time.
TEST_F(thread_domain_test, all_qp__threads_that_post_to_different_peers_take_turns) {
  use_card(true);
  auto g = open(3, {.ibv_td_strategy = strategy::all_qp});
  for (const int rank : {1, 2}) meet(*g, 0, rank);
  constexpr std::uint32_t N = 5000;
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (const int rank : {1, 2}) {
    threads.emplace_back([&, rank] {
      for (std::uint32_t i = 0; i < N; ++i)
        while (send(*g, 0, rank, i) != errorcode_t::done) std::this_thread::yield();
      ++done;
    });
  }
  while (done != 2) g->poll();
  for (auto& one : threads) one.join();
  ASSERT_TRUE(g->until(
      [&] { return g->at(1).seen().arrived() > N && g->at(2).seen().arrived() > N; }, "all"));
}

}  // namespace
}  // namespace lci::ibv
