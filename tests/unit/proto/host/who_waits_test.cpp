// What a rank reports of itself for the page of who waits for what, record by record.
#include "lci/proto/host/who_waits.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "lci/net/peer_table.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/unit/proto/world.hpp"

// A name of its own: sources of tests are compiled together, and these words are short.
namespace who_waits_tests {
namespace {

using namespace lci::base::report;
using namespace lci::test;
using lci::errorcode_t;
using lci::net::peer_event;

// Three large active messages of a rank at once.
sim_options in_turn() {
  sim_options options = card_options();
  options.caps.best_at_once = 3 * LARGE;
  return options;
}

class who_waits : public testing::Test {
 protected:
  const sheet& report(int rank) {
    sheet_->begin_at(start_);
    lci::proto::report(w_[rank].core, *sheet_);
    return *sheet_;
  }
  // All of one kind that the last report has.
  std::vector<record> of(kind what) const {
    std::vector<record> found;
    for (const record& r : *sheet_)
      if (r.what == what) found.push_back(r);
    return found;
  }
  void receive(int at, int from, lci::tag_t tag) {
    lci::status_t got;
    ASSERT_EQ(w_[at].receive(from, buffer_.data(), buffer_.size(), tag, &object_, got),
              errorcode_t::posted);
  }
  void send(int from, int to, std::size_t size, lci::tag_t tag) {
    auto out = w_[from].outgoing(to, data_.data(), size, w_[from].engine_rcomp(), tag, &object_);
    ASSERT_FALSE(lci::error_t(lci::proto::start_message(out)).is_retry());
  }

  recorder object_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(16), data_ = pattern(LARGE);
  const moment start_ = moment::now();
  std::unique_ptr<sheet> sheet_ = std::make_unique<sheet>();
  proto_world w_{in_turn(), 3};
};

TEST_F(who_waits, report__a_receive_with_its_object) {
  receive(0, 1, 5);
  report(0);
  const auto found = of(kind::receive);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].tag, 5u);
  EXPECT_EQ(found[0].size, 16u);
  EXPECT_EQ(found[0].object, reinterpret_cast<std::uintptr_t>(&object_));
  EXPECT_EQ(found[0].engine, w_[0].matcher->first_rcomp);
}

TEST_F(who_waits, report__how_far_the_connection_with_the_peer_is) {
  receive(0, 1, 5);
  const auto flags = [&] {
    report(0);
    return of(kind::receive).at(0).flags;
  };
  EXPECT_EQ(flags(), NOT_CONNECTED);
  w_[0].core.peers.report(1, peer_event::connect);
  EXPECT_EQ(flags(), CONNECTING);
  w_[0].core.peers.report(1, peer_event::connected);
  EXPECT_EQ(flags(), CONNECTED);
  w_[0].core.peers.report(1, peer_event::fail, "it died");
  EXPECT_EQ(flags(), 0);
}

TEST_F(who_waits, report__nothing_of_a_connection_with_itself_or_any_rank) {
  receive(0, 0, 5);
  receive(0, lci::ANY_SOURCE, 6);
  report(0);
  ASSERT_EQ(of(kind::receive).size(), 2u);
  for (const record& r : of(kind::receive)) EXPECT_EQ(r.flags, 0);
}

TEST_F(who_waits, report__atomic_operations_that_nobody_has_answered) {
  struct : lci::proto::atomic_request {
    void on_atomic(lci::proto::atomic_outcome) noexcept override { has_ended = true; }
    bool has_ended = false;
  } asked;
  std::uint64_t word = 0;
  const lci::net::remote_key key = w_[2].expose(&word, sizeof(word));
  asked.rank = 2;
  asked.region = {key.slot, key.generation};
  asked.change = lci::wqe::change_of(lci::wqe::opcode::atomic_fa, {1, 0, 0, 0, 8});
  ASSERT_EQ(w_[0].queues->atomics.start(asked), errorcode_t::posted);
  report(0);
  const auto found = of(kind::atomic);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].size, 8u);
  w_.step();
  EXPECT_TRUE(asked.has_ended);
  report(0);
  EXPECT_TRUE(of(kind::atomic).empty());
}

// A call that a thread has entered earlier; all runtimes say what they know of its peer.
TEST_F(who_waits, report__the_peer_of_a_call) {
  sheet_->begin_at(start_);
  record* const call = sheet_->add(kind::call, "a blocking post");
  call->rank = 2;
  w_[0].core.peers.report(2, peer_event::connect);
  lci::proto::report(w_[0].core, *sheet_);
  EXPECT_EQ(call->flags, CONNECTING);
}

TEST_F(who_waits, report__messages_that_nobody_receives_and_sends_that_wait) {
  send(1, 0, 8, 7);
  send(1, 0, LARGE, 9);
  w_.step(20);
  report(0);
  const auto messages = of(kind::message);
  ASSERT_EQ(messages.size(), 2u);
  for (const record& r : messages) {
    EXPECT_EQ(r.rank, 1);
    EXPECT_EQ((r.flags & RENDEZVOUS) != 0, r.tag == 9) << r.tag;
  }
  report(1);
  const auto sends = of(kind::send);
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends[0].rank, 0);
  EXPECT_EQ(sends[0].tag, 9u);
  EXPECT_EQ(sends[0].size, LARGE);
  EXPECT_EQ(sends[0].how, 0);
  // It is received after all.
  std::vector<std::byte> into(LARGE);
  lci::status_t got;
  w_[0].receive(1, into.data(), LARGE, 9, &object_, got);
  w_.step();
  report(1);
  EXPECT_TRUE(of(kind::send).empty());
}

TEST_F(who_waits, report__active_messages_that_wait_for_their_turn) {
  class taker : public lci::comp_impl_t {
   public:
    void signal(lci::status_t status) override {
      free(status.buffer);
      ++count;
    }
    int count = 0;
  } to;
  const lci::rcomp_t number = w_[0].core.rcomps.add(&to);
  const auto post = [&](int from, int count) {
    for (int i = 0; i < count; ++i) {
      auto out = w_[from].outgoing(0, data_.data(), LARGE, number, 7, &object_);
      ASSERT_EQ(lci::proto::start_message(out), errorcode_t::posted);
    }
  };
  post(1, 8);
  post(2, 3);
  // Nobody answers the senders.
  for (int i = 0; i < ROUNDS && w_[0].queues->host.window.waiting() != 5; ++i)
    w_[0].queues->progress();
  report(0);
  const auto found = of(kind::turn);
  ASSERT_EQ(found.size(), 1u) << "those of the other rank have all had their turn";
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].number, 5u);
  EXPECT_EQ(found[0].size, 5 * LARGE);
  w_.step();
  EXPECT_EQ(to.count, 11);
  report(0);
  EXPECT_TRUE(of(kind::turn).empty());
}

TEST_F(who_waits, report__operations_and_rounds_of_a_device) {
  receive(0, 1, 5);
  w_.step(3);
  report(0);
  ASSERT_EQ(of(kind::device).size(), 1u);
  EXPECT_EQ(of(kind::device)[0].size, 1u);
  const auto before = of(kind::progress).at(0).number;
  w_.step(3);
  report(0);
  EXPECT_GT(of(kind::progress).at(0).number, before);
}

// A thread adds its count after the first one, and then now and then.
TEST_F(who_waits, report__refusals_by_reason) {
  auto& engine = w_[0].queues->engine();
  engine.refuse(2, errorcode_t::retry_nopacket);
  engine.refuse(1, errorcode_t::retry_nomem);
  report(0);
  ASSERT_EQ(of(kind::refusals).size(), 2u);
  for (const record& r : of(kind::refusals)) EXPECT_EQ(r.number, 1u);
  for (int i = 0; i < 1000; ++i) engine.refuse(2, errorcode_t::retry_nopacket);
  report(0);
  std::uint64_t number = 0;
  for (const record& r : of(kind::refusals))
    if (r.how == static_cast<std::uint8_t>(errorcode_t::retry_nopacket)) number = r.number;
  EXPECT_GT(number, 1001u - 64);
  EXPECT_LE(number, 1001u);
}

}  // namespace
}  // namespace who_waits_tests
