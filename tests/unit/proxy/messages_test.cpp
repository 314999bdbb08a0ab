#include "lci/proxy/messages.hpp"

#include <set>

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

TEST(request_end, now__says_how_it_ended) {
  request_end one;
  EXPECT_EQ(one.now(), request_end::idle);
  one.arm();
  EXPECT_EQ(one.now(), request_end::waiting);
  one.signal(status_t());
  EXPECT_EQ(one.now(), request_end::done);
  one.arm();
  one.lose();
  EXPECT_EQ(one.now(), request_end::lost);
  one.disarm();
  EXPECT_EQ(one.now(), request_end::idle);
}

TEST(open_sends, take__no_more_than_may_be_under_way) {
  open_sends all;
  std::set<open_sends::record*> taken;
  for (std::size_t i = 0; i < open_sends::MOST; ++i) taken.insert(all.take());
  EXPECT_EQ(taken.size(), open_sends::MOST);
  EXPECT_EQ(taken.count(nullptr), 0u);
  EXPECT_EQ(all.take(), nullptr);
  (*taken.begin())->signal(status_t());
  EXPECT_EQ(all.take(), *taken.begin());
  EXPECT_TRUE(all.any());
  for (open_sends::record* const one : taken) one->signal(status_t());
  EXPECT_FALSE(all.any());
  EXPECT_FALSE(all.was_any_lost());
}

TEST(open_sends, lose__is_remembered) {
  open_sends all;
  open_sends::record* const one = all.take();
  one->lose();
  EXPECT_FALSE(all.any());
  EXPECT_TRUE(all.was_any_lost());
}

class open_receives_test : public testing::Test {
 protected:
  gpu::receive_slot slots_[2] = {};
  test::proxied_job job_;
  open_receives all_{slots_, 2};
};

TEST_F(open_receives_test, take__only_what_a_kernel_has_posted) {
  EXPECT_EQ(all_.take(2), nullptr) << "no slot";
  EXPECT_EQ(all_.take(0), nullptr) << "free";
  slots_[0].state = 2;
  EXPECT_EQ(all_.take(0), nullptr) << "ended";
  slots_[0].state = 3;
  open_receives::record* const one = all_.take(0);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(all_.take(0), nullptr) << "taken";
  EXPECT_TRUE(all_.any());
  open_receives::put(*one);
  EXPECT_FALSE(all_.any());
  EXPECT_EQ(all_.take(0), one);
  one->signal(status_t());
}

TEST_F(open_receives_test, signal__writes_the_result_before_the_state) {
  slots_[1].state = 5;
  open_receives::record* const one = all_.take(1);
  status_t got;
  got.rank = 1;
  got.size = 12;
  got.tag = 34;
  one->signal(got);
  EXPECT_EQ(slots_[1].state, 6u);
  EXPECT_EQ(slots_[1].result, static_cast<std::int32_t>(gpu::status::ok));
  EXPECT_EQ(slots_[1].rank, 1);
  EXPECT_EQ(slots_[1].size, 12u);
  EXPECT_EQ(slots_[1].tag, 34u);
}

// Who ends it knows whether the peer is there. What has become of others says nothing.
TEST_F(open_receives_test, lose__and_fail_say_why) {
  using ending = void (*)(open_receives::record&);
  const ending lose = [](open_receives::record& one) { one.lose(); };
  const ending fail = [](open_receives::record& one) { one.fail(nullptr); };
  const auto said = [&](ending end, int rank) {
    slots_[0].state = 1;
    open_receives::record* const one = all_.take(0);
    one->rank = rank;
    end(*one);
    return static_cast<gpu::status>(slots_[0].result);
  };
  EXPECT_EQ(said(fail, 1), gpu::status::too_long);
  EXPECT_EQ(said(lose, 1), gpu::status::peer_lost);
  slots_[1].state = 1;
  open_receives::record* const of_any = all_.take(1);
  of_any->rank = -1;
  job_.kill();
  ASSERT_TRUE(job_.step_until([&] { return job_.runtime().core.peers.has_ended(1); }));
  of_any->fail(nullptr);
  EXPECT_EQ(slots_[1].result, static_cast<std::int32_t>(gpu::status::too_long));
  EXPECT_EQ(said(lose, -1), gpu::status::peer_lost);
  EXPECT_EQ(said(fail, 0), gpu::status::too_long);
  all_.close(job_.runtime().default_matching_engine.p_impl->match);
  EXPECT_EQ(said(fail, 0), gpu::status::aborted);
  EXPECT_EQ(said(lose, 1), gpu::status::aborted);
}

}  // namespace
}  // namespace lci::proxy
