// The short way of a receive: filed at once for the message that comes later, or left untouched for
// post(), which knows every case.
#include "lci/proto/host/matcher.hpp"

#include <gtest/gtest.h>

#include "lci/comp/counter.hpp"
#include "lci/comp/sync.hpp"
#include "lci/errors.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using namespace lci::test;
using lci::errorcode_t;
using lci::proto::early_receive;

constexpr lci::tag_t TAG = 5;

class post_early : public testing::Test {
 protected:
  // They have met, so that an end is noticed.
  void SetUp() override {
    send(8, 99);
    w_.step(20);
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
    return here().matcher->post_early(here().queues->host, asked(told, size));
  }
  node& here() { return w_[0]; }
  std::int64_t open() { return here().queues->host.open_receives.sum(); }

  proto_world w_{card_options(), 2};
  std::vector<std::byte> data_ = pattern(LARGE);
  std::vector<std::byte> buffer_ = std::vector<std::byte>(LARGE);
  recorder told_;
};

TEST_F(post_early, its_message__comes_with_everything_that_a_status_has) {
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

TEST_F(post_early, many__in_the_order_of_posts) {
  std::vector<recorder> all(200);
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(
        here().matcher->post_early(here().queues->host, {&all[i], 1, TAG, &buffer_[i], 1, nullptr}),
        errorcode_t::posted);
  for (std::size_t i = 0; i < all.size(); ++i) {
    send(1);
    w_.step(5);
    ASSERT_EQ(all[i].seen.size(), 1u) << i;
    EXPECT_EQ(all[i].seen[0].buffer, &buffer_[i]);
  }
}

TEST_F(post_early, a_large_message__is_fetched_into_it) {
  EXPECT_EQ(post(told_, LARGE), errorcode_t::posted);
  auto out = w_[1].outgoing(0, data_.data(), LARGE, w_[1].engine_rcomp(), TAG);
  ASSERT_EQ(lci::proto::start_message(out), errorcode_t::posted);
  w_.step();
  ASSERT_EQ(told_.seen.size(), 1u);
  EXPECT_EQ(told_.seen[0].size, LARGE);
  EXPECT_EQ(buffer_, data_);
}

TEST_F(post_early, a_counter__counts) {
  lci::comp::counter count{lci::comp_attr_t{}};
  EXPECT_EQ(post(count), errorcode_t::posted);
  send(8);
  w_.step(20);
  EXPECT_EQ(count.get(), 1);
}

TEST_F(post_early, a_message_that_is_there__is_left_to_post) {
  send(8);
  w_.step(20);
  EXPECT_EQ(post(told_), errorcode_t::retry);
  EXPECT_EQ(open(), 0);
  lci::status_t got;
  EXPECT_EQ(here().receive(1, buffer_.data(), 16, TAG, &told_, got), errorcode_t::done);
}

TEST_F(post_early, another_kind_of_engine__is_left_to_post) {
  lci::proto::matcher lists(lci::match::make_engine(lci::attr_matching_engine_type_t::queue));
  EXPECT_EQ(lists.post_early(here().queues->host, asked(told_)), errorcode_t::retry);
  EXPECT_EQ(lists.engine().size(), 0u);
  EXPECT_EQ(open(), 0);
}

TEST_F(post_early, too_small__is_used_up_by_the_error) {
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

TEST_F(post_early, an_object_that_was_freed__is_not_told) {
  EXPECT_EQ(post(told_), errorcode_t::posted);
  ++told_.attr.serial;  // another object in the same place
  send(8);
  w_.step(20);
  EXPECT_TRUE(told_.seen.empty());
  EXPECT_FALSE(w_.thrown.empty());
}

// Its receives were taken out before this one is filed.
TEST_F(post_early, a_rank_that_dies_meanwhile__ends_it) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  lci::comp::sync told{lci::comp_attr_t{}};
  const race_hook hook(
      "map_engine.file_recv.before_lock",
      [&] {
        w_.sim.kill(1);
        w_.step(50);
        ASSERT_TRUE(here().core.peers.has_failed(1));
      },
      1);
  EXPECT_EQ(post(told), errorcode_t::posted);
  EXPECT_EQ(told.lost(), 1);
  EXPECT_EQ(open(), 0);
}

TEST_F(post_early, a_rank_that_leaves_meanwhile__is_refused) {
  if (!has_race_points) GTEST_SKIP() << RACE_POINTS_MISSING;
  const race_hook hook(
      "map_engine.file_recv.before_lock",
      [&] {
        w_[1].fabric->leave();
        w_.step(50);
        ASSERT_TRUE(here().core.peers.has_ended(1));
      },
      1);
  EXPECT_EQ(post(told_), errorcode_t::fatal);
  EXPECT_TRUE(told_.seen.empty());
  EXPECT_EQ(open(), 0);
}

}  // namespace
