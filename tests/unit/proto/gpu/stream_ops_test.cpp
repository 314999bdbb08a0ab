// Posts that streams start and synchronizers that they wait for, with streams that run when told
// to.
#include "lci/proto/gpu/stream_ops.hpp"

#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/stream_ops_world.hpp"

namespace lci::proto {
namespace {

using test::ints;
using test::notes;
using test::stream_ops_test;

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
                                               {"supports no accelerator"}));
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
