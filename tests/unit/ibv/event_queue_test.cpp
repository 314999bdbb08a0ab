#include "backends/ibv/event_queue.hpp"

#include <algorithm>

#include "lci/errors.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

using net::verdict;

class event_queue_test : public on_a_card {
 protected:
  static void change(test::fake_ibv_config config) { card().change(config); }
  // What rank 1 has got, by immediate.
  static std::vector<std::uint32_t> seen(test::group& g, int rank = 1) {
    std::vector<std::uint32_t> out;
    for (const auto& m : g.at(rank).seen().messages()) out.push_back(m.imm);
    return out;
  }
  static std::vector<std::uint32_t> counting(std::uint32_t n) {
    std::vector<std::uint32_t> out(n);
    for (std::uint32_t i = 0; i < n; ++i) out[i] = i;
    return out;
  }
};

TEST_F(event_queue_test, poll__in_small_and_odd_portions_keeps_the_order) {
  for (const int most : {1, 2, 3, 31}) {
    card().reset();
    auto g = open(3);
    meet(*g, 0, 1);
    meet(*g, 2, 1);
    g->at(1).seen().forget();
    test::fake_ibv_config odd;
    odd.most_per_poll = most;
    odd.delay = 1;
    odd.order_seed = 5;
    change(odd);
    for (std::uint32_t i = 0; i < 200; ++i) {
      g->post([&] { return send(*g, 0, 1, i); });
      g->post([&] { return send(*g, 2, 1, i); });
    }
    ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == 400; }, "all messages"));
    std::vector<std::uint32_t> from[3];
    for (const auto& m : g->at(1).seen().messages()) from[m.rank].push_back(m.imm);
    EXPECT_EQ(from[0], counting(200));
    EXPECT_EQ(from[2], counting(200));
  }
}

// Who counts rounds in which nothing happened must not take a keepalive for news.
TEST_F(event_queue_test, keepalive__is_no_event) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->settle();
  const std::size_t before = card().count("post_send");
  const auto all_asked = [&] { return card().count("post_send") >= before + 4; };
  const std::size_t presented = g->at(0).presented + g->at(1).presented;
  ASSERT_TRUE(g->until(all_asked, "signs of life to be all_asked for"));
  EXPECT_EQ(g->at(0).presented + g->at(1).presented, presented);
}

TEST_F(event_queue_test, deferred__comes_again_and_nothing_overtakes) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->at(1).seen().forget();
  int refusals = 0;
  g->at(1).seen().on_arrival = [&](const net::arrival&) {
    return ++refusals % 3 != 0 ? verdict::deferred : verdict::taken;
  };
  for (std::uint32_t i = 0; i < 40; ++i) g->post([&] { return send(*g, 0, 1, i); });
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == 40; }, "all messages"));
  EXPECT_EQ(seen(*g), counting(40));
}

// A sink that polls again, whose inner poll fetches more and is refused there, and that then
// refuses, too: both messages wait, each once.
TEST_F(event_queue_test, deferred__in_a_poll_inside_of_a_poll) {
  auto g = open(2, {.max_sends = 256});
  meet(*g, 0, 1);
  g->at(1).seen().forget();
  for (const std::uint32_t waiting : {2u, 33u, 64u, 65u}) {
    g->at(1).seen().forget();
    int depth = 0;
    bool refuses = true;
    g->at(1).seen().on_arrival = [&](const net::arrival& m) {
      if (!refuses) return verdict::taken;
      if (depth >= 3) return verdict::deferred;
      ++depth;
      // All of the batch is taken inside, so that the next one is fetched; who has polled takes.
      if (m.imm < 2) g->at(1).devices[0]->poll(g->at(1).seen(), 1000);
      --depth;
      return m.imm % 31 == 1 && m.imm > 2 ? verdict::deferred : verdict::taken;
    };
    for (std::uint32_t i = 0; i < waiting; ++i) {
      ASSERT_EQ(send(*g, 0, 1, i), errorcode_t::done);
    }
    for (int i = 0; i < 5; ++i) g->at(1).devices[0]->poll(g->at(1).seen(), 1);
    refuses = false;
    ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == waiting; }, "all messages"));
    std::vector<std::uint32_t> all = seen(*g);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, counting(waiting));
    g->at(1).seen().on_arrival = {};
    g->settle();
  }
}

// The program keeps all packets: senders wait, and go on when packets come home.
TEST_F(event_queue_test, receives__none_left_and_later_some) {
  auto g = open(2, {.max_recvs = 512});
  meet(*g, 0, 1);
  g->at(1).seen().forget();
  std::vector<mem::packet*> kept;
  g->at(1).seen().on_arrival = [&](const net::arrival& m) {
    kept.push_back(m.packet);
    return verdict::kept;
  };
  std::uint32_t sent = 0;
  for (int idle = 0; idle < 2000;) {
    if (send(*g, 0, 1, sent) == errorcode_t::done) {
      ++sent;
      idle = 0;
    } else {
      ++idle;
    }
    g->poll();
  }
  EXPECT_GE(kept.size(), 500u);
  EXPECT_LT(kept.size(), sent) << "what is on its way needs a receive";
  EXPECT_TRUE(g->at(0).seen().gone().empty()) << "who has no receive is not dead";
  g->at(1).seen().on_arrival = {};
  for (mem::packet* packet : kept) mem::release_packet(g->at(1).arena, packet);
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == sent; }, "the others"));
  EXPECT_EQ(seen(*g), counting(sent));
}

// With a send queue full of what is not signalled, flushed at once or late.
TEST_F(event_queue_test, broken_connection__gone_once_and_what_nobody_waits_for_ends) {
  for (const unsigned delay : {0u, 7u}) {
    card().reset();
    auto g = open(3);
    meet(*g, 0, 1);
    meet(*g, 0, 2);
    test::fake_ibv_config late;
    late.flush_delay = delay;
    change(late);
    // Who does not poll has 256 receives; the rest waits.
    for (int idle = 0; idle < 50;) {
      idle = send(*g, 0, 1) == errorcode_t::done ? 0 : idle + 1;
      g->at(0).poll();
    }
    card().kill(1);
    ASSERT_TRUE(until_gone(*g, 0));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
    ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
    g->settle();
    EXPECT_EQ(g->at(0).seen().gone().size(), 1u);
    meet(*g, 0, 2);
  }
}

TEST_F(event_queue_test, broken_connection__operations_with_a_context_fail_once_each) {
  for (const unsigned delay : {0u, 7u}) {
    card().reset();
    auto g = open(2);
    meet(*g, 0, 1);
    std::vector<std::byte> there(4096), here(4096);
    const net::remote_key key = g->at(1).expose(there.data(), there.size());
    g->learn(0, 1, key);
    test::fake_ibv_config late;
    late.flush_delay = delay;
    late.waits_for_dead = true;
    change(late);
    card().kill(1);
    std::deque<test::op_fate> fates;
    int posted = 0;
    for (int i = 0; i < 20; ++i) {
      net::net_op op;
      op.rank = 1;
      op.buffer = here.data();
      op.size = here.size();
      op.remote = key;
      op.context = &fates.emplace_back();
      if ((i % 2 ? g->at(0).to().put(op) : g->at(0).to().get(op)) == errorcode_t::posted) ++posted;
    }
    ASSERT_EQ(posted, 20);
    ASSERT_TRUE(until_gone(*g, 0));
    ASSERT_TRUE(g->until([&] { return g->at(0).devices[0]->is_drained(); }, "what is under way"));
    for (const auto& fate : fates) {
      EXPECT_EQ(fate.failed.load(), 1);
      EXPECT_EQ(fate.completed.load(), 0);
    }
    g->at(1).hide(key);
  }
}

TEST_F(event_queue_test,
       completion_queue__too_small_for_another_peer_is_an_error_and_others_go_on) {
  test::fake_ibv_config config;
  config.devices[0].max_cqe = 256 + 16 * 64;
  card().reset(config);
  auto g = open(20);
  for (int rank = 1; rank <= 16; ++rank) meet(*g, 0, rank);
  testing::internal::CaptureStderr();
  EXPECT_EQ(send(*g, 0, 17), errorcode_t::retry_nomem) << "there may be room in a moment";
  EXPECT_TRUE(g->until([&] { return send(*g, 0, 17) == errorcode_t::fatal; }, "an answer"));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("too few for 17 peers"), std::string::npos) << said;
  EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 2) << "not at every poll";
  g->settle();
  ASSERT_EQ(g->at(0).seen().gone().size(), 1u);
  EXPECT_EQ(g->at(0).seen().gone()[0].rank, 17);
  EXPECT_NE(g->at(0).seen().gone()[0].reason.find("too few for 17 peers"), std::string::npos);
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
  meet(*g, 0, 3);
}

TEST_F(event_queue_test, post__refused_by_the_card_is_posted_later) {
  auto g = open(2, {.max_sends = 16});
  meet(*g, 0, 1);
  g->at(1).seen().forget();
  card().forget_counts();
  for (std::uint32_t i = 0; i < 400; ++i) {
    // Whatever number it is that would have been signalled.
    card().fail_nth("post_send", 1, ENOMEM);
    EXPECT_TRUE(test::is_retry(send(*g, 0, 1, i)));
    g->post([&] { return send(*g, 0, 1, i); });
  }
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == 400; }, "all messages"));
  EXPECT_EQ(seen(*g), counting(400));
  // Two for each message: nothing had to be all_asked for before the queue moved on.
  EXPECT_LE(card().count("post_send"), 801u);
}

// Nothing is heard of what was posted, so whoever waits hears that.
TEST_F(event_queue_test, poll__that_fails_is_the_end_of_all_connections) {
  auto g = open(3);
  meet(*g, 0, 1);
  meet(*g, 0, 2);
  std::vector<std::byte> there(4096), here(4096);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  g->learn(0, 1, key);
  test::op_fate fate;
  const net::net_op op = transfer_of(here, key, fate);
  ASSERT_EQ(g->at(0).to().put(op), errorcode_t::posted);
  for (const char* call : {"start_poll", "poll_cq"}) card().fail_nth(call, 1, EIO, 1 << 30);
  g->at(0).devices[0]->poll(g->at(0).seen(), 32);
  card().reset_failures();
  ASSERT_EQ(g->at(0).seen().gone().size(), 2u);
  for (const auto& gone : g->at(0).seen().gone()) EXPECT_FALSE(gone.orderly);
  EXPECT_EQ(fate.failed.load(), 1);
  EXPECT_TRUE(g->at(0).devices[0]->is_drained());
  for (const int rank : {1, 2}) EXPECT_EQ(send(*g, 0, rank), errorcode_t::fatal);
  g->settle();  // what was flushed is heard now, and changes nothing
  EXPECT_EQ(fate.failed.load(), 1);
  EXPECT_EQ(fate.completed.load(), 0);
  EXPECT_EQ(g->at(0).seen().gone().size(), 2u);
  g->at(1).hide(key);
}

// Also while unsignalled messages are open, of which nothing will be heard.
TEST_F(event_queue_test, post__refused_by_the_card_for_good_is_a_peer_that_is_gone) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->post([&] { return send(*g, 0, 1); });
  card().fail_nth("post_send", 1, EIO, 1 << 30);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
  card().reset_failures();
}

TEST_F(event_queue_test, post__refused_by_the_card_once_ends_nothing) {
  auto g = open(2);
  meet(*g, 0, 1);
  card().fail_nth("post_send", 1, EIO);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  const auto start = base::cpu_ticks();
  while (base::cpu_ticks() - start < 1500 * base::ticks_per_ms()) g->poll();
  EXPECT_EQ(g->at(0).seen().gone().size(), 0u);
  g->post([&] { return send(*g, 0, 1, 7); });
  ASSERT_TRUE(g->until([&] { return seen(*g).back() == 7; }, "a message"));
}

TEST_F(event_queue_test, device_that_ends_early__what_it_left_is_told_to_nobody) {
  expect_what_a_device_left_is_told_to_nobody(*open(2));
}

}  // namespace
}  // namespace lci::ibv
