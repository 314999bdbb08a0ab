#include "lci/proto/host/rendezvous.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "lci/errors.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;

namespace {

class rendezvous : public testing::Test {
 protected:
  // Rank 0 sends LARGE bytes with tag 5; the RTS has arrived at rank 1 and waits.
  void send_one() {
    auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &sender);
    ASSERT_EQ(proto::start_message(out), lci::errorcode_t::posted);
    w.step(20);
  }
  void receive_one() {
    lci::status_t got;
    ASSERT_EQ(w[1].receive(0, buffer.data(), buffer.size(), 5, &receiver, got),
              lci::errorcode_t::posted);
  }

  proto_world w;
  std::vector<std::byte> data = pattern(LARGE);
  std::vector<std::byte> buffer = std::vector<std::byte>(LARGE);
  recorder sender, receiver;
};

}  // namespace

TEST_F(rendezvous, expected__both_sides_are_signalled_once_and_the_bytes_are_there) {
  receive_one();
  send_one();
  w.step();
  ASSERT_EQ(sender.seen.size(), 1u);
  ASSERT_EQ(receiver.seen.size(), 1u);
  EXPECT_EQ(receiver.seen[0].size, LARGE);
  EXPECT_EQ(receiver.seen[0].rank, 0);
  EXPECT_EQ(receiver.seen[0].tag, 5u);
  EXPECT_EQ(buffer, data);
  EXPECT_TRUE(w[0].queues->is_drained());
  EXPECT_TRUE(w[1].queues->is_drained());
  EXPECT_EQ(w[1].core.regions.live(), 0u);
}

TEST_F(rendezvous, unexpected__the_request_waits_for_its_receive) {
  send_one();
  w.step();
  EXPECT_TRUE(sender.seen.empty());
  receive_one();
  w.step();
  EXPECT_EQ(sender.seen.size(), 1u);
  EXPECT_EQ(receiver.seen.size(), 1u);
  EXPECT_EQ(buffer, data);
}

// The four cases of each wire event: too early or stale (names nothing), expected (above),
// repeated, from somebody else.
TEST_F(rendezvous, on_rtr__unknown_name_is_dropped) {
  wire::rtr body;
  body.sender = {3, 77};
  proto::on_rtr(w[0].queues->host, 1, body);
  EXPECT_EQ(w[0].queues->engine().dropped.sum(), 1);
}

TEST_F(rendezvous, on_rtr__second_copy_is_ignored) {
  send_one();
  const wire::name state = w[0].queues->host.rendezvous.sends.name_at(0);
  ASSERT_NE(state.generation, 0u);
  const auto region = w[1].core.regions.insert(buffer.data(), buffer.size());
  wire::rtr body;
  body.sender = state;
  body.receiver = {0, 1};
  body.region = {region.slot, region.generation};
  proto::on_rtr(w[0].queues->host, 1, body);
  proto::on_rtr(w[0].queues->host, 1, body);
  w.step();
  EXPECT_EQ(sender.seen.size(), 1u);
}

TEST_F(rendezvous, on_rtr__from_another_rank_is_dropped) {
  send_one();
  wire::rtr body;
  body.sender = w[0].queues->host.rendezvous.sends.name_at(0);
  proto::on_rtr(w[0].queues->host, 0, body);
  EXPECT_EQ(w[0].queues->engine().dropped.sum(), 1);
  EXPECT_TRUE(sender.seen.empty());
}

TEST_F(rendezvous, on_fin__stale_and_foreign_names_are_dropped) {
  proto::on_fin(w[1].queues->host, 0, {{0, 1}});
  proto::on_fin_imm(w[1].queues->host, 0, 5);
  EXPECT_EQ(w[1].queues->engine().dropped.sum(), 2);
}

TEST_F(rendezvous, on_fin__repeated_signals_once) {
  receive_one();
  send_one();
  const wire::name state = w[1].queues->host.rendezvous.recvs.name_at(0);
  w.step();
  ASSERT_EQ(receiver.seen.size(), 1u);
  proto::on_fin(w[1].queues->host, 0, {state});
  EXPECT_EQ(receiver.seen.size(), 1u);
}

TEST_F(rendezvous, receive_too_small__is_an_error_and_the_message_is_not_lost) {
  std::vector<std::byte> small(LARGE - 1, std::byte{0x55});
  lci::status_t got;
  ASSERT_EQ(w[1].receive(0, small.data(), small.size(), 5, &receiver, got),
            lci::errorcode_t::posted);
  send_one();
  w.step();
  ASSERT_EQ(w.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w.thrown[0]), lci::truncation_error);
  EXPECT_TRUE(receiver.seen.empty());
  EXPECT_EQ(small, std::vector<std::byte>(LARGE - 1, std::byte{0x55}));
  receive_one();
  w.step();
  EXPECT_EQ(buffer, data);
}

// It has waited for its receive, and has given up.
TEST(rendezvous_over_another_device, that_of_the_receive_is_freed_meanwhile__nothing_is_touched) {
  using proto::device_queues;
  proto_world w;
  std::vector<std::byte> room(sizeof(device_queues) + alignof(device_queues));
  void* at = room.data();
  std::size_t left = room.size();
  ASSERT_NE(std::align(alignof(device_queues), sizeof(device_queues), at, left), nullptr);
  auto* const freed = new (at) device_queues(
      w[0].shared, *w[0].fabric, 1, lci::net::device_config{}, w[0].pool, std::size_t{1} << 30);
  std::vector<std::byte> to(LARGE);
  recorder received;
  proto::receive& record = *w[0].shared.host.receives.get();
  record.user = {};
  record.user.comp = &received;
  record.user.status.buffer = to.data();
  record.user.status.size = to.size();
  record.host = &freed->host;
  record.region = {};
  lci::status_t got;
  ASSERT_EQ(w[0].matcher->post(record, 1, 7, lci::matching_policy_t::rank_tag, got),
            lci::errorcode_t::posted);
  auto from = pattern(LARGE);
  auto out = w[1].outgoing(0, from.data(), from.size(), w[0].engine_rcomp(), 7);
  while (proto::is_retry(proto::start_message(out))) w.step(1);
  for (int i = 0; i < 20; ++i) w[0].queues->progress();
  ASSERT_EQ(w[0].queues->host.rendezvous.recvs.size(), 1u);

  freed->~device_queues();
  constexpr std::byte MARK{0x5a};
  std::fill(room.begin(), room.end(), MARK);
  w.step();
  EXPECT_EQ(received.seen.size(), 1u);
  EXPECT_EQ(to, from);
  EXPECT_EQ(std::count(room.begin(), room.end(), MARK), static_cast<std::ptrdiff_t>(room.size()));
}

// A peer dies at every step of the sender's and the receiver's table: nothing hangs, nothing is
// signalled twice, nothing stays behind.
TEST(rendezvous_death, at_every_step__the_survivor_is_told_and_left_clean) {
  sim_options late;
  late.late = true;
  for (int i = 0; i < 48; ++i) {
    const int steps = i / 4, victim = i % 2;
    proto_world w(i % 4 < 2 ? late : card_options());
    const auto data = pattern(LARGE);
    std::vector<std::byte> buffer(LARGE);
    recorder sender, receiver;
    lci::status_t got;
    ASSERT_EQ(w[1].receive(0, buffer.data(), buffer.size(), 5, &receiver, got),
              lci::errorcode_t::posted);
    auto out = w[0].outgoing(1, const_cast<std::byte*>(data.data()), data.size(),
                             w[1].engine_rcomp(), 5, &sender);
    ASSERT_EQ(proto::start_message(out), lci::errorcode_t::posted);
    for (int k = 0; k < steps; ++k) w[k % 2].queues->progress();
    w.sim.kill(victim);
    w.step(50);
    node& survivor = w[1 - victim];
    EXPECT_LE(sender.seen.size() + receiver.seen.size(), 2u);
    EXPECT_TRUE(survivor.core.peers.has_ended(victim)) << steps;
    EXPECT_EQ(survivor.queues->host.rendezvous.sends.size(), 0u) << steps;
    EXPECT_EQ(survivor.queues->host.rendezvous.recvs.size(), 0u) << steps;
    EXPECT_EQ(survivor.queues->engine().open.sum(), 0) << steps;
    EXPECT_EQ(w.sim.registrations(1 - victim), 0u) << steps;
    bool told = false;
    for (const auto& problem : w.thrown) {
      try {
        std::rethrow_exception(problem);
      } catch (const lci::peer_failure_error& e) {
        told = told || e.failed_rank() == victim;
      } catch (const std::exception&) {
      }
    }
    EXPECT_TRUE(told) << "victim " << victim << " after " << steps << " steps";
  }
}
