// Large active messages over a network that wants few of them at once.
#include "lci/proto/host/large_arrival.hpp"

#include <cstring>

#include "lci/errors.hpp"
#include "tests/unit/proto/no_memory_world.hpp"

namespace {

using namespace lci::test;
namespace proto = lci::proto;

// Three messages at once.
sim_options in_turn() {
  sim_options options;
  options.caps.best_at_once = 3 * LARGE;
  options.late = true;
  return options;
}

class taker : public lci::comp_impl_t {
 public:
  void signal(lci::status_t status) override {
    free(status.buffer);
    seen.push_back(status.tag);
  }
  std::vector<lci::tag_t> seen;
};

class large_arrival : public testing::Test {
 protected:
  // Tags from 0 on.
  void post(int count, lci::rcomp_t to, int from = 0) {
    for (int i = 0; i < count; ++i) {
      auto out = w_[from].outgoing(1, data_.data(), data_.size(), to, static_cast<lci::tag_t>(i),
                                   &sender_);
      ASSERT_EQ(proto::start_message(out), lci::errorcode_t::posted);
    }
  }
  // Moves everybody until `to` has that many; how many were under way at most.
  std::size_t most_under_way(const taker& to, std::size_t count) {
    std::size_t most = 0;
    for (int i = 0; i < ROUNDS && to.seen.size() < count; ++i) {
      w_.step(1);
      most = std::max<std::size_t>(most, target().rendezvous.recvs.size());
    }
    return most;
  }
  proto::host_context& target() { return w_[1].queues->host; }
  void expect_nothing_left() {
    EXPECT_EQ(target().window.waiting(), 0u);
    EXPECT_EQ(target().rendezvous.recvs.size(), 0u);
    EXPECT_EQ(w_[1].core.regions.live(), 0u);
  }

  proto_world w_{in_turn(), 3};
  std::vector<std::byte> data_ = pattern(LARGE);
  recorder sender_;
};

TEST_F(large_arrival, many_at_once__have_few_buffers_and_come_in_order) {
  taker to;
  post(20, w_[1].core.rcomps.add(&to));
  EXPECT_EQ(most_under_way(to, 20), 3u);
  ASSERT_EQ(to.seen.size(), 20u);
  EXPECT_TRUE(std::is_sorted(to.seen.begin(), to.seen.end()));
  w_.step();
  EXPECT_EQ(sender_.seen.size(), 20u);
  expect_nothing_left();
}

TEST_F(large_arrival, of_other_ranks__do_not_wait_for_each_other) {
  taker to;
  const lci::rcomp_t number = w_[1].core.rcomps.add(&to);
  post(3, number);
  post(3, number, 2);
  EXPECT_EQ(most_under_way(to, 6), 6u);
  EXPECT_EQ(to.seen.size(), 6u);
}

// A handler that makes progress until the last message is there: those that wait must not need the
// end of the handler.
TEST_F(large_arrival, handler_that_waits_for_a_later_one__gets_it) {
  class waiting final : public taker {
   public:
    explicit waiting(proto_world& w) : w_(w) {}
    void signal(lci::status_t status) override {
      taker::signal(status);
      for (int i = 0; i < ROUNDS && seen.size() < 8; ++i) w_.step(1);
      if (seen.size() == 8) ++satisfied;
    }
    int satisfied = 0;

   private:
    proto_world& w_;
  };
  waiting to(w_);
  post(8, w_[1].core.rcomps.add(&to));
  for (int i = 0; i < ROUNDS && to.seen.size() < 8; ++i) w_.step(1);
  w_.step(50);
  EXPECT_EQ(to.satisfied, 8);
  EXPECT_EQ(to.seen.size(), 8u);
}

TEST_F(large_arrival, sender_that_dies__leaves_nothing_waiting) {
  taker to;
  post(20, w_[1].core.rcomps.add(&to));
  for (int i = 0; i < ROUNDS && target().window.waiting() == 0; ++i) w_.step(1);
  ASSERT_GT(target().window.waiting(), 0u);
  w_.sim.kill(0);
  w_.step(50);
  EXPECT_LT(to.seen.size(), 20u);
  expect_nothing_left();
}

TEST_F(large_arrival, object_taken_back_while_they_wait__they_are_dropped_and_others_come) {
  taker to, other;
  const lci::rcomp_t number = w_[1].core.rcomps.add(&to);
  const lci::rcomp_t next = w_[1].core.rcomps.add(&other);
  post(6, number);
  post(6, next);
  for (int i = 0; i < ROUNDS && target().window.waiting() == 0; ++i) w_.step(1);
  w_[1].core.rcomps.remove(number);
  w_.step();
  EXPECT_EQ(other.seen.size(), 6u);
  expect_nothing_left();
  EXPECT_FALSE(w_.thrown.empty()) << "somebody is told";
}

// Both ends hear of it; the send does not wait for ever.
TEST_F(large_arrival, for_nobody__fails_at_both_ends) {
  taker to;
  const lci::rcomp_t number = w_[1].core.rcomps.add(&to);
  w_[1].core.rcomps.remove(number);
  post(1, number);
  w_.step(50);
  EXPECT_EQ(w_.thrown.size(), 2u);
  EXPECT_EQ(w_[0].queues->host.rendezvous.sends.size(), 0u);
  EXPECT_EQ(w_[0].queues->engine().open.sum(), 0);
  EXPECT_TRUE(sender_.seen.empty()) << "objects of what failed are not signalled";
}

TEST(large_arrival_no_memory, each_allocation_in_turn__they_all_come) {
  using namespace lci::test::no_memory;
  for_each_allocation([](std::uint64_t n) {
    sim_options options;
    options.caps.best_at_once = LARGE;
    ranks w(options);
    std::vector<std::byte> from = pattern(LARGE);
    counting sent, got(true);
    const lci::rcomp_t number = w[1].core.rcomps.add(&got);
    const fail_nth_new failing(n);
    for (int i = 0; i < 5; ++i) w.send(0, from.data(), from.size(), number, &sent);
    w.until([&] { return got.count == 5 && sent.count == 5 && w.is_quiet(); });
    EXPECT_EQ(std::memcmp(got.last.buffer, from.data(), LARGE), 0);
    EXPECT_TRUE(w.thrown.empty());
    EXPECT_EQ(w[1].core.regions.live(), 0u);
    return failing.fired();
  });
}

}  // namespace
