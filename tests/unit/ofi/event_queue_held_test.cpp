// What the provider has is not given back before it is done, whatever was told meanwhile.
#include "backends/ofi/event_queue.hpp"

#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class held_by_the_provider : public on_a_network {
 protected:
  // Sends complete when they are received.
  void open_slow(bool has_delivery = true) {
    test::fake_ofi_config config;
    config.completes_early = false;
    config.has_delivery = has_delivery;
    if (!has_delivery) config.provider = "tcp";
    config.mr_mode = FI_MR_LOCAL;
    fake().reset(config);
    group_ = open(2);
    meet(*group_, 0, 1);
    group_->settle();
  }
  net::net_op send_of(mem::packet& packet) {
    net::net_op op;
    op.rank = 1;
    op.packet = &packet;
    op.buffer = packet.payload();
    op.size = 400;
    op.context = &fate_;
    return op;
  }
  // Rank 0 has posted a read or a write of `here_`, for which no helper registers it.
  void post_with_memory(bool is_read) {
    key_ = group_->at(1).expose(there_.data(), there_.size());
    group_->learn(0, 1, key_);
    const auto to = group_->at(0).devices[0]->make_endpoint();
    const net::net_op op = transfer_of(here_, key_, fate_);
    live_ = fake().live();
    ASSERT_EQ(is_read ? to->get(op) : to->put(op), errorcode_t::posted);
    ASSERT_EQ(fake().live(), live_ + 1);
  }
  // The connection of rank 0 ends, and nobody is told of what is posted there.
  void end_with_memory_in_use() {
    set_leave_ms(at(0), FOR_EVER_MS);
    at(0).let_go(1, false);
    const test::recorder& seen = group_->at(0).seen();
    ASSERT_TRUE(until_alone(*group_, 0, [&] { return !seen.gone().empty(); }));
    for (int i = 0; i < 200; ++i) group_->at(0).poll();
    EXPECT_EQ(fate_.signals(), 0) << "who hears of the end may free the memory";
    EXPECT_EQ(fake().live(), live_ + 1);
    EXPECT_FALSE(group_->at(0).devices[0]->is_drained());
  }
  void expect_all_given_back() {
    EXPECT_EQ(fate_.signals(), 1);
    EXPECT_EQ(fake().live(), live_);
    EXPECT_TRUE(group_->at(0).devices[0]->is_drained());
    group_->at(1).hide(key_);
    nobody_is_waited_for();
  }
  // The connection of rank 0 ends, and what is posted there is told.
  void end_at_0() {
    at(0).let_go(1, true);
    ASSERT_TRUE(until_alone(*group_, 0, [&] { return fate_.signals() == 1; }));
    EXPECT_EQ(fate_.failed, 1);
  }
  // The provider gives back what rank 0 has posted.
  void carry_out() {
    group_->at(1).poll();
    for (int i = 0; i < 10; ++i) group_->at(0).poll();
  }
  // By who leaves, where a message is out when it is received.
  static void nobody_is_waited_for() { fake().cut("fake://", FI_ECONNRESET); }

  test::op_fate fate_;
  std::vector<std::byte> there_{64, std::byte{7}}, here_{64};
  net::remote_key key_;
  std::size_t live_ = 0;  // objects of the library before the post
  std::unique_ptr<test::group> group_;
};

}  // namespace

TEST_F(held_by_the_provider, packet_is_not_free_when_its_end_was_told) {
  open_slow();
  mem::packet_pool pool(group_->at(0).arena, 512, 4);
  ASSERT_EQ(group_->at(0).to().send(send_of(*pool.get())), errorcode_t::posted);
  end_at_0();
  EXPECT_EQ(pool.outstanding(), 1u) << "it may be read still";
  carry_out();
  EXPECT_EQ(pool.outstanding(), 0u);
  nobody_is_waited_for();
}

// The program may free the pool, now that its operation is over.
TEST_F(held_by_the_provider, packet_may_come_back_when_its_pool_has_gone) {
  for (const bool comes_back : {true, false}) {
    open_slow();
    auto pool = std::make_unique<mem::packet_pool>(group_->at(0).arena, 512, 4);
    mem::packet* const packet = pool->get();
    ASSERT_EQ(group_->at(0).to().send(send_of(*packet)), errorcode_t::posted);
    end_at_0();
    pool.reset();
    if (comes_back) carry_out();
    group_->close(0, false);
    EXPECT_EQ(packet->state.load(), mem::packet_state::out);
    nobody_is_waited_for();
    group_.reset();
    fate_.failed.store(0);
  }
}

// A device that gives up waiting ends before them, and their pool with it.
TEST_F(held_by_the_provider, packet_of_a_device_that_has_ended_is_nobodys) {
  open_slow();
  auto pool = std::make_unique<mem::packet_pool>(group_->at(0).arena, 512, 4);
  mem::packet* const packet = pool->get();
  ASSERT_EQ(group_->at(0).to().send(send_of(*packet)), errorcode_t::posted);
  std::unique_ptr<net::device>& device = group_->at(0).devices[0];
  device.reset();
  pool.reset();
  net::device_config same = group_->at(0).wanted;
  device = at(0).make_device(0, same);
  carry_out();
  EXPECT_TRUE(device->is_drained());
  EXPECT_EQ(packet->state.load(), mem::packet_state::out);
  EXPECT_EQ(fate_.signals(), 0);
  nobody_is_waited_for();
}

// A peer that has left answers still while it waits for others.
TEST_F(held_by_the_provider, get_is_told_when_its_answer_has_come) {
  open_slow();
  post_with_memory(true);
  end_with_memory_in_use();
  carry_out();
  EXPECT_EQ(fate_.completed, 1);
  EXPECT_EQ(here_, there_);
  expect_all_given_back();
}

TEST_F(held_by_the_provider, put_is_told_when_it_is_out) {
  open_slow();
  post_with_memory(false);
  end_with_memory_in_use();
  carry_out();
  EXPECT_EQ(fate_.completed, 1);
  expect_all_given_back();
}

// Where a write is out before it is there, nobody can be asked whether it is.
TEST_F(held_by_the_provider, put_of_which_its_target_does_not_say_that_it_is_there__fails) {
  open_slow(false);
  post_with_memory(false);
  at(0).let_go(1, false);
  look_only(group_->at(0));
  EXPECT_EQ(group_->at(0).seen().gone().size(), 1u);
  EXPECT_EQ(fate_.signals(), 0);
  group_->at(0).poll();
  EXPECT_EQ(fate_.failed, 1);
  expect_all_given_back();
}

TEST_F(held_by_the_provider, get_that_fails_behind_the_end_is_told_so) {
  open_slow();
  post_with_memory(true);
  end_with_memory_in_use();
  nobody_is_waited_for();
  ASSERT_TRUE(until_alone(*group_, 0, [&] { return fate_.signals() != 0; }));
  EXPECT_EQ(fate_.failed, 1);
  EXPECT_EQ(group_->at(0).seen().gone().size(), 1u);
  expect_all_given_back();
}

// The provider never says it. Its registration lives on, as its answer may still come.
TEST_F(held_by_the_provider, get_without_an_answer_is_told_in_the_end) {
  open_slow();
  post_with_memory(true);
  set_leave_ms(at(0), 1);
  end_at_0();
  EXPECT_EQ(fake().live(), live_ + 1) << "its answer may come still";
  carry_out();
  expect_all_given_back();
}

// A post is under way while the connection ends, and is refused then.
TEST_F(held_by_the_provider, packet_of_a_refused_post_goes_home_behind_it) {
  group_ = open(2);
  mem::packet_pool pool(group_->at(0).arena, 512, 4);
  const std::unique_ptr<event_queue> made = at(0).make_queue(7, {});
  event_queue& alone = *made;
  connection& on = alone.make_connection(1);
  on.move(connection::stage::ready);
  std::atomic<bool> is_inside{false}, is_told{false};
  std::size_t while_inside = 0;
  std::thread poster([&] {
    work* const one = alone.new_work(on, purpose::user);
    one->packet = pool.get();
    one->context = &fate_;
    alone.begin_user();
    alone.post(on, *one, [&](fid_ep*, ticket*) -> long {
      is_inside.store(true);
      while (!is_told.load()) std::this_thread::yield();
      while_inside = pool.outstanding();
      return -FI_EAGAIN;
    });
  });
  while (!is_inside.load()) std::this_thread::yield();
  test::recorder hears;
  alone.let_go(1, true);
  while (fate_.signals() == 0) alone.poll(hears, 1);
  is_told.store(true);
  poster.join();
  EXPECT_EQ(while_inside, 1u) << "the provider was reading it";
  EXPECT_EQ(pool.outstanding(), 0u);
}

}  // namespace lci::ofi
