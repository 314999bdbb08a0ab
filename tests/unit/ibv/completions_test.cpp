// Both kinds of completion queues answer the same; the extended kind is instantiated in
// experimental/tests/unit/ibv.
#include "backends/ibv/completions.hpp"

#include "lci/errors.hpp"
#include "tests/unit/ibv/completions_world.hpp"

namespace lci::ibv {

INSTANTIATE_TEST_SUITE_P(kinds, completions_test,
                         testing::Values(kind_of_queue{"plain", false, true}),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(completions_test, poll__is_of_that_kind_and_says_when_it_is_empty_or_fails) {
  const chosen_port port = open_best_port({});
  completions queue(port, 10);
  ibv_wc out[4];
  EXPECT_EQ(queue.poll(out, 4), 0);
  EXPECT_EQ(card().count(poll_call()), 1u);
  card().fail_nth(poll_call(), 1, EIO);
  EXPECT_LT(queue.poll(out, 4), 0);
  EXPECT_EQ(queue.poll(out, 4), 0);
}

TEST_P(completions_test, make_room__grows_to_what_peers_and_others_need) {
  const chosen_port port = open_best_port({});
  completions queue(port, 10);
  queue.make_room(2, 4, 2);
  EXPECT_EQ(queue.size(), 10u) << "there was room";
  queue.make_room(2, 4, 3);
  EXPECT_EQ(queue.size(), 20u) << "at least twice as much";
  EXPECT_EQ(queue.queue()->cqe, 20);
  queue.make_room(10, 5);
  EXPECT_EQ(queue.size(), 50u);
  card().fail_nth("ibv_resize_cq", 1, ENOMEM);
  EXPECT_THROW(queue.make_room(10, 6), backend_error);
  EXPECT_EQ(queue.size(), 50u);
}

// Messages with their bytes and words, and an operation that fails.
TEST_P(completions_test, poll__says_what_arrived_and_what_failed) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->at(1).seen().forget();
  constexpr std::uint32_t N = 100;
  for (std::uint32_t i = 0; i < N; ++i) {
    const std::vector<std::byte> bytes = test::pattern(i % 64, i);
    g->post([&] {
      return g->at(0).to().send_inline(1, 0xabc000 + i, nullptr, 0, bytes.data(), bytes.size());
    });
  }
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == N; }, "all messages"));
  const auto messages = g->at(1).seen().messages();
  for (std::uint32_t i = 0; i < N; ++i) {
    EXPECT_EQ(messages[i].rank, 0);
    EXPECT_EQ(messages[i].imm, 0xabc000 + i);
    EXPECT_EQ(messages[i].bytes, test::pattern(i % 64, i));
  }
  card().kill(1);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_GT(card().count(poll_call()), 0u);
}

}  // namespace lci::ibv
