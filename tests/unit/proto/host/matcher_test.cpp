// The short way of a receive: filed at once for the message that comes later, or left untouched for
// post(), which knows every case.
#include "lci/proto/host/matcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lci/base/thread_id.hpp"
#include "lci/comp/counter.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"
#include "tests/support/failing_new/failing_new.hpp"
#include "tests/support/in_thread.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using namespace lci::test;
using lci::errorcode_t;
using lci::proto::early_receive;

constexpr lci::tag_t TAG = 5;

enum class way { early, alone };

class post_short : public testing::TestWithParam<way> {
 protected:
  // They have met, so that an end is noticed; and there is a record at hand.
  void SetUp() override {
    send(8, 99);
    w_.step(20);
    here().queues->host.common.receives.put(here().queues->host.common.receives.get());
  }
  // From rank 1 to rank 0.
  void send(std::size_t size, lci::tag_t tag = TAG) {
    auto out = w_[1].outgoing(0, data_.data(), size, w_[1].engine_rcomp(), tag);
    ASSERT_EQ(lci::proto::start_message(out), errorcode_t::done);
  }
  early_receive asked(lci::comp_impl_t& told, std::size_t size = 16) {
    return {&told, 1, TAG, buffer_.data(), size, &w_};
  }
  errorcode_t post(lci::comp_impl_t& told, std::size_t size = 16) {
    return post(asked(told, size));
  }
  // As post_recv() does it.
  errorcode_t post(const early_receive& what) { return post(*here().matcher, what); }
  errorcode_t post(lci::proto::matcher& at, const early_receive& what) {
    lci::proto::host_context& host = here().queues->host;
    if (GetParam() == way::early) return at.post_early(host, what);
    const auto posted = at.post_alone(host, what.rank, what.tag, [&what] { return what; });
    message_waits_ = posted.message_waits;
    if (posted.filed == nullptr) return errorcode_t::retry;
    meanwhile_();
    return here().core.peers.epoch() != 0 ? at.end_early(host, *posted.filed, what.rank)
                                          : errorcode_t::posted;
  }
  // More of them than there are records at hand.
  errorcode_t post_surely(const early_receive& what) {
    const errorcode_t code = post(what);
    return code == errorcode_t::retry ? here().matcher->post_early(here().queues->host, what)
                                      : code;
  }
  static bool needs_race_points() { return GetParam() == way::early && !has_race_points; }
  // What happens while a receive is posted, before anybody looks who has ended.
  errorcode_t post_while(lci::comp_impl_t& told, std::function<void()> something) {
    meanwhile_ = std::move(something);
    if (GetParam() == way::alone) return post(told);
    const race_hook hook("map_engine.file_recv.before_lock", meanwhile_, 1);
    return post(told);
  }
  node& here() { return w_[0]; }
  std::int64_t open() { return here().queues->host.open_receives.sum(); }

  proto_world w_{card_options(), 2};
  std::vector<std::byte> data_ = pattern(LARGE);
  std::vector<std::byte> buffer_ = std::vector<std::byte>(LARGE);
  recorder told_;
  bool message_waits_ = false;  // said post_alone()

 private:
  std::function<void()> meanwhile_ = [] {};
};
INSTANTIATE_TEST_SUITE_P(ways, post_short, testing::Values(way::early, way::alone),
                         [](const auto& of) {
                           return std::string(of.param == way::early ? "early" : "alone");
                         });

TEST_P(post_short, its_message__comes_with_everything_that_a_status_has) {
  EXPECT_EQ(post(told_), errorcode_t::posted);
  EXPECT_EQ(open(), 1);
  send(8);
  w_.step(20);
  ASSERT_EQ(told_.seen.size(), 1u);
  const lci::status_t& got = told_.seen[0];
  EXPECT_TRUE(got.is_done());
  EXPECT_EQ(got.rank, 1);
  EXPECT_EQ(got.tag, TAG);
  EXPECT_EQ(got.size, 8u) << "of the message";
  EXPECT_EQ(got.buffer, buffer_.data());
  EXPECT_EQ(got.user_context, &w_);
  EXPECT_TRUE(std::equal(data_.begin(), data_.begin() + 8, buffer_.begin()));
  EXPECT_EQ(open(), 0);
}

TEST_P(post_short, many__in_the_order_of_posts) {
  std::vector<recorder> all(200);
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(post_surely({&all[i], 1, TAG, &buffer_[i], 1, nullptr}), errorcode_t::posted);
  for (std::size_t i = 0; i < all.size(); ++i) {
    send(1);
    w_.step(5);
    ASSERT_EQ(all[i].seen.size(), 1u) << i;
    EXPECT_EQ(all[i].seen[0].buffer, &buffer_[i]);
  }
}

TEST_P(post_short, a_large_message__is_fetched_into_it) {
  EXPECT_EQ(post(told_, LARGE), errorcode_t::posted);
  auto out = w_[1].outgoing(0, data_.data(), LARGE, w_[1].engine_rcomp(), TAG);
  ASSERT_EQ(lci::proto::start_message(out), errorcode_t::posted);
  w_.step();
  ASSERT_EQ(told_.seen.size(), 1u);
  EXPECT_EQ(told_.seen[0].size, LARGE);
  EXPECT_EQ(buffer_, data_);
}

TEST_P(post_short, a_counter__counts) {
  lci::comp::counter count{lci::comp_attr_t{}};
  EXPECT_EQ(post(count), errorcode_t::posted);
  send(8);
  w_.step(20);
  EXPECT_EQ(count.get(), 1);
}

TEST_P(post_short, a_message_that_is_there__is_left_to_post) {
  send(8);
  w_.step(20);
  EXPECT_EQ(post(told_), errorcode_t::retry);
  EXPECT_EQ(message_waits_, GetParam() == way::alone);
  EXPECT_EQ(open(), 0);
  lci::status_t got;
  EXPECT_EQ(here().receive(1, buffer_.data(), 16, TAG, &told_, got), errorcode_t::done);
}

TEST_P(post_short, another_kind_of_engine__is_left_to_post) {
  lci::proto::matcher lists(lci::match::make_engine(lci::attr_matching_engine_type_t::queue));
  EXPECT_EQ(post(lists, asked(told_)), errorcode_t::retry);
  EXPECT_EQ(lists.engine().size(), 0u);
  EXPECT_EQ(open(), 0);
}

TEST_P(post_short, too_small__is_used_up_by_the_error) {
  EXPECT_EQ(post(told_, 4), errorcode_t::posted);
  send(8);
  w_.step(20);
  ASSERT_EQ(w_.thrown.size(), 1u);
  EXPECT_THROW(std::rethrow_exception(w_.thrown[0]), lci::truncation_error);
  EXPECT_TRUE(told_.seen.empty());
  EXPECT_EQ(open(), 0);
  lci::status_t got;
  EXPECT_EQ(here().receive(1, buffer_.data(), 16, TAG, &told_, got), errorcode_t::done)
      << "the message is still there";
}

TEST_P(post_short, an_object_that_was_freed__is_not_told) {
  EXPECT_EQ(post(told_), errorcode_t::posted);
  ++told_.attr.serial;  // another object in the same place
  send(8);
  w_.step(20);
  EXPECT_TRUE(told_.seen.empty());
  EXPECT_FALSE(w_.thrown.empty());
}

// Its receives were taken out before this one is filed.
TEST_P(post_short, a_rank_that_dies_meanwhile__ends_it) {
  if (needs_race_points()) GTEST_SKIP() << RACE_POINTS_MISSING;
  lci::comp::sync told{lci::comp_attr_t{}};
  EXPECT_EQ(post_while(told,
                       [&] {
                         w_.sim.kill(1);
                         w_.step(50);
                         ASSERT_TRUE(here().core.peers.has_failed(1));
                       }),
            errorcode_t::posted);
  EXPECT_EQ(told.lost(), 1);
  EXPECT_EQ(open(), 0);
}

// One that is filed already is ended with all others.
TEST_P(post_short, a_rank_that_leaves_meanwhile__is_refused) {
  if (needs_race_points()) GTEST_SKIP() << RACE_POINTS_MISSING;
  lci::comp::sync told{lci::comp_attr_t{}};
  const errorcode_t code = post_while(told, [&] {
    w_[1].fabric->leave();
    w_.step(50);
    ASSERT_TRUE(here().core.peers.has_ended(1));
  });
  EXPECT_EQ(code, GetParam() == way::early ? errorcode_t::fatal : errorcode_t::posted);
  EXPECT_EQ(told.lost(), GetParam() == way::early ? -1 : 1);
  EXPECT_EQ(open(), 0);
}

// The record is home when its object is signalled, and a handler that waits for its turn comes
// before that: the receive that it posts is in the same record.
TEST_P(post_short, another_one_from_a_handler_that_comes_first__leaves_what_it_is_told) {
  class poster final : public lci::comp_impl_t {
   public:
    explicit poster(std::function<void()> act) : act_(std::move(act)) {}
    void signal(lci::status_t) override { act_(); }

   private:
    std::function<void()> act_;
  };
  lci::proto::host_context& host = here().queues->host;
  std::vector<std::byte> other(16);
  for (const std::size_t size : {8, 100}) {
    recorder first, second;
    poster waits([&] {
      EXPECT_EQ(post({&second, 1, TAG + 1, other.data(), 16, nullptr}), errorcode_t::posted);
    });
    ASSERT_EQ(post(first, 128), errorcode_t::posted);
    ASSERT_TRUE(host.engine.handlers.add(waits, {}, false, lci::proto::news::notification));
    {
      const lci::proto::handler_depth inside;
      EXPECT_EQ(here().matcher->on_eager(host, {.rank = 1, .data = data_.data(), .size = size}, TAG,
                                         lci::matching_policy_t::rank_tag),
                lci::net::verdict::taken);
    }
    ASSERT_EQ(open(), 1) << "the handler has posted";
    ASSERT_EQ(first.seen.size(), 1u);
    EXPECT_EQ(first.seen[0].tag, TAG);
    EXPECT_EQ(first.seen[0].buffer, buffer_.data());
    EXPECT_EQ(first.seen[0].size, size);
    EXPECT_EQ(first.seen[0].user_context, &w_);
    send(4, TAG + 1);
    w_.step(20);
    ASSERT_EQ(second.seen.size(), 1u);
    EXPECT_EQ(second.seen[0].buffer, other.data());
  }
}

// More bytes than are copied without a call, and fewer.
TEST_P(post_short, each_size__arrives_whole) {
  for (const std::size_t size : {0, 1, 7, 8, 9, 16, 31, 32, 33, 64, 200}) {
    std::fill(buffer_.begin(), buffer_.end(), std::byte{0});
    ASSERT_EQ(post(told_, 256), errorcode_t::posted);
    send(size);
    w_.step(20);
    ASSERT_FALSE(told_.seen.empty());
    EXPECT_EQ(told_.seen.back().size, size);
    EXPECT_TRUE(std::equal(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(size),
                           buffer_.begin()));
    EXPECT_EQ(buffer_[size], std::byte{0});
  }
  EXPECT_EQ(open(), 0);
}

// What needs a call is left to post_early(), untouched.
class post_alone : public post_short {};
INSTANTIATE_TEST_SUITE_P(left, post_alone, testing::Values(way::alone));

TEST_P(post_alone, without_a_record_at_hand) {
  auto& pool = here().queues->host.common.receives;
  std::vector<lci::proto::receive*> taken;
  const std::uint32_t thread = lci::base::thread_id();
  while (lci::proto::receive* const one = pool.try_get_at_hand(thread)) taken.push_back(one);
  const std::size_t filed = here().matcher->engine().size();
  EXPECT_EQ(post(told_), errorcode_t::retry);
  EXPECT_EQ(here().matcher->engine().size(), filed);
  EXPECT_EQ(open(), 0);
  for (lci::proto::receive* const one : taken) pool.put(one);
  EXPECT_EQ(post(told_), errorcode_t::posted);
}

TEST_P(post_alone, in_a_thread_that_the_engine_is_not_biased_towards) {
  EXPECT_EQ(post(told_), errorcode_t::posted);
  auto& pool = here().queues->host.common.receives;
  lci::test::in_thread([&] {
    pool.put(pool.get());
    ASSERT_LT(lci::base::thread_id(), lci::base::OVERFLOW_THREAD);
    EXPECT_EQ(post(told_), errorcode_t::retry);
    EXPECT_FALSE(message_waits_);
  });
  EXPECT_EQ(open(), 1);
}

// No packet of ours takes it, and deferred it would come again and again.
TEST(kept_message, from_larger_packets_than_ours__waits_for_its_receive) {
  proto_world w;
  node& here = w[0];
  const auto data = pattern(here.pool.payload_size() + 1);
  const std::size_t before = here.pool.outstanding();
  const auto arrive = [&] {
    return here.matcher->on_eager(here.queues->host,
                                  {.rank = 1, .data = data.data(), .size = data.size()}, TAG,
                                  lci::matching_policy_t::rank_tag);
  };
  const auto expect_there = [&] {
    std::vector<std::byte> buffer(data.size());
    recorder told;
    lci::status_t got;
    EXPECT_EQ(here.receive(1, buffer.data(), buffer.size(), TAG, &told, got), errorcode_t::done);
    EXPECT_EQ(got.size, data.size());
    EXPECT_EQ(buffer, data);
    EXPECT_EQ(here.pool.outstanding(), before);
  };
  ASSERT_EQ(arrive(), lci::net::verdict::taken);
  EXPECT_EQ(here.pool.outstanding(), before + 1) << "there are no more of them than packets";
  expect_there();
  // Sanitizers have an array form of operator new of their own.
  if (IS_SANITIZED) return;
  {
    const fail_nth_new failing(1);
    EXPECT_EQ(arrive(), lci::net::verdict::deferred);
    EXPECT_TRUE(failing.fired());
  }
  EXPECT_EQ(here.pool.outstanding(), before);
  ASSERT_EQ(arrive(), lci::net::verdict::taken);
  expect_there();
}

}  // namespace
