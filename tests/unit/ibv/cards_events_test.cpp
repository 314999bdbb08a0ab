// A card that fails, goes, or whose port is down or has another address: who is gone, and who not.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>

#include "backends/ibv/fabric.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

// Of the fake's: the best.
constexpr std::size_t USED_GID = 3;

class card_events : public on_a_card {
 protected:
  // Rank 0 looks at what is not about messages, and presents nothing.
  static void look_only(test::group& g) {
    const std::uint64_t since = base::cpu_ticks();
    while (base::cpu_ticks() <= since + event_queue::LOOK_MS * base::ticks_per_ms()) {
    }
    // One of these polls looks.
    for (int i = 0; i < 64; ++i) g.at(0).devices[0]->poll(g.at(0).seen(), 0);
  }
  // From now on rank 0 can send nothing.
  static void refuse_to_send(test::group& g) {
    card().fail_nth("post_send", 1, EIO, 1 << 30);
    EXPECT_EQ(send(g, 0, 1), errorcode_t::retry_nomem);
  }
  // Messages that rank 0 has not read when `trouble` comes, and when it has looked twice after what
  // is not about messages: they come before the end.
  void expect_messages_before_the_end(test::group& g, const std::function<void()>& trouble) {
    constexpr std::size_t MESSAGES = 5;
    meet(g, 0, 1);
    test::recorder& seen = g.at(0).seen();
    const std::size_t before = seen.arrived();
    for (std::size_t i = 0; i < MESSAGES; ++i) ASSERT_EQ(send(g, 1, 0), errorcode_t::done);
    trouble();
    for (int i = 0; i < 2; ++i) look_only(g);
    ASSERT_EQ(seen.arrived(), before);
    EXPECT_TRUE(seen.gone().empty()) << "there is something to read";
    ASSERT_TRUE(until_gone(g, 0));
    EXPECT_EQ(seen.gone()[0].messages_before, before + MESSAGES);
    EXPECT_FALSE(seen.gone()[0].orderly);
  }
};

TEST_F(card_events, card_that_fails__takes_all_peers_along) {
  for (const ibv_event_type what : {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_SRQ_ERR}) {
    card().reset();
    auto g = open(3);
    meet(*g, 0, 1);
    meet(*g, 0, 2);
    card().raise(0, what);
    ASSERT_TRUE(until_gone(*g, 0, 2));
    for (const auto& gone : g->at(0).seen().gone()) EXPECT_FALSE(gone.orderly);
    EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
    ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
  }
}

TEST_F(card_events, card_that_fails__what_had_arrived_comes_first) {
  auto g = open(2);
  expect_messages_before_the_end(*g, [] { card().raise(0, IBV_EVENT_CQ_ERR); });
}

TEST_F(card_events, connection_on_which_nothing_can_be_sent__what_had_arrived_comes_first) {
  auto g = open(2);
  expect_messages_before_the_end(*g, [&] { refuse_to_send(*g); });
  card().reset_failures();
}

// That it could send again counts: the second time is as the first.
TEST_F(card_events, connection_on_which_nothing_can_be_sent__twice_with_a_good_time_between) {
  auto g = open(2);
  meet(*g, 0, 1);
  refuse_to_send(*g);
  look_only(*g);
  card().reset_failures();
  look_only(*g);
  EXPECT_TRUE(g->at(0).seen().gone().empty());
  expect_messages_before_the_end(*g, [&] { refuse_to_send(*g); });
  card().reset_failures();
}

TEST_F(card_events, card_that_fails__waits_not_for_ever_for_a_message_that_is_not_taken) {
  auto g = open(2);
  meet(*g, 0, 1);
  ASSERT_EQ(send(*g, 1, 0), errorcode_t::done);
  g->at(0).seen().on_arrival = [](const net::arrival&) { return net::verdict::deferred; };
  card().raise(0, IBV_EVENT_CQ_ERR);
  EXPECT_TRUE(until_gone(*g, 0));
}

// Nothing comes from a card that was taken out, so nothing may be waited for.
TEST_F(card_events, card_that_is_removed__ends_everything_once) {
  for (const bool says_so : {true, false}) {
    card().reset();
    auto g = open(3);
    meet(*g, 0, 1);
    meet(*g, 0, 2);
    std::vector<std::byte> there(4096), here(4096);
    const net::remote_key key = g->at(1).expose(there.data(), there.size());
    g->learn(0, 1, key);
    std::string why_not;
    const std::uint64_t mine =
        at(0).register_region(here.data(), here.size(), mem::mem_kind::host, why_not);
    card().remove(0, says_so);
    std::deque<test::op_fate> fates;
    for (int i = 0; i < 5; ++i) {
      net::net_op op = transfer_of(here, key, fates.emplace_back());
      op.local_key = mine;
      ASSERT_EQ(g->at(0).to().put(op), errorcode_t::posted);
    }
    ASSERT_TRUE(until_gone(*g, 0, 2));
    ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
    for (const int rank : {1, 2}) EXPECT_EQ(send(*g, 0, rank), errorcode_t::fatal);
    g->settle();
    for (const auto& fate : fates) {
      EXPECT_EQ(fate.failed.load(), 1);
      EXPECT_EQ(fate.completed.load(), 0);
    }
    EXPECT_EQ(g->at(0).seen().gone().size(), 2u);
    for (const auto& gone : g->at(0).seen().gone()) EXPECT_EQ(gone.reason, "the card failed");
    at(0).deregister_region(mine);
    g->at(1).hide(key);
  }
}

// Nobody can be met over it any more: that is no matter of trying again.
TEST_F(card_events, card_that_fails__nor_is_anybody_met_any_more) {
  for (const bool is_removed : {true, false}) {
    card().reset();
    auto g = open(4);
    meet(*g, 0, 1);
    EXPECT_EQ(send(*g, 0, 2), errorcode_t::retry_nomem) << "wished for before";
    if (is_removed)
      card().remove(0);
    else
      card().raise(0, IBV_EVENT_CQ_ERR);
    ASSERT_TRUE(until_gone(*g, 0));
    for (const int rank : {2, 3}) {
      ASSERT_TRUE(g->until([&] { return send(*g, 0, rank) == errorcode_t::fatal; }, "an answer"));
    }
    // Who was met comes last, behind what it had sent.
    ASSERT_TRUE(until_gone(*g, 0, 3));
    g->settle();
    std::vector<int> gone;
    for (const auto& one : g->at(0).seen().gone()) {
      gone.push_back(one.rank);
      EXPECT_EQ(one.reason, "the card failed") << one.rank;
      EXPECT_FALSE(one.orderly);
    }
    std::sort(gone.begin(), gone.end());
    EXPECT_EQ(gone, (std::vector<int>{1, 2, 3})) << "each once";
  }
}

// A card that failed may flush after all, when nobody waits for that any more.
TEST_F(card_events, card_that_fails__and_flushes_late_tells_nothing_twice) {
  environment_.set("LCI_IBV_TIMEOUT", "31");
  auto g = open(2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(4096), here(4096);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  g->learn(0, 1, key);
  test::fake_ibv_config late;
  late.flush_delay = 1u << 31;
  late.waits_for_dead = true;
  card().change(late);
  card().kill(1);
  std::deque<test::op_fate> fates;
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(g->at(0).to().put(transfer_of(here, key, fates.emplace_back())), errorcode_t::posted);
  card().raise(0, IBV_EVENT_CQ_ERR);
  ASSERT_TRUE(until_gone(*g, 0));
  ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
  card().change({});
  ASSERT_EQ(card().waiting_completions(), 0u);
  g->settle();
  for (const auto& fate : fates) {
    EXPECT_EQ(fate.failed.load(), 1);
    EXPECT_EQ(fate.completed.load(), 0);
  }
  EXPECT_EQ(g->at(0).seen().gone().size(), 1u);
  g->at(1).hide(key);
}

// What cannot be stopped will not be flushed either.
TEST_F(card_events, connection_that_cannot_be_stopped__ends_what_is_under_way) {
  environment_.set("LCI_IBV_TIMEOUT", "31");
  auto g = open(2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(4096), here(4096);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  g->learn(0, 1, key);
  test::fake_ibv_config patient;
  patient.waits_for_dead = true;
  card().change(patient);
  card().kill(1);
  test::op_fate fate;
  ASSERT_EQ(g->at(0).to().put(transfer_of(here, key, fate)), errorcode_t::posted);
  for (const char* call : {"post_send", "ibv_modify_qp"}) card().fail_nth(call, 1, EIO, 1 << 30);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  ASSERT_TRUE(until_gone(*g, 0));
  ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
  EXPECT_EQ(fate.failed.load(), 1);
  card().reset_failures();
  card().change({});
  g->at(1).hide(key);
}

TEST_F(card_events, link_down_and_up_again__goes_on) {
  auto g = open(2);
  meet(*g, 0, 1);
  for (const ibv_event_type what :
       {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE}) {
    card().raise(0, what);
    ASSERT_TRUE(g->until([&] { return card().count("ibv_ack_async_event") != 0; }, "the event"));
    card().forget_counts();
  }
  meet(*g, 0, 1);
  EXPECT_TRUE(g->at(0).seen().gone().empty());
}

// A card should say itself that nobody answers. One that does not while its port is down is not
// waited for; while it is up it may be right.
TEST_F(card_events, link_down_for_longer_than_is_tried__who_does_not_answer_is_gone) {
  const auto set_port = [](ibv_port_state state) {
    card().change_device(0, [&](test::fake_device& d) { d.ports[0].state = state; });
  };
  environment_.set("LCI_IBV_TIMEOUT", "10");  // 29 ms
  auto g = open(3);
  meet(*g, 0, 1);
  meet(*g, 0, 2);
  test::fake_ibv_config deaf;
  deaf.never_gives_up = true;
  card().change(deaf);
  card().kill(1);
  // Longer than it takes until there is a keepalive.
  const auto is_gone_soon = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1600);
    while (std::chrono::steady_clock::now() < end && g->at(0).seen().gone().empty()) {
      g->poll();
      usleep(100);
    }
    return !g->at(0).seen().gone().empty();
  };
  EXPECT_FALSE(is_gone_soon()) << "the port is up";
  card().raise(0, IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(is_gone_soon()) << "the port is up again, and the event was lost";
  set_port(IBV_PORT_DOWN);
  card().raise(0, IBV_EVENT_PORT_ERR);
  card().raise(0, IBV_EVENT_PORT_ACTIVE);
  EXPECT_FALSE(is_gone_soon()) << "it was said that it is up";
  card().raise(0, IBV_EVENT_PORT_ERR, 2);
  EXPECT_FALSE(is_gone_soon()) << "that was another port";
  card().raise(0, IBV_EVENT_PORT_ERR);
  ASSERT_TRUE(is_gone_soon());
  g->settle();
  ASSERT_EQ(g->at(0).seen().gone().size(), 1u) << "who answers is not gone";
  const auto gone = g->at(0).seen().gone()[0];
  EXPECT_EQ(gone.rank, 1);
  EXPECT_FALSE(gone.orderly);
  EXPECT_EQ(gone.reason, "no acknowledgement: the port of this machine is down");
  set_port(IBV_PORT_ACTIVE);
  card().change({});  // or the end would wait for answers
}

// Peers were told the old one: who was met hears nothing any more, and nobody else can be met.
TEST_F(card_events, address_that_changes__is_a_card_that_failed) {
  const auto give = [](const char* address) {
    card().change_device(
        0, [&](test::fake_device& d) { d.ports[0].gids[USED_GID].address = address; });
  };
  const auto check = [&](const auto& change, ibv_event_type event) {
    auto g = open(3);
    meet(*g, 0, 1);
    change();
    card().raise(0, event);
    ASSERT_TRUE(until_gone(*g, 0));
    ASSERT_TRUE(g->until([&] { return send(*g, 0, 2) == errorcode_t::fatal; }, "an answer"));
    EXPECT_EQ(g->at(0).seen().gone().size(), 2u);
    for (const auto& gone : g->at(0).seen().gone()) {
      EXPECT_NE(gone.reason.find("address has changed"), std::string::npos) << gone.reason;
      EXPECT_FALSE(gone.orderly);
    }
  };
  card().reset();
  check([&] { give("::ffff:10.0.0.7"); }, IBV_EVENT_GID_CHANGE);
  card().reset();
  check([&] { give(""); }, IBV_EVENT_GID_CHANGE);
  test::fake_ibv_config lids;
  lids.devices[0].ports[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
  lids.devices[0].ports[0].lid = 5;
  card().reset(lids);
  check([&] { card().change_device(0, [](test::fake_device& d) { d.ports[0].lid = 6; }); },
        IBV_EVENT_LID_CHANGE);
}

TEST_F(card_events, addresses_that_change_beside_the_one_in_use__are_no_matter) {
  auto g = open(3);
  meet(*g, 0, 1);
  card().change_device(0, [](test::fake_device& d) {
    d.ports[0].gids[USED_GID - 1].address = "";
    d.ports[0].gids.push_back({"::ffff:10.0.0.9", IBV_GID_TYPE_ROCE_V2});
  });
  card().raise(0, IBV_EVENT_GID_CHANGE);
  ASSERT_TRUE(g->until([&] { return card().count("ibv_ack_async_event") != 0; }, "the event"));
  meet(*g, 0, 1);
  meet(*g, 0, 2);
  EXPECT_TRUE(g->at(0).seen().gone().empty());
}

}  // namespace
}  // namespace lci::ibv
