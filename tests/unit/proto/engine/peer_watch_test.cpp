// Who hears in progress of a rank that is gone, and what becomes of what waited for it.
#include "lci/proto/engine/peer_watch.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "lci/proto/host/arrival.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::test::in_thread;

// What a rank hears in progress of a death, with failure_notice `own`.
class own_losses : public testing::Test {
 protected:
  own_losses() { w[0].core.failure_notice = lci::attr_failure_notice_t::own; }
  void end(int rank, bool orderly = false) {
    lci::proto::single_arrival(w[0].queues->host).on_peer_ended(rank, orderly, "it has gone");
  }
  // The rank that progress tells of; -1: none.
  int told() {
    try {
      for (int i = 0; i < 3; ++i) w[0].queues->progress();
      return -1;
    } catch (const lci::peer_failure_error& error) {
      return error.failed_rank();
    }
  }
  lci::errorcode_t receive(int from) {
    return w[0].receive(from, bytes_, sizeof bytes_, 5, &seen_, got_);
  }

  lci::test::proto_world w{{}, 4};
  lci::test::recorder seen_;
  lci::status_t got_;
  char bytes_[16];
};

TEST_F(own_losses, with_nothing_under_way__are_not_told) {
  receive(lci::ANY_SOURCE);
  receive(2);
  end(1);
  EXPECT_EQ(told(), -1);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 1u) << "for those that wait";
  EXPECT_EQ(w[0].core.peers.failed(), std::vector<int>{1});
  end(2);
  EXPECT_EQ(told(), 2);
  EXPECT_EQ(told(), -1);
  EXPECT_EQ(w[0].core.peers.failed(), (std::vector<int>{1, 2}));
}

TEST_F(own_losses, of_an_operation_that_fails_later__are_told_then) {
  end(1);
  EXPECT_EQ(told(), -1);
  lci::proto::user_side user;
  user.status.rank = 1;
  user.is_arrival = true;
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(told(), -1) << "a message that was arriving was not posted here";
  user.is_arrival = false;
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(told(), 1);
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(told(), -1) << "once";
}

// It was still needed, which is known only by now.
TEST_F(own_losses, of_an_operation_with_who_took_leave__are_told_then) {
  end(1, true);
  EXPECT_EQ(told(), -1);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 0u) << "nobody needs it";
  lci::proto::user_side user;
  user.status.rank = 1;
  user.is_arrival = true;
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 0u) << "a message that was arriving";
  user.is_arrival = false;
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 1u) << "for calls that wait";
  EXPECT_EQ(told(), 1);
  w[0].queues->engine().signals.tell(user, false);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 1u) << "once";
  EXPECT_EQ(told(), -1);
  EXPECT_TRUE(w[0].core.peers.failed().empty());
}

// A call that waits for all ranks, as a blocking collective does, ends by this.
TEST_F(own_losses, of_a_large_send_to_who_took_leave__are_told) {
  std::vector<std::byte> data(lci::test::LARGE);
  auto out = w[0].outgoing(1, data.data(), data.size(), w[1].engine_rcomp(), 5, &seen_);
  ASSERT_EQ(lci::proto::start_message(out), lci::errorcode_t::posted);
  w[1].fabric->leave();
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(w[0].queues->engine().errors.lost.count(), 1u);
  EXPECT_TRUE(seen_.seen.empty());
  EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
}

TEST_F(own_losses, while_a_collective_is_under_way__are_all_told) {
  w[0].queues->engine().errors.need_all(1);
  end(1);
  EXPECT_EQ(told(), 1);
  w[0].queues->engine().errors.need_all(-1);
  end(2);
  EXPECT_EQ(told(), -1);
}

TEST_F(own_losses, receives_from_who_took_leave__end_when_all_is_in) {
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  receive(2);
  receive(lci::ANY_SOURCE);
  end(1, true);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 2);
  EXPECT_TRUE(w[0].core.peers.failed().empty());
  EXPECT_EQ(receive(1), lci::errorcode_t::fatal) << "nothing can come";
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 2);
  EXPECT_EQ(told(), -1) << "the post itself has told";
  EXPECT_EQ(receive(3), lci::errorcode_t::posted);
}

// What the other device has not delivered yet may be for any receive.
TEST_F(own_losses, receives_from_who_took_leave__wait_for_what_another_device_may_bring) {
  auto second = std::make_unique<lci::proto::device_queues>(
      w[0].shared, *w[0].fabric, 1, lci::net::device_config{}, w[0].pool, std::size_t{1} << 20);
  w[0].fabric->connect(1);
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  end(1, true);
  EXPECT_EQ(told(), -1);
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 2);
  lci::proto::single_arrival(second->host).on_peer_ended(1, true, "it has left");
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 0);
}

TEST_F(own_losses, receives_from_who_took_leave__do_not_wait_for_a_device_that_ends) {
  auto second = std::make_unique<lci::proto::device_queues>(
      w[0].shared, *w[0].fabric, 1, lci::net::device_config{}, w[0].pool, std::size_t{1} << 20);
  w[0].fabric->connect(1);
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  end(1, true);
  EXPECT_EQ(told(), -1);
  second.reset();
  EXPECT_EQ(told(), 1);
}

// Rank 0 has a second device, on a network beside the runtime's default.
class left_network : public own_losses {
 protected:
  left_network() {
    for (int rank = 0; rank < 4; ++rank) {
      lci::net::fabric_config config;
      config.arena = &w[rank].core.arena;
      config.regions = &w[rank].core.regions;
      config.peers = &w[rank].core.peers;
      fabrics_.push_back(other_.open(rank, config));
    }
    fabric_ = fabrics_[0].get();
    beside_ = add_device();
    w[0].fabric->connect(1);
  }
  ~left_network() override {
    beside_.reset();
    for (const auto& each : fabrics_) each->leave();
  }
  std::unique_ptr<lci::proto::device_queues> add_device() {
    auto made = std::make_unique<lci::proto::device_queues>(w[0].shared, *fabric_, devices_++,
                                                            lci::net::device_config{}, w[0].pool,
                                                            std::size_t{1} << 20);
    made->engine().watch.only_over(*fabric_);
    return made;
  }
  void end_on(lci::proto::device_queues& device, bool orderly = true) {
    lci::proto::single_arrival(device.host).on_peer_ended(1, orderly, "it has gone");
  }
  // The rank that progress of the device beside tells of; -1: none.
  int told_beside() {
    try {
      for (int i = 0; i < 3; ++i) beside_->progress();
      return -1;
    } catch (const lci::peer_failure_error& error) {
      return error.failed_rank();
    }
  }
  lci::errorcode_t receive_beside(int from) {
    lci::proto::receive& record = *w[0].shared.host.receives.get();
    record.user.comp = &seen_;
    record.user.status = lci::status_t();
    record.user.status.rank = from;
    record.user.status.buffer = bytes_;
    record.user.status.size = sizeof bytes_;
    record.host = &beside_->host;
    record.region = {};
    return w[0].matcher->post(record, from, 6, lci::matching_policy_t::rank_tag, got_);
  }

  lci::test::sim_world other_{4};
  int devices_ = 0;
  std::vector<std::unique_ptr<lci::net::fabric>> fabrics_;  // by rank
  lci::net::fabric* fabric_ = nullptr;                      // of rank 0
  std::unique_ptr<lci::proto::device_queues> beside_;
};

TEST_F(left_network, beside_the_default__ends_what_waits_on_its_device_alone) {
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  EXPECT_EQ(receive_beside(1), lci::errorcode_t::posted);
  EXPECT_EQ(receive_beside(2), lci::errorcode_t::posted);
  end_on(*beside_);
  EXPECT_EQ(told_beside(), 1);
  EXPECT_EQ(told(), -1);
  EXPECT_EQ(beside_->host.open_receives.sum(), 1);
  EXPECT_EQ(w[0].queues->host.open_receives.sum(), 1);
  EXPECT_NO_THROW(w[0].core.peers.check(1));
  EXPECT_TRUE(beside_->engine().watch.has_ended(1));
  EXPECT_FALSE(w[0].queues->engine().watch.has_ended(1));
  EXPECT_EQ(receive_beside(1), lci::errorcode_t::fatal) << "nothing can come";
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  EXPECT_EQ(told_beside(), -1) << "once";
}

TEST_F(left_network, beside_the_default__ends_no_request_that_came_over_it) {
  std::vector<std::byte> out(lci::test::LARGE, std::byte{7}), in(lci::test::LARGE);
  lci::test::recorder sent;
  auto message = w[1].outgoing(0, out.data(), out.size(), w[0].engine_rcomp(), 5, &sent);
  ASSERT_EQ(lci::proto::start_message(message), lci::errorcode_t::posted);
  w.step();
  end_on(*beside_);
  EXPECT_EQ(told_beside(), -1);
  EXPECT_THROW(beside_->engine().watch.check(1), lci::peer_failure_error);
  EXPECT_NO_THROW(w[0].queues->engine().watch.check(1));
  EXPECT_EQ(w[0].receive(1, in.data(), in.size(), 5, &seen_, got_), lci::errorcode_t::posted);
  w.step();
  EXPECT_EQ(seen_.seen.size(), 1u);
  EXPECT_EQ(sent.seen.size(), 1u);
  EXPECT_EQ(in, out);
}

TEST_F(left_network, with_two_devices__is_left_when_both_have_all) {
  const auto second = add_device();
  fabric_->connect(1);
  EXPECT_EQ(receive_beside(1), lci::errorcode_t::posted);
  end_on(*beside_);
  EXPECT_EQ(told_beside(), -1);
  EXPECT_EQ(receive_beside(1), lci::errorcode_t::posted);
  end_on(*second);
  EXPECT_EQ(told_beside(), 1);
  EXPECT_EQ(beside_->host.open_receives.sum(), 0);
}

TEST_F(left_network, does_not_wait_for_a_device_that_ends) {
  auto second = add_device();
  fabric_->connect(1);
  EXPECT_EQ(receive_beside(1), lci::errorcode_t::posted);
  end_on(*beside_);
  EXPECT_EQ(told_beside(), -1);
  second.reset();
  EXPECT_EQ(told_beside(), 1);
}

TEST_F(left_network, whose_rank_leaves_the_default_too__has_left_the_job) {
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  end_on(*beside_);
  EXPECT_EQ(told(), -1);
  end(1, true);
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(w[0].core.peers.has_ended(1));
}

TEST_F(left_network, whose_rank_died__has_failed_for_all) {
  EXPECT_EQ(receive(1), lci::errorcode_t::posted);
  end_on(*beside_, false);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(w[0].core.peers.failed(), std::vector<int>{1});
}

TEST_F(left_network, while_a_rank_is_met_there_alone__is_what_the_bootstrap_waits_for) {
  fabric_->connect(2);
  EXPECT_FALSE(w[0].core.is_unmet(2));
  lci::proto::single_arrival(beside_->host).on_peer_ended(2, true, "it has left");
  EXPECT_TRUE(w[0].core.is_unmet(2));
}

TEST(peer_watch, losses_of_a_device__are_counted_for_waits_and_left_to_progress) {
  lci::test::proto_world w({}, 3);
  lci::proto::device_queues& queues = *w[0].queues;
  lci::proto::single_arrival(queues.host).on_peer_ended(1, false, "it died");
  EXPECT_NO_THROW(queues.progress_in_wait());
  EXPECT_EQ(queues.engine().errors.lost.count(), 1u);
  in_thread([&] { EXPECT_THROW(queues.engine().errors.throw_loss(0), lci::peer_failure_error); });
  EXPECT_THROW(queues.progress(), lci::peer_failure_error) << "this thread was not told";
  EXPECT_NO_THROW(queues.progress());
  lci::proto::single_arrival(queues.host).on_peer_ended(2, false, "it died");
  EXPECT_EQ(queues.engine().errors.lost.count(), 1u);
  queues.engine().watch.look_for_ended();
  EXPECT_EQ(queues.engine().errors.lost.count(), 2u);
  EXPECT_THROW(queues.engine().errors.throw_loss(1), lci::peer_failure_error);
  queues.engine().errors.keep(std::make_exception_ptr(std::domain_error("another problem")));
  EXPECT_THROW(queues.progress(), std::domain_error) << "behind what this thread was told";
  EXPECT_NO_THROW(queues.progress());
}

}  // namespace
