// What has come, and what is complete, is told before the end of a connection.
#include "backends/ofi/event_queue.hpp"

#include <atomic>
#include <thread>

#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class connection_that_ends : public on_a_network {
 protected:
  static constexpr std::size_t SENT = 3;

  // Two ranks that have met; rank 0 knows memory of rank 1.
  void open_with_memory() {
    group_ = open(2);
    key_ = group_->at(1).expose(there_.data(), there_.size());
    group_->learn(0, 1, key_);
    meet(*group_, 0, 1);
    group_->settle();
  }
  // Rank 1 has sent, and a get of rank 0 is complete; rank 0 has read none of it.
  void open_with_news() {
    open_with_memory();
    before_ = group_->at(0).seen().arrived();
    ASSERT_EQ(group_->at(0).to().get(transfer_of(here_, key_, got_)), errorcode_t::posted);
    for (int i = 0; i < 10; ++i) group_->at(1).poll();
    for (std::size_t i = 0; i < SENT; ++i) ASSERT_EQ(send(*group_, 1, 0), errorcode_t::done);
  }
  void expect_the_end_behind_the_news() {
    const test::recorder& seen = group_->at(0).seen();
    ASSERT_TRUE(until_alone(*group_, 0, [&] { return !seen.gone().empty(); }));
    EXPECT_FALSE(seen.gone()[0].orderly);
    EXPECT_EQ(seen.gone()[0].messages_before, before_ + SENT);
    EXPECT_EQ(got_.completed, 1);
    EXPECT_EQ(got_.failed, 0);
    group_->at(1).hide(key_);
  }
  std::vector<std::byte> there_{64}, here_{64};
  test::op_fate got_;
  net::remote_key key_;
  std::size_t before_ = 0;
  std::unique_ptr<test::group> group_;
};

// Where nothing keeps order: who leaves has told of its last write.
TEST_F(connection_that_ends, by_a_rank_that_leaves_behind_its_writes) {
  test::fake_ofi_config config;
  config.keeps_order = false;
  config.late = 3;
  fake().reset(config);
  open_with_memory();
  set_leave_ms(at(0), FOR_EVER_MS);
  ASSERT_EQ(group_->at(0).to().put_imm(transfer_of(here_, key_, got_)), errorcode_t::posted);
  // Rank 1 reads nothing until rank 0 would have said so.
  const std::size_t reads = fake().calls("fi_cq_read");
  std::atomic<bool> has_left{false};
  std::thread leaver([&] {
    at(0).leave();
    has_left.store(true);
  });
  while (!has_left.load() && fake().calls("fi_cq_read") < reads + 5) std::this_thread::yield();
  const test::recorder& seen = group_->at(1).seen();
  EXPECT_TRUE(until_alone(*group_, 1, [&] { return !seen.gone().empty(); }));
  leaver.join();
  ASSERT_EQ(seen.gone().size(), 1u);
  EXPECT_TRUE(seen.gone()[0].orderly);
  EXPECT_EQ(seen.immediates(), 1u);
  group_->at(1).hide(key_);
}

// Providers may tell of an error before what was done earlier.
TEST_F(connection_that_ends, by_a_post_that_is_refused_for_good) {
  open_with_news();
  fake().fail("fi_injectdata", 1, -FI_ENOTCONN);
  EXPECT_EQ(send(*group_, 0, 1), errorcode_t::retry_nomem);
  const std::size_t posted = fake().calls("fi_injectdata");
  EXPECT_EQ(send(*group_, 0, 1), errorcode_t::retry_nomem) << "it would overtake what was lost";
  EXPECT_EQ(fake().calls("fi_injectdata"), posted);
  look_only(group_->at(0));
  expect_the_end_behind_the_news();
}

// At one end alone. The other one hears of it, whatever carries its word.
TEST_F(connection_that_ends, by_a_refused_post_ends_at_the_peer) {
  for (const std::size_t data_bytes : {8u, 4u}) {
    test::fake_ofi_config config;
    config.data_bytes = data_bytes;
    fake().reset(config);
    group_ = open(2);
    meet(*group_, 0, 1);
    fake().fail(data_bytes == 8 ? "fi_injectdata" : "fi_inject", 1, -FI_ENOTCONN);
    EXPECT_EQ(send(*group_, 0, 1), errorcode_t::retry_nomem);
    ASSERT_TRUE(until_gone(*group_, 1)) << "it waits for ever";
    group_->settle();
    for (const int rank : {0, 1}) {
      ASSERT_EQ(group_->at(rank).seen().gone().size(), 1u);
      EXPECT_FALSE(group_->at(rank).seen().gone()[0].orderly);
    }
    EXPECT_EQ(group_->at(1).seen().gone()[0].reason, "the connection has failed at the peer");
    group_.reset();
  }
}

// Where the network takes nothing at first, since it has to connect once more.
TEST_F(connection_that_ends, by_a_stale_key_ends_at_the_peer) {
  open_with_memory();
  ASSERT_EQ(group_->at(0).to().put(transfer_of(here_, key_, got_)), errorcode_t::posted);
  group_->at(1).hide(key_);
  group_->at(1).poll();
  fake().fail("fi_injectdata", 1, -FI_EAGAIN, 3);
  const test::recorder& seen = group_->at(0).seen();
  ASSERT_TRUE(until_alone(*group_, 0, [&] { return !seen.gone().empty(); }));
  EXPECT_EQ(got_.failed, 1);
  ASSERT_TRUE(until_gone(*group_, 1)) << "it waits for ever";
  EXPECT_FALSE(group_->at(1).seen().gone()[0].orderly);
}

}  // namespace
}  // namespace lci::ofi
