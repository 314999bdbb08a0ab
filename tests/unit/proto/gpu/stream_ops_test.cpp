// Posts that streams start and synchronizers that they wait for, with streams that run when told
// to.
#include "lci/proto/gpu/stream_ops.hpp"

#include <gtest/gtest.h>

#include "lci/comp/sync.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/proto/fake_streams.hpp"

namespace lci::proto {
namespace {

// What the posts of a test did; their context says which it was.
struct journal {
  std::vector<int> started;
  int refuse = 0;      // the next so many posts
  int refuse_one = 0;  // this one, always
  std::function<void()> inside;
};
journal& notes() {
  static journal one;
  return one;
}

status_t fake_post(const detail::post_args& args) {
  if (notes().refuse_one == args.rank) return errorcode_t::retry_nomem;
  if (notes().refuse > 0) {
    --notes().refuse;
    return errorcode_t::retry_nomem;
  }
  notes().started.push_back(args.rank);
  if (notes().inside) notes().inside();
  if (args.rank < 0) throw argument_error("rank " + std::to_string(args.rank));
  return errorcode_t::posted;
}

class stream_ops_test : public testing::Test {
 protected:
  stream_ops_test() {
    notes() = {};
    gpus.use_any();
  }
  ~stream_ops_test() override {
    ops.close();
    notes() = {};
    base::free_live(sync, "comp");
  }
  static test::fake_streams& streams() { return *test::fake_streams::now(); }
  static comp_attr_t with_threshold(int n) {
    comp_attr_t attr;
    attr.sync_threshold = n;
    return attr;
  }
  stream_op_impl_t* post(void* stream, int number) {
    detail::post_args args;
    args.rank = number;
    args.local_comp = comp_t(sync);
    return ops.add_post(stream, &fake_post, args, &device);
  }
  std::size_t advance() {
    return ops.advance([this](std::exception_ptr p) { problems.push_back(std::move(p)); });
  }
  std::vector<int> started() const { return notes().started; }
  void signal() const { sync->add(errorcode_t::done); }

  const test::with_fake_streams domain;
  core of{0, 1, wire::imm_layout{}, 1};
  gpu::devices gpus{of};
  gpu::stream_ops ops{gpus};
  comp::sync* sync = base::make_live<comp::sync>(with_threshold(1));
  std::vector<std::exception_ptr> problems;
  int device = 0;
  void* const S = &device;
  void* const T = &problems;
};

using ints = std::vector<int>;

TEST_F(stream_ops_test, post__starts_once_and_not_before_the_stream_says_so) {
  EXPECT_EQ(post(S, 1), nullptr);
  EXPECT_TRUE(of.is_busy());
  EXPECT_EQ(advance(), 0u);
  EXPECT_EQ(started(), ints{});
  EXPECT_TRUE(ops.is_waited_for(&device));
  streams().run(S);
  EXPECT_EQ(advance(), 1u);
  EXPECT_EQ(advance(), 0u);
  EXPECT_EQ(started(), ints{1});
  EXPECT_FALSE(ops.is_waited_for(&device));
  EXPECT_FALSE(ops.any());
  EXPECT_FALSE(of.is_busy());
  EXPECT_TRUE(streams().taken.empty());
}

TEST_F(stream_ops_test, post__refused__tries_again_and_is_not_overtaken_in_its_stream) {
  for (int i = 1; i <= 4; ++i) post(i == 3 ? T : S, i);
  streams().run(S);
  streams().run(T);
  notes().refuse_one = 1;
  EXPECT_EQ(advance(), 1u);
  EXPECT_EQ(started(), ints{3});
  notes().refuse_one = 0;
  EXPECT_EQ(advance(), 3u);
  EXPECT_EQ(started(), (ints{3, 1, 2, 4}));
}

TEST_F(stream_ops_test, post__throws__told_once_and_over) {
  post(S, -5);
  post(S, 6);
  streams().run(S);
  EXPECT_EQ(advance(), 2u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(
      test::throws_with<argument_error>([&] { std::rethrow_exception(problems[0]); }, {"rank -5"}));
  EXPECT_EQ(advance(), 0u);
  EXPECT_EQ(started(), (ints{-5, 6}));
}

TEST_F(stream_ops_test, post__progress_inside_it_does_nothing) {
  post(S, 1);
  post(S, 2);
  streams().run(S);
  notes().inside = [&] {
    EXPECT_EQ(advance(), 0u);
    EXPECT_TRUE(ops.is_waited_for(&device));
  };
  EXPECT_EQ(advance(), 2u);
  EXPECT_EQ(started(), (ints{1, 2}));
}

TEST_F(stream_ops_test, post__may_be_made_inside_a_post) {
  post(S, 1);
  streams().run(S);
  notes().inside = [&] {
    notes().inside = nullptr;
    post(S, 2);
  };
  EXPECT_EQ(advance(), 1u);
  streams().run(S);
  EXPECT_EQ(advance(), 1u);
  EXPECT_EQ(started(), (ints{1, 2}));
}

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

TEST_F(stream_ops_test, wait__lets_the_stream_go_on_after_the_signal) {
  EXPECT_EQ(ops.add_wait(S, comp_t(sync)), nullptr);
  streams().run(S);
  EXPECT_EQ(advance(), 0u);
  EXPECT_FALSE(ops.is_waited_for(&device)) << "no operation of a device";
  signal();
  streams().run(S);
  EXPECT_FALSE(streams().is_idle(S)) << "somebody has to make progress";
  EXPECT_EQ(advance(), 1u);
  streams().run(S);
  EXPECT_TRUE(streams().is_idle(S));
  EXPECT_FALSE(sync->test(nullptr)) << "the stream has taken the round";
  EXPECT_EQ(advance(), 1u);  // it has passed
  EXPECT_FALSE(ops.any());
  EXPECT_TRUE(streams().taken.empty());
}

TEST_F(stream_ops_test, wait__each_takes_one_round_the_oldest_first) {
  ops.add_wait(S, comp_t(sync));
  ops.add_wait(T, comp_t(sync));
  signal();
  advance();
  streams().run(S);
  streams().run(T);
  EXPECT_TRUE(streams().is_idle(S));
  EXPECT_FALSE(streams().is_idle(T));
  signal();
  advance();
  streams().run(T);
  EXPECT_TRUE(streams().is_idle(T));
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

TEST_F(stream_ops_test, wait__for_an_object_that_is_freed__goes_on_and_is_told_once) {
  auto* const gone = base::make_live<comp::sync>(with_threshold(1));
  ops.add_wait(S, comp_t(gone));
  base::free_live(gone, "comp");
  EXPECT_EQ(advance(), 1u);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(
      test::throws_with<argument_error>([&] { std::rethrow_exception(problems[0]); }, {"freed"}));
  streams().run(S);
  EXPECT_TRUE(streams().is_idle(S));
  advance();
  EXPECT_EQ(problems.size(), 1u);
  EXPECT_FALSE(ops.any());
}

TEST_F(stream_ops_test, add__each_failing_call_leaves_nothing_behind) {
  for (const bool waits : {false, true}) {
    for (int n = 1; n <= 3; ++n) {
      streams().fail_at = n;
      EXPECT_THROW(waits ? ops.add_wait(S, comp_t(sync)) : post(S, 1), backend_error) << n;
      EXPECT_FALSE(ops.any());
      EXPECT_FALSE(of.is_busy());
      EXPECT_TRUE(streams().taken.empty());
      EXPECT_TRUE(streams().is_idle(S));
    }
  }
}

TEST_F(stream_ops_test, forget__a_device_that_is_gone_waits_for_nothing) {
  post(S, 1);
  ops.forget(&device);
  EXPECT_FALSE(ops.is_waited_for(&device));
  EXPECT_FALSE(ops.is_waited_for(&ops));
}

TEST_F(stream_ops_test, close__lets_streams_go_and_keeps_words_that_they_may_write) {
  post(S, 1);                     // not triggered
  ops.add_wait(T, comp_t(sync));  // not signalled
  streams().begin_capture(&of);
  stream_op_impl_t* const op = post(&of, 2);  // not freed
  ops.close();
  EXPECT_FALSE(ops.any());
  EXPECT_FALSE(of.is_busy());
  EXPECT_EQ(streams().taken.size(), 3u);
  streams().run(T);
  EXPECT_TRUE(streams().is_idle(T));
  EXPECT_FALSE(op->is_live());
}

TEST_F(stream_ops_test, close__what_is_over_is_put_back) {
  post(S, 1);
  streams().run(S);
  ops.add_wait(T, comp_t(sync));
  signal();
  advance();
  streams().run(T);
  ops.close();
  EXPECT_TRUE(streams().taken.empty());
}

TEST(stream_ops, no_accelerator__a_sentence_of_each_domain) {
  core of(0, 1, wire::imm_layout{}, 1);
  gpu::devices gpus(of);
  gpu::stream_ops ops(gpus);
  test::domains() = {};
  EXPECT_TRUE(test::throws_with<backend_error>([&] { ops.add_wait(nullptr, comp_t()); },
                                               {"knows no accelerator"}));
  mem::memory_domain broken{};
  broken.name = "broken";
  broken.probe = [] { return std::string("it is not here"); };
  test::domains() = std::span(&broken, 1);
  EXPECT_TRUE(test::throws_with<backend_error>([&] { ops.add_wait(nullptr, comp_t()); },
                                               {"broken: it is not here"}));
  test::domains() = test::usual_domains();
}

}  // namespace
}  // namespace lci::proto
