// What ends a call that waits, and what does not.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "lci/api/post_run.hpp"
#include "lci/errors.hpp"
#include "lci/proto/arrival.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::errorcode_t;

// What happens while a call makes rounds of progress, which come by here now and then.
class meanwhile final : public lci::proto::lookout {
 public:
  meanwhile(lci::proto::core& of, std::function<void()> act) : of_(of), act_(std::move(act)) {
    of_.far_news = this;
  }
  ~meanwhile() { of_.far_news = nullptr; }
  void look() noexcept override {
    if (++looks_ == 2) act_();
  }

 private:
  lci::proto::core& of_;
  const std::function<void()> act_;
  int looks_ = 0;
};

// A receive that waits in its call, on the first of two devices.
class waiting_receive : public testing::Test {
 protected:
  static constexpr lci::tag_t TAG = 5;

  waiting_receive()
      : second_(std::make_unique<lci::proto::channel>(
            me_.core, *me_.fabric, 1, lci::net::device_config{}, me_.pool, std::size_t{1} << 20)) {
    me_.fabric->connect(1);
  }

  lci::status_t receive(int from) {
    lci::proto::waiter* const w = me_.core.waiters.get();
    w->arm(me_.core.waiters);
    lci::proto::receive& record = *me_.core.receives.get();
    record.user = {w, lci::status_t(), true};
    record.user.status.rank = from;
    record.user.status.buffer = &got_;
    record.user.status.size = sizeof got_;
    record.via = me_.channel.get();
    record.region = {};
    lci::status_t got;
    EXPECT_EQ(me_.matcher->post(record, from, TAG, lci::matching_policy_t::rank_tag, got),
              errorcode_t::posted);
    lci::api::waiting wait(*me_.channel);
    return lci::api::wait_for(w, *me_.channel, from, wait, me_.matcher.get());
  }
  void bring(lci::proto::channel& by, int from) {
    const std::byte byte{42};
    const std::uint32_t imm = me_.core.imm.encode(me_.engine_rcomp(), TAG);
    lci::proto::arrival_sink(by).on_message({from, imm, &byte, 1, nullptr});
  }
  static void end(lci::proto::channel& by, int rank, bool orderly) {
    lci::proto::arrival_sink(by).on_peer_gone(rank, orderly, "it has gone");
  }

  lci::test::proto_world w_;
  lci::test::node& me_ = w_[0];
  std::unique_ptr<lci::proto::channel> second_;
  std::byte got_{0};
};

TEST_F(waiting_receive, from_who_took_leave__goes_on_while_another_device_may_bring_it) {
  end(*me_.channel, 1, true);
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
  end(*me_.channel, 1, true);
  const meanwhile then(me_.core, [&] { end(*second_, 1, true); });
  EXPECT_THROW(receive(1), lci::peer_failure_error);
  EXPECT_EQ(me_.channel->open_receives.sum(), 0);
}

TEST_F(waiting_receive, from_who_died__ends_at_once) {
  const meanwhile then(me_.core, [&] { end(*second_, 1, false); });
  EXPECT_THROW(receive(1), lci::peer_failure_error);
  EXPECT_EQ(me_.channel->open_receives.sum(), 0);
}

}  // namespace
