// What happens when the network has something.
#include "lci/proto/host/arrival.hpp"

#include <gtest/gtest.h>

#include <map>

#include "lci/errors.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

TEST(arrival, unknown_rcomp__throws_at_the_receiver_and_others_are_delivered) {
  proto_world w;
  recorder receiver;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&receiver);
  std::uint64_t word = 42;
  auto lost = w[0].outgoing(1, &word, sizeof(word), rcomp + 1, 0);
  ASSERT_EQ(proto::start_message(lost), lci::errorcode_t::done);
  auto good = w[0].outgoing(1, &word, sizeof(word), rcomp, 0);
  ASSERT_EQ(proto::start_message(good), lci::errorcode_t::done);
  w.step(20);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), lci::argument_error);
  ASSERT_EQ(receiver.seen.size(), 1u);
  free(receiver.seen[0].buffer);
}

TEST(arrival, exception_of_a_handler__comes_out_of_progress_after_the_batch) {
  struct thrower final : lci::comp_impl_t {
    void signal(lci::status_t status) override {
      free(status.buffer);
      if (++calls == 1) throw std::domain_error("user");
    }
    int calls = 0;
  };
  proto_world w;
  thrower target;
  const lci::rcomp_t rcomp = w[1].core.rcomps.add(&target);
  std::uint64_t word = 1;
  for (int i = 0; i < 5; ++i) {
    auto out = w[0].outgoing(1, &word, sizeof(word), rcomp, 0);
    ASSERT_EQ(proto::start_message(out), lci::errorcode_t::done);
  }
  w.step(1);
  EXPECT_EQ(target.calls, 5);
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), std::domain_error);
}

// Objects that keep no status of a message: their packets are at home again.
TEST(arrival, packet_of_which_no_status_is_kept__goes_back) {
  using lci::comp::counter;
  using lci::comp::graph;
  for (const auto packets : {sim_packets::own, sim_packets::none}) {
    proto_world w({.packets = packets});
    lci::comp_attr_t attr;
    attr.zero_copy_am = true;
    counter* const counted = lci::base::make_live<counter>(attr);
    // No message names a node.
    graph* const refusing = lci::base::make_live<graph>(attr, lci::comp_t());
    const lci::rcomp_t to_counter = w[1].core.rcomps.add(counted);
    const lci::rcomp_t to_graph = w[1].core.rcomps.add(refusing);
    w.step(20);
    const std::size_t before = w[1].pool.outstanding();
    std::vector<std::byte> bytes = pattern(LARGE);
    int sent = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{500},
                                   std::size_t{8000}, std::size_t{8192}, LARGE})
      for (const lci::rcomp_t to : {to_counter, to_graph}) {
        auto out = w[0].outgoing(1, bytes.data(), size, to, 3);
        ASSERT_FALSE(lci::error_t(proto::start_message(out)).is_retry());
        w.step();
        sent += to == to_counter ? 1 : 0;
      }
    EXPECT_EQ(counted->get(), sent);
    EXPECT_EQ(w.thrown.size(), static_cast<std::size_t>(sent)) << "the graph's";
    EXPECT_EQ(w[1].pool.outstanding(), before);
    lci::base::free_live(counted, "counter");
    lci::base::free_live(refusing, "graph");
  }
}

// Corrupted bytes never crash and never hang; what does not parse is counted.
TEST(arrival, corrupted_messages__are_survived) {
  sim_options options;
  options.corrupt_one_in = 2;
  options.duplicate_one_in = 5;
  options.seed = test_seed();
  proto_world w(options);
  recorder sender;
  std::vector<recorder> receivers(1);
  auto data = pattern(20'000);
  std::vector<std::byte> buffer(20'000);
  for (int i = 0; i < 300; ++i) {
    lci::status_t got;
    try {
      w[1].receive(0, buffer.data(), buffer.size(), 5, &receivers[0], got);
    } catch (const lci::truncation_error&) {  // a damaged length
    }
    auto out = w[0].outgoing(1, data.data(), i % 2 == 0 ? data.size() : 100, w[1].engine_rcomp(), 5,
                             &sender);
    proto::start_message(out);
    w.step(2);
  }
  w.step();
  EXPECT_GT(w.sim.counters().corrupted, 0u);
}

// Ranks of the peer failures that progress throws, in this order; -1 for another error.
std::vector<int> failures(node& at) {
  std::vector<int> ranks;
  for (int i = 0; i < 10; ++i) {
    try {
      at.queues->progress();
    } catch (const lci::peer_failure_error& e) {
      ranks.push_back(e.failed_rank());
    } catch (const std::exception&) {
      ranks.push_back(-1);
    }
  }
  return ranks;
}

TEST(on_error, of_peers_that_are_gone__is_told_once_a_peer_and_deaths_come_first) {
  proto_world w({}, 4);
  proto::single_arrival sink(w[0].queues->host);
  sink.on_error(1, nullptr, "some reason");
  EXPECT_EQ(failures(w[0]), std::vector<int>{-1}) << "the peer is still there";
  sink.on_peer_ended(1, true, "it has left");
  EXPECT_EQ(failures(w[0]), std::vector<int>{}) << "nobody needed it";
  sink.on_peer_ended(2, true, "it has left");
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_peer_ended(3, false, "it died");
  sink.on_error(3, nullptr, "the peer is gone");
  EXPECT_EQ(failures(w[0]), (std::vector<int>{3, 2}));
  sink.on_error(2, nullptr, "the peer is gone");
  sink.on_error(3, nullptr, "the peer is gone");
  EXPECT_EQ(failures(w[0]), std::vector<int>{});
}
