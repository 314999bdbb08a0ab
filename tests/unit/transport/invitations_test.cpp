#include "lci/transport/invitations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lci/errors.hpp"

namespace lci::transports {
namespace {

using testing::HasSubstr;

class invitations_test : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = boot::keys_unavailable()) GTEST_SKIP() << *why;
  }
  void add(std::optional<clock::duration> time = std::nullopt, int uses = 0) {
    all_.add(boot::job_key("a secret, number " + std::to_string(made_++)), now_, time, uses);
  }
  int made_ = 0;
  clock::time_point now_;
  invitations all_;
};

TEST_F(invitations_test, use__as_often_as_it_may_be) {
  add(std::nullopt, 2);
  add();
  EXPECT_EQ(all_.use(0, now_), "");
  EXPECT_EQ(all_.use(0, now_), "");
  EXPECT_THAT(all_.use(0, now_), HasSubstr("as often"));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(all_.use(1, now_), "");
}

TEST_F(invitations_test, use__until_its_time_is_over) {
  add(std::chrono::seconds(5));
  add();
  EXPECT_EQ(all_.use(0, now_ + std::chrono::seconds(4)), "");
  EXPECT_THAT(all_.use(0, now_ + std::chrono::seconds(5)), HasSubstr("time"));
  EXPECT_THAT(all_.use(0, now_), HasSubstr("time")) << "it stays over";
  EXPECT_EQ(all_.use(1, now_ + std::chrono::hours(1000)), "");
}

TEST_F(invitations_test, add__those_that_are_over_are_known_for_a_while) {
  for (std::size_t i = 0; i < 3 * invitations::MOST_OVER; ++i) {
    add(std::chrono::seconds(1));
    now_ += std::chrono::seconds(2);
  }
  EXPECT_LE(all_.keys().size(), invitations::MOST_OVER + 1);
  EXPECT_GE(all_.keys().size(), invitations::MOST_OVER);
  EXPECT_THAT(all_.use(0, now_), HasSubstr("time"));
}

TEST_F(invitations_test, add__no_more_than_there_is_room_for) {
  for (std::size_t i = 0; i < invitations::MOST; ++i) add(std::chrono::seconds(1));
  EXPECT_THROW(add(), backend_error);
  now_ += std::chrono::seconds(2);
  add();
}

}  // namespace
}  // namespace lci::transports
