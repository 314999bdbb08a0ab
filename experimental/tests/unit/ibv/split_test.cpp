// Large writes and reads in pieces over several cards: every byte once, the notification behind all
// of them, one end, whatever fails and in whatever order it comes back.
#include "experimental/ibv/multi_rail/split.hpp"

#include <deque>

#include "experimental/tests/unit/ibv/split_world.hpp"

namespace lci::ibv {
namespace {

TEST_F(split_test, put__a_piece_over_each_card) {
  test::op_fate fate;
  EXPECT_EQ(world_->post([&] { return to().put(op_of(&fate)); }), errorcode_t::posted);
  ASSERT_TRUE(until_told(fate));
  world_->settle();
  EXPECT_EQ(fate.completed.load(), 1);
  EXPECT_EQ(there_, from_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(on(i), 1u) << i;
  EXPECT_TRUE(world_->at(0).devices[0]->is_drained());
}

TEST_F(split_test, get__a_piece_over_each_card) {
  const std::vector<std::byte> other = test::pattern(SPLIT_SIZE, 8);
  std::copy(other.begin(), other.end(), there_.begin());
  test::op_fate fate;
  EXPECT_EQ(world_->post([&] { return to().get(op_of(&fate)); }), errorcode_t::posted);
  ASSERT_TRUE(until_told(fate));
  EXPECT_EQ(there_, from_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(on(i), 1u) << i;
}

TEST_F(split_test, small__or_with_nobody_who_waits__or_fenced__goes_whole) {
  test::op_fate small, fenced;
  world_->post([&] { return to().put(op_of(&small, 16 * 1024 - 1)); });
  world_->post([&] { return to().put(op_of(nullptr)); });
  net::net_op op = op_of(&fenced);
  op.fence = true;
  world_->post([&] { return to().put(op); });
  ASSERT_TRUE(until_told(fenced));
  EXPECT_EQ(on(0), 3u);
  EXPECT_EQ(on(1) + on(2), 0u);
}

// Another card would pass what is in order on the first and not there yet.
TEST_F(split_test, behind_a_put_in_order__goes_whole_until_that_is_there) {
  test::op_fate first, put, get, later;
  net::net_op op = op_of(&first);
  op.in_order = true;
  EXPECT_EQ(to().put(op), errorcode_t::posted);
  EXPECT_EQ(on(0), 1u);
  EXPECT_EQ(on(1) + on(2), 0u) << "in pieces it is in no order";
  EXPECT_EQ(to().put(op_of(&put)), errorcode_t::posted);
  EXPECT_EQ(to().get(op_of(&get)), errorcode_t::posted);
  EXPECT_EQ(on(0), 3u);
  EXPECT_EQ(on(1) + on(2), 0u);
  for (const test::op_fate* one : {&first, &put, &get}) ASSERT_TRUE(until_told(*one));
  EXPECT_EQ(to().put(op_of(&later)), errorcode_t::posted);
  for (int i = 1; i < 3; ++i) EXPECT_EQ(on(i), 1u) << i;
  ASSERT_TRUE(until_told(later));
}

TEST_F(split_test, put_imm__is_announced_when_every_piece_is_acknowledged) {
  test::op_fate fate;
  EXPECT_EQ(world_->post([&] { return to().put_imm(op_of(&fate)); }), errorcode_t::posted);
  // Nobody here has looked at what the cards say.
  for (int i = 0; i < 1000; ++i) world_->at(1).poll();
  EXPECT_EQ(world_->at(1).seen().immediates(), 0u);
  ASSERT_TRUE(until_told(fate));
  ASSERT_TRUE(world_->until([&] { return world_->at(1).seen().immediates() == 1; }, "the news"));
  EXPECT_EQ(world_->at(1).seen().immediate_list()[0], (std::pair<int, std::uint32_t>{0, 77}));
  EXPECT_EQ(there_, from_);
  EXPECT_EQ(on(0), 2u) << "a piece, and the news";
}

TEST_F(split_test, fence__waits_for_all_pieces) {
  test::op_fate fate;
  EXPECT_EQ(to().put(op_of(&fate)), errorcode_t::posted);
  net::net_op note;
  note.rank = 1;
  std::uint64_t word = 5;
  note.buffer = &word;
  note.size = sizeof(word);
  note.fence = true;
  EXPECT_EQ(to().send(note), errorcode_t::retry_nomem);
  EXPECT_FALSE(world_->at(0).devices[0]->is_drained());
  world_->post([&] { return to().send(note); });
  EXPECT_EQ(fate.completed.load(), 1) << "it was sent before";
}

// Completions of three queues in all orders, late, and few at a time.
TEST_F(split_test, odd_orders__every_operation_ends_once_and_in_full) {
  std::size_t announced = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    test::fake_ibv_config config = three_cards();
    config.order_seed = seed;
    config.most_per_poll = 1;
    config.delay = seed % 4;
    card().change(config);
    std::deque<test::op_fate> fates;
    for (int i = 0; i < 20; ++i) {
      test::op_fate& fate = fates.emplace_back();
      world_->post(
          [&] { return i % 2 == 0 ? to().put(op_of(&fate)) : to().put_imm(op_of(&fate)); });
    }
    for (const test::op_fate& fate : fates) ASSERT_TRUE(until_told(fate));
    announced += 10;
    ASSERT_TRUE(
        world_->until([&] { return world_->at(1).seen().immediates() == announced; }, "the news"));
    world_->settle();
    for (const test::op_fate& fate : fates) EXPECT_EQ(fate.completed.load(), 1);
    EXPECT_EQ(there_, from_);
  }
}

TEST_F(split_test, card_without_room__gets_its_piece_later) {
  for (int n = 1; n <= 5; ++n) {
    for (const int times : {1, 30}) {
      start();
      card().fail_nth("post_send", n, ENOMEM, times);
      test::op_fate fate;
      world_->post([&] { return to().put_imm(op_of(&fate)); });
      ASSERT_TRUE(until_told(fate)) << n;
      ASSERT_TRUE(world_->until([&] { return world_->at(1).seen().immediates() == 1; }, "news"));
      world_->settle();
      EXPECT_EQ(fate.completed.load(), 1) << n;
      EXPECT_EQ(there_, from_) << n;
      EXPECT_TRUE(world_->at(0).seen().gone().empty());
    }
  }
}

TEST_F(split_test, card_that_refuses_its_piece__is_the_end_of_the_connection) {
  card().fail_nth("post_send", 2, EIO, 1000000);
  test::op_fate fate;
  EXPECT_EQ(to().put_imm(op_of(&fate)), errorcode_t::posted);
  ASSERT_TRUE(until_told(fate));
  world_->settle();
  EXPECT_EQ(fate.failed.load(), 1);
  EXPECT_EQ(fate.signals(), 1);
  ASSERT_EQ(world_->at(0).seen().gone().size(), 1u);
  EXPECT_TRUE(world_->at(0).devices[0]->is_drained());
  card().reset_failures();
}

// Any of the three: its piece never ends.
TEST_F(split_test, card_that_is_removed__ends_what_goes_over_all_of_them) {
  for (std::size_t gone = 0; gone < 3; ++gone) {
    start();
    card().remove(gone);
    std::deque<test::op_fate> fates;
    for (int i = 0; i < 4; ++i)
      ASSERT_EQ(to().put_imm(op_of(&fates.emplace_back())), errorcode_t::posted);
    ASSERT_TRUE(until_gone(*world_, 0));
    for (const test::op_fate& fate : fates) ASSERT_TRUE(until_told(fate));
    world_->settle();
    EXPECT_TRUE(world_->at(0).devices[0]->is_drained());
    for (const test::op_fate& fate : fates) EXPECT_EQ(fate.signals(), 1);
    EXPECT_EQ(fates.back().failed.load(), 1);
    ASSERT_EQ(world_->at(0).seen().gone().size(), 1u);
  }
}

TEST_F(split_test, piece_that_fails__fails_the_operation_once_and_the_peer_is_gone) {
  for (int bad = 0; bad < 3; ++bad) {
    start();
    test::op_fate fate;
    net::net_op op = op_of(&fate);
    op.at = at(1).target_of(name_);
    // No such key on that card.
    (bad < 2 ? op.at.key : op.at.more) ^= bad == 1 ? std::uint64_t{0x7f0000} << 32 : 0x7f0000u;
    EXPECT_EQ(to().put_imm(op), errorcode_t::posted);
    ASSERT_TRUE(until_told(fate));
    ASSERT_TRUE(until_gone(*world_, 0));
    world_->settle();
    EXPECT_EQ(fate.failed.load(), 1) << bad;
    EXPECT_EQ(fate.signals(), 1) << bad;
    EXPECT_EQ(world_->at(1).seen().immediates(), 0u) << "news of what is not all there";
    EXPECT_EQ(to().put(op_of(&fate)), errorcode_t::fatal);
  }
}

// The messages are with our card when a piece fails on another one.
TEST_F(split_test, piece_that_fails__is_told_behind_what_the_peer_has_sent) {
  constexpr std::size_t MESSAGES = 200;
  meet(*world_, 0, 1);
  const std::size_t before = world_->at(0).seen().arrived();
  std::size_t sent = 0;
  for (int tries = 0; tries < 10000 && sent < MESSAGES; ++tries) {
    if (send(*world_, 1, 0) == errorcode_t::done) ++sent;
    world_->at(1).poll();
  }
  test::op_fate fate;
  net::net_op op = op_of(&fate);
  op.at = at(1).target_of(name_);
  op.at.key ^= std::uint64_t{0x7f0000} << 32;
  ASSERT_EQ(to().put(op), errorcode_t::posted);
  while (world_->at(0).seen().gone().empty())
    world_->at(0).devices[0]->poll(world_->at(0).seen(), 1);
  EXPECT_EQ(world_->at(0).seen().gone()[0].messages_before, before + sent);
  EXPECT_GE(sent, 30u) << "too few to be cut off";
}

TEST_F(split_test, peers_with_fewer_cards__use_what_both_have) {
  start(three_cards(), 2);
  test::op_fate fate;
  world_->post([&] { return to().put(op_of(&fate)); });
  ASSERT_TRUE(until_told(fate));
  EXPECT_EQ(there_, from_);
  EXPECT_EQ(on(0), 1u);
  EXPECT_EQ(on(1), 1u);
  EXPECT_EQ(on(2), 0u);
  start(three_cards(), 1);
  test::op_fate whole;
  world_->post([&] { return to().put(op_of(&whole)); });
  ASSERT_TRUE(until_told(whole));
  EXPECT_EQ(on(0), 1u);
  EXPECT_EQ(on(1) + on(2), 0u);
}

TEST_F(split_test, memory_that_a_card_does_not_register__goes_over_the_others) {
  std::string why_not;
  at(0).deregister_region(key_);
  card().fail_nth("ibv_reg_mr_iova2", 2, ENOMEM);
  key_ = at(0).register_region(from_.data(), SPLIT_SIZE, mem::mem_kind::host, why_not);
  test::op_fate fate;
  world_->post([&] { return to().put(op_of(&fate)); });
  ASSERT_TRUE(until_told(fate));
  EXPECT_EQ(there_, from_);
  EXPECT_EQ(on(1), 0u);
  EXPECT_EQ(on(2), 1u);
}

TEST_F(split_test, buffer_of_nobody__is_registered_for_all_cards_and_given_back) {
  const std::size_t before = card().live().mrs;
  test::op_fate fate;
  net::net_op op = op_of(&fate);
  op.local_key = 0;
  const auto bare = world_->at(0).devices[0]->make_endpoint();
  world_->post([&] { return bare->put(op); });
  EXPECT_EQ(card().live().mrs, before + 3);
  ASSERT_TRUE(until_told(fate));
  EXPECT_EQ(card().live().mrs, before);
  EXPECT_EQ(on(2), 1u);
}

TEST_F(split_test, leave__in_the_middle_waits_for_the_pieces) {
  test::op_fate fate;
  EXPECT_EQ(to().put_imm(op_of(&fate)), errorcode_t::posted);
  at(0).leave();
  ASSERT_TRUE(world_->until([&] { return world_->at(1).seen().immediates() == 1; }, "the news"));
  EXPECT_EQ(there_, from_);
  ASSERT_TRUE(until_gone(*world_, 1));
  EXPECT_TRUE(world_->at(1).seen().gone()[0].orderly);
}

// The fixture looks for what is left over.
TEST_F(split_test, end__in_the_middle_leaves_nothing) {
  test::fake_ibv_config config = three_cards();
  config.delay = 1000000;
  card().change(config);
  test::op_fate fate;
  net::net_op op = op_of(&fate);
  op.local_key = 0;
  EXPECT_EQ(world_->at(0).devices[0]->make_endpoint()->put_imm(op), errorcode_t::posted);
  world_->close(0, false);
}

TEST_F(split_test, any_call_that_fails_while_connecting__is_made_again) {
  for (const char* call : {"ibv_create_qp", "ibv_modify_qp"}) {
    for (int n = 1; n <= 12; ++n) {
      end();
      key_ = 0;
      card().reset(three_cards());
      environment_.set("LCI_IBV_RAILS", "3");
      world_ = open(2);
      card().fail_nth(call, n, ENOMEM);
      meet(*world_, 0, 1);
      ASSERT_FALSE(testing::Test::HasFailure()) << call << ", time " << n;
    }
  }
}

}  // namespace
}  // namespace lci::ibv
