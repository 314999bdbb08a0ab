// What is too deep waits for its turn: in order, with its bytes, whatever happens meanwhile.
#include "lci/proto/engine/handler_queue.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using namespace lci::test;
using lci::proto::handler_depth;

// As deep as handlers may be, in the calling thread.
struct as_deep_as_may_be {
  handler_depth all[8];
};

// Rank 1 has an object of the program's; rank 0 sends it messages with ascending tags.
struct queue_world : proto_world {
  explicit queue_world(bool zero_copy = false, sim_packets packets = sim_packets::none)
      : proto_world(sim_options{.packets = packets}) {
    object.attr.zero_copy_am = zero_copy;
    number = (*this)[1].core.rcomps.add(&object);
    EXPECT_EQ((*this)[1].queues->engine().handlers.limit(), 8u);
  }
  ~queue_world() {
    for (const lci::status_t& status : object.seen) give_back(status);
  }
  void give_back(const lci::status_t& status) {
    if (object.attr.zero_copy_am)
      lci::mem::release_packet((*this)[1].core.arena, lci::mem::packet::of_payload(status.buffer));
    else
      std::free(status.buffer);
  }
  void send(int count) {
    for (int i = 0; i < count; ++i, ++sent) {
      const auto data = pattern(static_cast<std::size_t>(100 + sent));
      auto out = (*this)[0].outgoing(1, const_cast<std::byte*>(data.data()), data.size(), number,
                                     static_cast<lci::tag_t>(sent));
      ASSERT_EQ(lci::proto::start_message(out), lci::errorcode_t::done) << i;
      step(3);
    }
  }
  void expect_all_in_order() {
    ASSERT_EQ(object.seen.size(), static_cast<std::size_t>(sent));
    for (int i = 0; i < sent; ++i) {
      const lci::status_t& got = object.seen[static_cast<std::size_t>(i)];
      const auto expected = pattern(static_cast<std::size_t>(100 + i));
      EXPECT_EQ(got.tag, static_cast<lci::tag_t>(i));
      ASSERT_EQ(got.size, expected.size());
      EXPECT_EQ(std::memcmp(got.buffer, expected.data(), expected.size()), 0) << i;
    }
  }
  lci::proto::handler_queue& queue() { return (*this)[1].queues->engine().handlers; }

  recorder object;
  lci::rcomp_t number;
  int sent = 0;
};

TEST(handler_queue, too_deep__messages_wait_and_run_in_order_before_newer_ones) {
  for (const bool zero_copy : {false, true}) {
    queue_world w(zero_copy);
    w.send(2);
    {
      const as_deep_as_may_be here;
      w.send(40);  // more than may lie in packets
      EXPECT_EQ(w.queue().size(), 40u);
      EXPECT_EQ(w.queue().open_to(), 0u);
      EXPECT_TRUE(w.queue().is_out_of_reach());
      EXPECT_EQ(w.object.seen.size(), 2u);
      EXPECT_LE(w[1].pool.outstanding(), 2u + 64 / 4);
    }
    EXPECT_FALSE(w.queue().is_out_of_reach());
    w.send(3);
    w.step();
    w.expect_all_in_order();
    EXPECT_EQ(w.queue().size(), 0u);
    EXPECT_EQ(w.queue().open_to(), 8u);
  }
}

TEST(handler_queue, no_handlers_here__messages_wait_for_a_round_outside) {
  queue_world w;
  {
    const lci::proto::no_handlers_here here;
    w.send(3);
    EXPECT_EQ(w.queue().size(), 3u);
    EXPECT_TRUE(w.object.seen.empty());
  }
  w.step();
  w.expect_all_in_order();
}

TEST(handler_queue, sender_dies_meanwhile__what_it_sent_is_handled) {
  queue_world w(false, sim_packets::lend);
  {
    const as_deep_as_may_be here;
    w.send(30);
    w.sim.kill(0);
    w.step(50);
    EXPECT_TRUE(w[1].core.peers.has_ended(0));
  }
  w.step(50);
  w.expect_all_in_order();
}

TEST(handler_queue, device_ends__what_waits_is_freed) {
  queue_world w(true);
  const as_deep_as_may_be here;
  w.send(30);
  ASSERT_EQ(w.queue().size(), 30u);
  EXPECT_GT(w[1].pool.outstanding(), 0u);
  testing::internal::CaptureStderr();
  w.queue().~handler_queue();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("30 messages"), std::string::npos);
  EXPECT_EQ(w[1].pool.outstanding(), 0u);
  new (&w.queue())
      lci::proto::handler_queue(w[1].core.arena, w[1].pool, w[1].queues->engine().signals, 8);
  w.sent = 0;
}

// Nothing piles up here while the program has all packets: the network keeps it back.
TEST(handler_queue, no_packet__the_oldest_waits_and_newer_ones_stay_in_the_network) {
  queue_world w(true);
  {
    const as_deep_as_may_be here;
    w.send(40);
  }
  std::vector<lci::mem::packet*> all;
  while (auto* const packet = w[1].pool.get()) all.push_back(packet);
  w.step(50);
  EXPECT_EQ(w.object.seen.size(), 64u / 4) << "those that lay in packets";
  EXPECT_TRUE(w.queue().is_starved());
  w.send(5);
  w.step(50);
  EXPECT_EQ(w.queue().size(), 40u - 64 / 4) << "and none of the newer ones";
  for (auto* const packet : all) w[1].pool.put(packet);
  w.step();
  w.expect_all_in_order();
}

// What it is of is told, too, once its object is gone.
TEST(handler_queue, object_is_freed_meanwhile__the_error_names_the_operation) {
  struct {
    lci::proto::news what;
    const char* name;
  } const kinds[] = {{lci::proto::news::send, "a send to rank 0 with tag 5"},
                     {lci::proto::news::get, "a get from rank 0 with tag 5"},
                     {lci::proto::news::message, "a message from rank 0 with tag 5"}};
  for (const auto& kind : kinds) {
    queue_world w;
    lci::comp_attr_t attr;
    auto* const handler = lci::base::make_live<lci::comp::handler>(attr, [](lci::status_t) {});
    lci::status_t status(lci::errorcode_t::done);
    status.rank = 0;
    status.tag = 5;
    {
      const as_deep_as_may_be here;
      const handler_depth beyond;
      w[1].queues->engine().signals.signal(handler, status, kind.what != lci::proto::news::message,
                                           kind.what);
      ASSERT_EQ(w.queue().size(), 1u);
    }
    lci::base::free_live(handler, "comp");
    EXPECT_EQ(w.queue().run(1), 1u);
    EXPECT_TRUE(throws_with<lci::argument_error>([&] { w[1].queues->engine().errors.rethrow(); },
                                                 {kind.name, "freed"}));
  }
}

// A signal of an operation posted here is not lost either, and says that it is not over.
TEST(handler_queue, completions__count_until_they_have_run) {
  queue_world w;
  auto data = pattern(LARGE);
  std::vector<std::byte> into(LARGE);
  recorder received;
  lci::status_t got;
  ASSERT_EQ(w[1].receive(0, into.data(), into.size(), 9, &received, got), lci::errorcode_t::posted);
  auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 9);
  ASSERT_EQ(lci::proto::start_message(out), lci::errorcode_t::posted);
  {
    const as_deep_as_may_be here;
    w.step();
    EXPECT_EQ(into, data) << "a rendezvous goes on at every depth";
    EXPECT_EQ(w.queue().completions(), 1u);
    EXPECT_FALSE(w[1].queues->is_drained());
    EXPECT_TRUE(w[1].queues->is_drained_but_for_handlers());
    EXPECT_TRUE(received.seen.empty());
  }
  w.step(3);
  EXPECT_EQ(received.seen.size(), 1u);
  EXPECT_TRUE(w[1].queues->is_drained());
}

// One thread is too deep and stays there; another one is not.
TEST(handler_queue, another_thread__may_run_what_waits) {
  queue_world w;
  const as_deep_as_may_be here;
  w.send(10);
  std::thread([&] { w[1].queues->progress(); }).join();
  w.expect_all_in_order();
}

// What runs may make progress, which must not run the rest in between, at the same depth.
TEST(handler_queue, run__from_inside_of_what_runs) {
  struct nester final : lci::comp_impl_t {
    void signal(lci::status_t status) override {
      std::free(status.buffer);
      order.push_back(status.tag);
      deepest = std::max(deepest, handler_depth::now());
      queues->progress();
    }
    lci::proto::device_queues* queues = nullptr;
    std::vector<lci::tag_t> order;
    std::uint32_t deepest = 0;
  } nesting;
  queue_world w;
  nesting.queues = w[1].queues.get();
  w.number = w[1].core.rcomps.add(&nesting);
  {
    const as_deep_as_may_be here;
    w.send(50);
  }
  w.step(10);
  ASSERT_EQ(nesting.order.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(nesting.order[i], i);
  EXPECT_EQ(nesting.deepest, 8u);
  w.sent = 0;
}

}  // namespace
