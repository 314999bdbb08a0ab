// How a waiter ends, and who gives it back.
#include "lci/proto/engine/waiter.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using lci::proto::waiter;

class waiter_end : public testing::Test {
 protected:
  waiter_end() { w_->arm(pool_); }
  // It is in the pool, as it was before.
  void expect_home() {
    EXPECT_EQ(pool_.get(), w_);
    EXPECT_EQ(w_->take_why(), nullptr);
    pool_.put(w_);
  }

  lci::data::object_pool<waiter> pool_;
  waiter* const w_ = pool_.get();
  const std::exception_ptr why_ = std::make_exception_ptr(std::domain_error("why"));
};

TEST_F(waiter_end, by_a_signal__has_the_status) {
  EXPECT_FALSE(w_->is_over());
  lci::status_t status(lci::errorcode_t::done);
  status.size = 7;
  w_->signal(status);
  EXPECT_TRUE(w_->is_over());
  EXPECT_FALSE(w_->has_failed());
  EXPECT_EQ(w_->result().size, 7u);
  pool_.put(w_);
}

TEST_F(waiter_end, by_a_failure__has_its_reason_once) {
  w_->fail(why_);
  EXPECT_TRUE(w_->is_over());
  EXPECT_TRUE(w_->has_failed());
  EXPECT_EQ(w_->lost_rank(), -1);
  EXPECT_EQ(w_->take_why(), why_);
  pool_.put(w_);
  expect_home();
}

TEST_F(waiter_end, by_a_loss__is_a_failure_without_a_reason) {
  w_->fail_by_loss(3);
  EXPECT_TRUE(w_->has_failed());
  EXPECT_EQ(w_->lost_rank(), 3);
  EXPECT_EQ(w_->take_why(), nullptr);
  pool_.put(w_);
}

TEST_F(waiter_end, after_the_call_has_gone__gives_it_back) {
  w_->abandon();
  w_->fail(why_);
  expect_home();
}

TEST_F(waiter_end, before_the_call_goes__leaves_that_to_the_call) {
  w_->fail(why_);
  w_->abandon();
  expect_home();
}

}  // namespace
