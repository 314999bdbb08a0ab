// What ends a call that waits, and what does not.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "lci/api/post_run.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"
#include "lci/proto/host/arrival.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::errorcode_t;

// What happens while a call makes rounds of progress, which come by here now and then.
class meanwhile final : public lci::proto::failure_detector {
 public:
  meanwhile(
      lci::proto::core& of, std::function<void()> act, std::function<void()> then = [] {})
      : of_(of), act_(std::move(act)), then_(std::move(then)) {
    of_.failures = this;
  }
  ~meanwhile() { of_.failures = nullptr; }
  void look() noexcept override {
    if (++looks_ == 2) act_();
    if (looks_ == 4) then_();
  }

 private:
  lci::proto::core& of_;
  const std::function<void()> act_, then_;
  int looks_ = 0;
};

// A receive that waits in its call, on the first of two devices.
class waiting_receive : public testing::Test {
 protected:
  static constexpr lci::tag_t TAG = 5;

  waiting_receive()
      : second_(std::make_unique<lci::proto::device_queues>(me_.shared, *me_.fabric, 1,
                                                            lci::net::device_config{}, me_.pool,
                                                            std::size_t{1} << 20)) {
    me_.fabric->connect(1);
  }

  lci::status_t receive(int from) {
    lci::proto::waiter* const w = me_.core.waiters.get();
    w->arm(me_.core.waiters);
    lci::proto::receive& record = *me_.shared.host.receives.get();
    record.user = {w, lci::status_t(), true};
    record.user.status.rank = from;
    record.user.status.buffer = &got_;
    record.user.status.size = sizeof got_;
    record.host = &me_.queues->host;
    record.region = {};
    lci::status_t got;
    EXPECT_EQ(me_.matcher->post(record, from, TAG, lci::matching_policy_t::rank_tag, got),
              errorcode_t::posted);
    lci::api::waiting wait(*me_.queues);
    return lci::api::wait_for(w, *me_.queues, from, wait, me_.matcher.get());
  }
  void bring(lci::proto::device_queues& by, int from) {
    const std::byte byte{42};
    const std::uint32_t imm = me_.core.imm.encode(me_.engine_rcomp(), TAG);
    lci::proto::single_arrival(by.host).on_message({from, imm, &byte, 1, nullptr});
  }
  static void end(lci::proto::device_queues& by, int rank, bool orderly) {
    lci::proto::single_arrival(by.host).on_peer_ended(rank, orderly, "it has gone");
  }

  lci::test::proto_world w_;
  lci::test::node& me_ = w_[0];
  std::unique_ptr<lci::proto::device_queues> second_;
  std::byte got_{0};
};

TEST_F(waiting_receive, from_who_took_leave__goes_on_while_another_device_may_bring_it) {
  end(*me_.queues, 1, true);
  const meanwhile then(me_.core, [&] {
    bring(*second_, 1);
    end(*second_, 1, true);
  });
  lci::status_t status;
  ASSERT_NO_THROW(status = receive(1));
  EXPECT_EQ(status.size, 1u);
  EXPECT_EQ(got_, std::byte{42});
}

TEST_F(waiting_receive, from_who_took_leave__ends_when_all_is_in) {
  end(*me_.queues, 1, true);
  const meanwhile then(me_.core, [&] { end(*second_, 1, true); });
  EXPECT_THROW(receive(1), lci::peer_failure_error);
  EXPECT_EQ(me_.queues->host.open_receives.sum(), 0);
}

TEST_F(waiting_receive, from_who_died__ends_at_once) {
  const meanwhile then(me_.core, [&] { end(*second_, 1, false); });
  EXPECT_THROW(receive(1), lci::peer_failure_error);
  EXPECT_EQ(me_.queues->host.open_receives.sum(), 0);
}

// It was sent before the leave, which other devices may report first.
TEST_F(waiting_receive, of_what_does_not_fit_from_who_took_leave__throws_that_once) {
  end(*me_.queues, 1, true);
  const meanwhile then(me_.core, [&] {
    const std::byte two[2] = {};
    const std::uint32_t imm = me_.core.imm.encode(me_.engine_rcomp(), TAG);
    lci::proto::single_arrival(me_.queues->host).on_message({1, imm, two, sizeof two, nullptr});
    end(*second_, 1, true);
  });
  EXPECT_THROW(receive(1), lci::truncation_error);
  EXPECT_NO_THROW(me_.queues->progress());
}

// Another device has reported the death, and this one has not acted on it yet.
TEST_F(waiting_receive, from_any_that_meets_the_request_of_who_had_died__says_so) {
  std::byte byte{7};
  auto out = w_[1].outgoing(0, &byte, 1, me_.engine_rcomp(), TAG);
  ASSERT_EQ(lci::proto::start_rendezvous(out), errorcode_t::posted);
  for (int i = 0; i < 10; ++i) me_.queues->progress();
  me_.core.peers.report(1, lci::net::peer_event::fail, "it died");
  try {
    receive(lci::ANY_SOURCE);
    ADD_FAILURE() << "it has ended well";
  } catch (const lci::peer_failure_error& error) {
    EXPECT_EQ(error.failed_rank(), 1);
  }
}

// Each reaches the program: one by the call that waited, the others by the next rounds of progress.
TEST_F(waiting_receive, after_several_errors__throws_one_and_leaves_the_others) {
  lci::proto::pending_errors& errors = me_.queues->engine().errors;
  const meanwhile later(
      me_.core,
      [&] {
        for (const char* const what : {"first", "second", "third"})
          errors.keep(std::make_exception_ptr(std::runtime_error(what)));
      },
      [&] { bring(*me_.queues, 1); });
  const auto what_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(what_of([&] { receive(1); }), "first");
  EXPECT_EQ(got_, std::byte{42}) << "the call has ended early";
  EXPECT_EQ(what_of([&] { me_.queues->progress(); }), "second");
  EXPECT_EQ(what_of([&] { me_.queues->progress(); }), "third");
  EXPECT_EQ(what_of([&] { me_.queues->progress(); }), "");
}

// The loss ends the call, and what it had kept reaches the program by the next round.
TEST_F(waiting_receive, after_an_error_from_who_died__leaves_that_to_progress) {
  const meanwhile later(
      me_.core,
      [&] {
        me_.queues->engine().errors.keep(
            std::make_exception_ptr(std::runtime_error("of somebody else")));
      },
      [&] { end(*second_, 1, false); });
  EXPECT_THROW(receive(1), lci::peer_failure_error);
  std::string left;
  try {
    me_.queues->progress();
  } catch (const std::runtime_error& error) {
    left = error.what();
  }
  EXPECT_EQ(left, "of somebody else");
}

// What is under way and leads to an object without code of the program.
class leads : public testing::Test {
 protected:
  lci::errorcode_t receive(int from, lci::comp_impl_t* comp, lci::tag_t tag = 5) {
    lci::status_t got;
    return me_.receive(from, bytes_.data(), bytes_.size(), tag, comp, got);
  }
  bool to_object(bool is_held_up_here = true) {
    return lci::api::may_signal(*me_.queues, object_,
                                is_held_up_here ? *me_.queues : *w_[1].queues);
  }

  lci::test::proto_world w_{{}, 3};
  lci::test::node& me_ = w_[0];
  lci::comp::sync object_{lci::comp_attr_t{}}, other_{lci::comp_attr_t{}};
  lci::test::recorder of_program_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(lci::test::LARGE);
};

TEST_F(leads, receives_of_other_objects__do_not) {
  of_program_.attr.comp_type = lci::attr_comp_type_t::custom;
  EXPECT_FALSE(to_object());
  receive(1, &other_);
  receive(lci::ANY_SOURCE, &of_program_);
  EXPECT_FALSE(to_object());
  receive(lci::ANY_SOURCE, &object_);
  EXPECT_TRUE(to_object());
}

// Who waits for the other object may signal this one.
TEST_F(leads, receives_of_other_objects__do_where_another_thread_uses_the_library) {
  of_program_.attr.comp_type = lci::attr_comp_type_t::custom;
  std::barrier meeting(2);
  std::jthread user([&] {
    lci::base::thread_id();
    meeting.arrive_and_wait();
    meeting.arrive_and_wait();
  });
  meeting.arrive_and_wait();
  EXPECT_FALSE(to_object());
  receive(1, &of_program_);
  EXPECT_FALSE(to_object()) << "that would wait like the others";
  EXPECT_TRUE(to_object(false)) << "another device may run it";
  receive(1, &other_);
  EXPECT_TRUE(to_object());
  meeting.arrive_and_wait();
  user.join();
  EXPECT_FALSE(to_object());
}

TEST_F(leads, a_receive_from_oneself__does_not) {
  receive(0, &object_);
  EXPECT_FALSE(to_object());
}

TEST_F(leads, a_receive_that_a_message_has_met__does_whosever_it_is) {
  receive(1, &other_);
  std::vector<std::byte> data = lci::test::pattern(lci::test::LARGE);
  auto out = w_[1].outgoing(0, data.data(), data.size(), w_[0].engine_rcomp(), 5);
  ASSERT_EQ(lci::proto::start_message(out), errorcode_t::posted);
  for (int i = 0; i < 10; ++i) me_.queues->progress();
  EXPECT_TRUE(to_object());
  w_.step();
  EXPECT_FALSE(to_object());
}

// Collectives are objects of the library, which go on to whatever they were given.
TEST_F(leads, a_receive_of_a_collective__does_and_that_of_a_call_that_waits_does_not) {
  struct : lci::detail::library_comp_t {
    void signal(lci::status_t) override {}
    void lose() noexcept override { is_lost = true; }
    bool is_lost = false;
  } collective;
  lci::proto::waiter call;
  lci::proto::receive& record = *me_.shared.host.receives.get();
  record.user = {&call, lci::status_t(), true};
  record.host = &me_.queues->host;
  lci::status_t got;
  ASSERT_EQ(me_.matcher->post(record, 1, 6, lci::matching_policy_t::rank_tag, got),
            errorcode_t::posted);
  EXPECT_FALSE(to_object());
  receive(1, &collective);
  EXPECT_TRUE(to_object());
  lci::proto::end_receives(me_.matcher->part_with(me_.queues->host), false);
  EXPECT_TRUE(collective.is_lost);
}

}  // namespace
