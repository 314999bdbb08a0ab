// What an endpoint that is freed has posted, through lent_queue as runtime's endpoints have it, and
// operations whose rank has left.
#include <gtest/gtest.h>

#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

// What waits there is still posted: the caller was told that it is done.
TEST(progress_engine, queue_that_is_given_back__posts_what_waits_and_is_lent_again) {
  sim_options options;
  options.depth = 4;
  proto_world w(options);
  std::vector<std::vector<std::byte>> data, buffers;
  std::vector<recorder> receivers(20);
  recorder large_sent, large_got;
  auto large = pattern(LARGE, 1);
  std::vector<std::byte> large_in(LARGE);
  auto big = w[0].outgoing(1, large.data(), LARGE, w[1].engine_rcomp(), 99, &large_sent);
  ASSERT_EQ(proto::start_message(big), lci::errorcode_t::posted);
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    data.push_back(pattern(32, static_cast<unsigned>(i)));
    buffers.emplace_back(32);
    auto out = w[0].outgoing(1, data[i].data(), 32, w[1].engine_rcomp(), i);
    out.may_retry = false;
    waiting += proto::start_message(out) == lci::errorcode_t::done_backlog ? 1u : 0u;
  }
  EXPECT_NE(waiting, 0u);
  EXPECT_FALSE(w[0].queues->engine().is_quiet_but_for_handlers());
  const proto::post_queue* const first = w[0].queue.get();
  w[0].queue.reset();
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    lci::status_t got;
    if (w[1].receive(0, buffers[i].data(), 32, i, &receivers[i], got) == lci::errorcode_t::done)
      receivers[i].seen.push_back(got);
  }
  lci::status_t got;
  w[1].receive(0, large_in.data(), LARGE, 99, &large_got, got);
  w.step();
  for (std::size_t i = 0; i < receivers.size(); ++i) {
    EXPECT_EQ(receivers[i].seen.size(), 1u) << i;
    EXPECT_EQ(buffers[i], data[i]) << i;
  }
  EXPECT_EQ(large_sent.seen.size(), 1u);
  EXPECT_EQ(large_in, large);
  EXPECT_TRUE(w[0].queues->is_drained());
  EXPECT_TRUE(w[0].queues->engine().has_advanced());
  w[0].queue = w[0].queues->engine().lend_queue();
  EXPECT_EQ(w[0].queue.get(), first) << "those of endpoints that come and go would add up";
}

// A get whose rank is known to have left while pieces of at most `max_rma` bytes are under way.
// Another device has reported it, say.
struct get_from_who_left {
  explicit get_from_who_left(std::size_t max_rma) : w(options(max_rma)) {
    auto out = w[0].outgoing(1, got.data(), got.size(), 0, 0, &done);
    out.remote = w[1].expose(window.data(), window.size());
    EXPECT_EQ(proto::start_get(out), lci::errorcode_t::posted);
    w[0].core.peers.report(1, lci::net::peer_event::leave, "it has left");
    w.step();
    EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
  }
  static sim_options options(std::size_t max_rma) {
    sim_options late;
    late.late = true;
    late.caps.max_rma = max_rma;
    return late;
  }
  std::vector<std::byte> window = std::vector<std::byte>(30'000, std::byte{3});
  std::vector<std::byte> got = std::vector<std::byte>(window.size());
  recorder done;
  proto_world w;
};

TEST(progress_engine, operation_that_is_over_when_its_rank_is_known_to_have_left__is_complete) {
  get_from_who_left g(std::size_t{1} << 30);
  EXPECT_EQ(g.done.seen.size(), 1u);
  EXPECT_EQ(g.got, g.window);
  EXPECT_TRUE(g.w.thrown.empty());
}

TEST(progress_engine, operation_with_pieces_left_when_its_rank_has_left__is_lost) {
  get_from_who_left g(1000);
  EXPECT_TRUE(g.done.seen.empty());
  EXPECT_EQ(g.w.thrown.size(), 1u);
}

// Every byte is there, and the target would hear of it by a message.
TEST(progress_engine, put_whose_rank_has_left_before_it_was_told__is_lost) {
  sim_options options;
  options.late = true;
  options.caps.write_with_immediate = false;
  proto_world w(options);
  recorder done, target;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&target);
  std::vector<std::byte> from(30'000), window(from.size());
  auto out = w[0].outgoing(1, from.data(), from.size(), rcomp, 9, &done);
  out.remote = w[1].expose(window.data(), window.size());
  ASSERT_EQ(proto::start_put(out), lci::errorcode_t::posted);
  w[0].core.peers.report(1, lci::net::peer_event::leave, "it has left");
  w.step();
  EXPECT_TRUE(done.seen.empty());
  EXPECT_TRUE(target.seen.empty());
  EXPECT_EQ(w.thrown.size(), 1u);
  EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
}
