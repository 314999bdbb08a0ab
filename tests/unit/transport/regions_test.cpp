// Memory that ends, and keys that are revoked, while a connection registers the memory.
#include "lci/transport/regions.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

class regions_test : public test::room_test {
 protected:
  void SetUp() override {
    room_test::SetUp();
    if (IsSkipped()) return;
    e_ = std::make_unique<test::ends>();
    e_->connect();
    of_.open(e_->at_root->runtime(), e_->at_root->device());
    memory_ = memory_table::add(bytes_, sizeof bytes_);
  }
  void TearDown() override {
    of_.clear();
    if (memory_ != nullptr) memory_table::remove(*memory_);
    e_.reset();
  }
  char bytes_[64] = {};
  std::unique_ptr<test::ends> e_;
  std::shared_ptr<memory_state> memory_;
  regions of_;
};

TEST_F(regions_test, admit__what_is_good) {
  EXPECT_TRUE(of_.admit({1, memory_->give_key({})}).is_good);
  EXPECT_TRUE(of_.is_used_by_peer(memory_->id()));
}

// Who revokes it then does not know yet that this connection has the memory.
TEST_F(regions_test, admit__revoked_while_it_is_registered) {
  of_.on_new = [](memory_state& memory) { memory.withdraw_all(); };
  const answer reply = of_.admit({1, memory_->give_key({})});
  EXPECT_FALSE(reply.is_good);
  EXPECT_EQ(reply.reason, "it was revoked");
  EXPECT_FALSE(of_.is_used_by_peer(memory_->id()));
}

// An operation by the first key goes on, while one by the second key is over.
TEST_F(regions_test, release__of_the_withdrawal_that_is_named) {
  const regions::time now = std::chrono::steady_clock::now();
  ASSERT_TRUE(of_.admit({1, memory_->give_key({})}).is_good);
  const auto first = of_.withdraw(memory_->id(), now);
  ASSERT_TRUE(of_.admit({2, memory_->give_key({})}).is_good);
  const auto second = of_.withdraw(memory_->id(), now);
  ASSERT_TRUE(first && second);
  of_.release(second->number);
  EXPECT_TRUE(of_.is_leaving(first->number));
  EXPECT_FALSE(of_.is_leaving(second->number));
  EXPECT_EQ(of_.count(), 1u);
  EXPECT_TRUE(of_.is_used_by_peer(memory_->id()));
  of_.release(second->number);  // once more: of nobody
  EXPECT_EQ(of_.count(), 1u);
  of_.release(first->number);
  EXPECT_FALSE(of_.is_used_by_peer(memory_->id()));
}

TEST_F(regions_test, find__ended_while_it_is_registered) {
  of_.on_new = [](memory_state& memory) { memory.end(); };
  EXPECT_THROW(of_.find(memory_), argument_error);
  EXPECT_EQ(of_.count(), 0u);
}

}  // namespace
}  // namespace lci::transports
