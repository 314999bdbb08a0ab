// Posts and waits that were captured in a graph: once per replay, and what becomes of them when
// they are freed.
#include "tests/support/must_fire.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/proto/stream_ops_world.hpp"

namespace lci::proto {
namespace {

using test::ints;
using test::notes;
using test::stream_ops_test;

TEST_F(stream_ops_test, captured_post__nothing_until_the_graph_runs) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  ASSERT_NE(op, nullptr);
  const auto graph = streams().end_capture(S);
  streams().run(S);
  EXPECT_EQ(advance(), 0u);
  EXPECT_FALSE(ops.is_waited_for(&device));
  ops.free(op);
  EXPECT_TRUE(streams().taken.empty());
  EXPECT_FALSE(of.is_busy());
}

TEST_F(stream_ops_test, captured_post__one_per_replay_however_seldom_somebody_looks) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  const auto graph = streams().end_capture(S);
  for (int i = 0; i < 100; ++i) streams().launch(graph, T);
  streams().run(T);
  EXPECT_FALSE(streams().is_idle(T)) << "the second replay waits until the first was seen";
  EXPECT_TRUE(ops.is_waited_for(&device));
  for (int i = 1; i <= 100; ++i) {
    EXPECT_EQ(advance(), 1u);
    EXPECT_EQ(advance(), 0u);
    streams().run(T);
  }
  EXPECT_EQ(started(), ints(100, 1));
  EXPECT_TRUE(streams().is_idle(T));
  ops.free(op);
}

// Must fire: what the wait in the graph is for.
TEST_F(stream_ops_test, captured_post__without_its_wait_replays_are_lost) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  auto graph = streams().end_capture(S);
  ASSERT_EQ(graph.size(), 2u);
  graph.pop_front();
  for (int i = 0; i < 100; ++i) streams().launch(graph, T);
  streams().run(T);
  for (int i = 0; i < 100; ++i) advance();
  EXPECT_LT(started().size(), 100u);
  ops.free(op);
}

TEST_F(stream_ops_test, captured_post__refused__the_next_replay_waits) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  const auto graph = streams().end_capture(S);
  streams().launch(graph, T);
  streams().launch(graph, T);
  streams().run(T);
  notes().refuse = 3;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(advance(), 0u);
    streams().run(T);
    EXPECT_FALSE(streams().is_idle(T));
  }
  EXPECT_EQ(advance(), 1u);
  streams().run(T);
  EXPECT_TRUE(streams().is_idle(T));
  EXPECT_EQ(advance(), 1u);
  EXPECT_EQ(started(), (ints{1, 1}));
  ops.free(op);
}

TEST_F(stream_ops_test,
       captured_posts__the_first_of_a_replay_does_not_overtake_the_last_of_the_one_before) {
  streams().begin_capture(S);
  stream_op_impl_t* const a = post(S, 1);
  stream_op_impl_t* const b = post(S, 2);
  const auto graph = streams().end_capture(S);
  for (int i = 0; i < 3; ++i) streams().launch(graph, T);
  notes().refuse_one = 2;
  for (int i = 0; i < 3; ++i) {
    streams().run(T);
    advance();
  }
  EXPECT_EQ(started(), ints{1});  // the second replay has triggered it again
  notes().refuse_one = 0;
  for (int i = 0; i < 4; ++i) {
    advance();
    streams().run(T);
  }
  EXPECT_EQ(started(), (ints{1, 2, 1, 2, 1, 2}));
  ops.free(a);
  ops.free(b);
}

TEST_F(stream_ops_test, captured_posts__keep_their_order_when_the_stream_goes_on_during_a_look) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  constexpr int POSTS = 3, REPLAYS = 500;
  streams().begin_capture(S);
  std::vector<stream_op_impl_t*> posts;
  for (int i = 0; i < POSTS; ++i) posts.push_back(post(S, i + 1));
  const auto graph = streams().end_capture(S);
  for (int i = 0; i < REPLAYS; ++i) streams().launch(graph, T);
  auto random = test::seeded(43);
  test::race_hook hook("stream_ops.look.between_words", [&] {
    for (auto steps = random() % 4; steps > 0; --steps) streams().step(T);
  });
  while (started().size() < POSTS * REPLAYS) advance();
  EXPECT_GT(hook.hits(), 0);
  ints expected;
  for (int i = 0; i < POSTS * REPLAYS; ++i) expected.push_back(i % POSTS + 1);
  EXPECT_EQ(started(), expected);
  for (stream_op_impl_t* const op : posts) ops.free(op);
}

TEST_F(stream_ops_test, free__inside_the_post__ends_when_it_is_over) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  streams().launch(streams().end_capture(S), T);
  streams().run(T);
  notes().inside = [&] { ops.free(op); };
  EXPECT_EQ(advance(), 1u);
  EXPECT_FALSE(ops.any());
  EXPECT_TRUE(streams().taken.empty());
}

TEST_F(stream_ops_test, free__triggered_and_not_seen_yet__starts_first) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  streams().launch(streams().end_capture(S), T);
  streams().run(T);
  ops.free(op);
  EXPECT_TRUE(ops.is_waited_for(&device));
  EXPECT_TRUE(test::throws_with<argument_error>([&] { ops.free(op); }, {"freed before"}));
  notes().refuse = 1;
  EXPECT_EQ(advance(), 0u);
  EXPECT_TRUE(ops.is_waited_for(&device));
  EXPECT_EQ(advance(), 1u);
  EXPECT_EQ(started(), ints{1});
  EXPECT_FALSE(ops.any());
  EXPECT_TRUE(streams().taken.empty());
}

TEST_F(stream_ops_test, free__inside_the_post_before__starts_in_its_turn) {
  streams().begin_capture(S);
  std::vector<stream_op_impl_t*> posts;
  for (int i = 0; i < 3; ++i) posts.push_back(post(S, i + 1));
  streams().launch(streams().end_capture(S), T);
  streams().run(T);
  notes().inside = [&] {
    for (stream_op_impl_t* const op : std::exchange(posts, {})) ops.free(op);
  };
  EXPECT_EQ(advance(), 3u);
  EXPECT_EQ(started(), (ints{1, 2, 3}));
  EXPECT_FALSE(ops.any());
  EXPECT_TRUE(streams().taken.empty());
}

TEST_F(stream_ops_test, close__freed_and_triggered__the_word_is_put_back) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = post(S, 1);
  streams().launch(streams().end_capture(S), T);
  streams().run(T);
  ops.free(op);
  ops.close();
  EXPECT_FALSE(ops.any());
  EXPECT_TRUE(streams().taken.empty());
  EXPECT_FALSE(op->is_live());
}

TEST_F(stream_ops_test, captured_wait__one_round_per_replay) {
  streams().begin_capture(S);
  stream_op_impl_t* const op = ops.add_wait(S, comp_t(sync));
  ASSERT_NE(op, nullptr);
  const auto graph = streams().end_capture(S);
  for (int i = 0; i < 50; ++i) {
    streams().launch(graph, T);
    streams().run(T);
    advance();
    streams().run(T);
    EXPECT_FALSE(streams().is_idle(T));
    signal();
    advance();
    streams().run(T);
    EXPECT_TRUE(streams().is_idle(T));
  }
  ops.free(op);
  EXPECT_TRUE(streams().taken.empty());
}

}  // namespace
}  // namespace lci::proto
