// Credit, locks, refusals, completions with errors, deaths.
#include "backends/ofi/event_queue.hpp"

#include <thread>

#include "lci/errors.hpp"
#include "tests/support/no_more_descriptors.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

// Runs something while it hears of the end of an operation.
class ending_sink final : public net::sink {
 public:
  net::verdict on_message(const net::arrival&) noexcept override { return net::verdict::taken; }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int, void*, std::string_view) noexcept override {
    ++ends;
    on_end();
  }
  void on_peer_ended(int, bool, std::string_view) noexcept override {}

  std::function<void()> on_end;
  int ends = 0;
};

class event_queue_test : public on_a_network {
 protected:
  static std::string name_of(fabric& of) {
    fabric_address here;
    EXPECT_TRUE(fabric_address::parse(of.address(), here));
    return reinterpret_cast<const char*>(here.name.bytes);
  }
};

}  // namespace

// However much room a provider has, nobody sends more than the peer can be behind.
TEST_F(event_queue_test, credit__bounds_what_is_on_the_way) {
  test::fake_ofi_config config;
  config.room = 1 << 20;
  fake().reset(config);
  auto g = open(2);
  meet(*g, 0, 1);
  g->at(1).seen().keep_bytes = false;
  std::uint64_t sent = 0;
  while (send(*g, 0, 1) == errorcode_t::done) ++sent;
  EXPECT_GE(sent, connection::WINDOW - 2);
  EXPECT_LE(sent, connection::WINDOW);
  ASSERT_TRUE(g->until([&] { return g->at(1).seen().arrived() == sent + 1; }, "all of them"));
  EXPECT_EQ(g->post([&] { return send(*g, 0, 1); }), errorcode_t::done)
      << "and there is more again";
}

// As often as a peer can be behind, and once more.
TEST_F(event_queue_test, credit__is_not_kept_by_what_failed_before_it_was_posted) {
  test::fake_ofi_config config;
  config.mr_mode = FI_MR_LOCAL;
  fake().reset(config);
  auto g = open(2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64), here(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  g->learn(0, 1, key);
  // Which no helper registers the buffer for.
  const auto to = g->at(0).devices[0]->make_endpoint();
  const auto times = static_cast<unsigned>(connection::WINDOW + 1);
  fake().fail("fi_mr_regattr", 1, -FI_EINVAL, times);
  std::vector<test::op_fate> fates(times);
  for (test::op_fate& fate : fates)
    ASSERT_EQ(to->put_imm(transfer_of(here, key, fate)), errorcode_t::posted);
  ASSERT_TRUE(g->until([&] { return fates.back().signals() == 1; }, "the failures"));
  EXPECT_EQ(fates.back().failed, 1);
  EXPECT_EQ(g->post([&] { return send(*g, 0, 1); }), errorcode_t::done);
  g->settle();
  g->at(1).hide(key);
}

TEST_F(event_queue_test, post__that_the_provider_cannot_take_now_changes_nothing) {
  auto g = open(2);
  meet(*g, 0, 1);
  fake().fail("fi_injectdata", 1, -FI_EAGAIN);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  EXPECT_TRUE(g->at(0).devices[0]->is_drained());
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::done);
}

TEST_F(event_queue_test, post__that_the_provider_refuses_for_good_ends_the_connection) {
  auto g = open(2);
  meet(*g, 0, 1);
  fake().fail("fi_injectdata", 1, -FI_ENOTCONN);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
}

TEST_F(event_queue_test, completion__with_an_error_ends_the_connection_and_all_on_it) {
  test::fake_ofi_config config;
  config.completes_early = false;
  fake().reset(config);
  auto g = open(3);
  meet(*g, 0, 1);
  meet(*g, 0, 2);
  std::vector<std::byte> bytes(5000);
  std::vector<std::unique_ptr<test::op_fate>> fates;
  for (int i = 0; i < 4; ++i) {
    fates.push_back(std::make_unique<test::op_fate>());
    net::net_op op;
    op.rank = 1;
    op.packet = g->at(0).packets.get();
    op.buffer = op.packet->payload();
    op.size = 5000;
    op.context = fates.back().get();
    ASSERT_EQ(g->at(0).to().send(op), errorcode_t::posted);
  }
  fake().cut("fake://", FI_ECONNRESET);
  ASSERT_TRUE(g->until([&] { return fates.back()->signals() == 1; }, "the failures"));
  for (const auto& one : fates) {
    EXPECT_EQ(one->failed, 1);
    EXPECT_EQ(one->completed, 0);
  }
  ASSERT_GE(g->at(0).seen().gone().size(), 1u);
  EXPECT_EQ(g->at(0).seen().gone()[0].rank, 1);
}

// Another thread in a post: this one is told so instead of waiting.
TEST_F(event_queue_test, lock_mode__makes_posts_take_a_lock) {
  net::device_config wanted;
  wanted.ofi_lock_mode = LCI_NET_LOCK_ALL;
  auto g = open(2, 1, {}, wanted);
  meet(*g, 0, 1);
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> refused{0}, sent{0};
  g->at(1).seen().keep_bytes = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const errorcode_t code = send(*g, 0, 1);
        if (code == errorcode_t::retry_lock) refused.fetch_add(1);
        if (code == errorcode_t::done) sent.fetch_add(1);
      }
    });
  g->until([&] { return refused.load() != 0 && sent.load() > 100; }, "two threads to meet");
  stop.store(true);
  for (std::thread& one : threads) one.join();
  const std::uint32_t all = sent.load();
  EXPECT_TRUE(g->until([&] { return g->at(1).seen().arrived() == all + 1; }, "all that was sent"));
}

// Where nothing keeps order, what comes behind a write waits until it is there.
TEST_F(event_queue_test, order__is_kept_by_waiting_where_the_provider_keeps_none) {
  test::fake_ofi_config config;
  config.keeps_order = false;
  config.late = 3;
  fake().reset(config);
  auto g = open(2);
  std::vector<std::byte> memory(64);
  const net::remote_key key = g->at(1).expose(memory.data(), memory.size());
  g->learn(0, 1, key);
  meet(*g, 0, 1);
  std::uint64_t word = 77;
  net::net_op op;
  op.rank = 1;
  op.buffer = &word;
  op.size = sizeof(word);
  op.remote = key;
  g->post([&] { return g->at(0).to().put(op); });
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem) << "the write is on its way";
  g->post([&] { return send(*g, 0, 1); });
  EXPECT_EQ(std::memcmp(memory.data(), &word, sizeof(word)), 0);
  g->settle();
  g->at(1).hide(key);
}

TEST_F(event_queue_test, end_of_a_registration__is_told_over_every_device) {
  auto g = open(2, 2);
  expect_ends_are_told_on_both_devices(*g);
}

TEST_F(event_queue_test, end_of_a_registration__is_known_over_a_device_that_is_connected_later) {
  auto g = open(2, 2);
  expect_a_later_connection_does_without_what_has_ended(*g);
}

// Who is never sent to is asked where nothing else tells of its end.
TEST_F(event_queue_test, death__of_a_silent_peer_is_heard) {
  auto g = open(2);
  meet(*g, 0, 1);
  g->close(1, false);
  ASSERT_TRUE(until_gone(*g, 0));
  EXPECT_FALSE(g->at(0).seen().gone()[0].orderly);
}

// Who counts rounds in which nothing happened must not take a keepalive for news. Peers are asked
// for a sign of life where no socket of theirs can be watched.
TEST_F(event_queue_test, keepalive__is_no_event) {
  auto g = open(2);
  {
    const lci::test::no_more_descriptors limit;
    meet(*g, 0, 1);
  }
  g->settle();
  const auto sent = [] { return fake().calls("fi_senddata") + fake().calls("fi_send"); };
  const std::size_t before = sent();
  const auto all_asked = [&] { return sent() >= before + 4; };
  const std::size_t presented = g->at(0).presented + g->at(1).presented;
  ASSERT_TRUE(g->until(all_asked, "signs of life to be all_asked for"));
  EXPECT_EQ(g->at(0).presented + g->at(1).presented, presented);
}

TEST_F(event_queue_test, receive__that_fails_is_posted_again) {
  auto g = open(2);
  meet(*g, 0, 1);
  const std::size_t before = fake().calls("fi_recv");
  fake().fail("fi_cq_read", 1, -FI_EAVAIL);
  for (int i = 0; i < 10; ++i) g->poll();
  EXPECT_GE(fake().calls("fi_cq_readerr"), 1u);
  EXPECT_EQ(fake().calls("fi_recv"), before) << "there was no error after all";
  EXPECT_EQ(g->post([&] { return send(*g, 1, 0); }), errorcode_t::done);
}

// For want of memory, say. Of others nothing is said.
TEST_F(event_queue_test, give_up__without_a_connection_is_told_once_and_posts_are_refused) {
  auto g = open(3);
  const std::unique_ptr<event_queue> made = at(0).make_queue(7, {});
  event_queue& alone = *made;
  test::recorder hears;
  const auto poll = [&] {
    for (int i = 0; i < 200; ++i) alone.poll(hears, 1);
  };
  const auto answer = [&](int rank) {
    errorcode_t code{};
    EXPECT_EQ(alone.ready(rank, code), nullptr);
    return code;
  };
  EXPECT_EQ(answer(1), errorcode_t::retry_nomem);
  poll();
  EXPECT_TRUE(hears.gone().empty());
  alone.give_up(1, "there is no memory");
  alone.give_up(1, "there is none still");
  EXPECT_EQ(answer(1), errorcode_t::retry_nomem) << "nobody has heard why";
  poll();
  poll();
  ASSERT_EQ(hears.gone().size(), 1u);
  EXPECT_EQ(hears.gone()[0].rank, 1);
  EXPECT_EQ(hears.gone()[0].reason, "there is no memory");
  EXPECT_FALSE(hears.gone()[0].orderly);
  EXPECT_EQ(answer(1), errorcode_t::fatal);
  EXPECT_EQ(answer(2), errorcode_t::retry_nomem);
}

// Also where it does not fit into what the provider copies.
TEST_F(event_queue_test, tell__before_the_connection_is_ready_waits) {
  for (const std::size_t inject : {0u, 128u}) {
    test::fake_ofi_config config;
    config.inject = inject;
    fake().reset(config);
    auto g = open(2);
    const std::unique_ptr<event_queue> made = at(0).make_queue(7, {});
    event_queue& alone = *made;
    const connection& on = alone.make_connection(1);
    test::recorder hears;
    const auto sent = [] { return fake().calls("fi_senddata") + fake().calls("fi_injectdata"); };
    const std::size_t before = sent();
    alone.tell_withdrawn(1, {1, 1});
    for (int i = 0; i < 10; ++i) alone.poll(hears, 1);
    EXPECT_EQ(sent(), before);
    EXPECT_EQ(on.refused(), 0);
  }
}

// A thread is in a post while the connection ends; the provider refuses it then, and what was
// posted is used again while the sink still hears of its end.
TEST_F(event_queue_test, end__of_a_connection_leaves_what_a_refused_post_gave_back) {
  auto g = open(2);
  const std::unique_ptr<event_queue> made = at(0).make_queue(7, {});
  event_queue& alone = *made;
  connection& on = alone.make_connection(1);
  on.move(connection::stage::ready);
  std::atomic<bool> is_inside{false}, is_told{false};
  errorcode_t answer{};
  work* again = nullptr;
  std::thread poster([&] {
    work* const one = alone.new_work(on, purpose::user);
    one->context = &answer;
    one->packet = g->at(0).packets.get();
    alone.begin_user();
    answer = alone.post(on, *one, [&](fid_ep*, ticket*) -> long {
      is_inside.store(true);
      while (!is_told.load()) std::this_thread::yield();
      return -FI_EAGAIN;
    });
    again = alone.new_work(on, purpose::ours);
    again->flush = 1;
    EXPECT_EQ(again, one) << "the same, or the test shows nothing";
  });
  while (!is_inside.load()) std::this_thread::yield();
  ending_sink hears;
  hears.on_end = [&] {
    is_told.store(true);
    poster.join();
  };
  alone.let_go(1, true);
  for (int i = 0; i < 200; ++i) alone.poll(hears, 1);
  is_told.store(true);
  if (poster.joinable()) poster.join();
  EXPECT_EQ(hears.ends, 1);
  EXPECT_EQ(answer, errorcode_t::done) << "its end was told";
  EXPECT_TRUE(alone.is_drained());
  EXPECT_TRUE(on.is_idle()) << "what is used again was taken for what has ended";
}

// Its process may have taken leave of the other devices.
TEST_F(event_queue_test, miss__without_a_connection_is_no_death) {
  auto g = open(2);
  const std::unique_ptr<event_queue> made = at(0).make_queue(7, {});
  event_queue& alone = *made;
  test::recorder hears;
  alone.miss(1, "its process has ended");
  for (int i = 0; i < 200; ++i) alone.poll(hears, 1);
  EXPECT_TRUE(hears.gone().empty());
}

TEST_F(event_queue_test, rank_that_is_reported_as_failed__what_it_has_sent_comes_before_its_end) {
  auto g = open(2);
  expect_the_message_before_the_end(
      *g, [] { fake().fail("fi_send", 1, -FI_EAGAIN); }, event_queue::LOOK_MS);
}

// Nothing has come from there, and nothing will.
TEST_F(event_queue_test, rank_that_is_reported_as_failed__is_not_called_any_more) {
  auto g = open(2);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  net::peer_table& peers = g->at(0).peers;
  ASSERT_TRUE(until_alone(*g, 0, [&] { return peers.state(1) == net::peer_state::connecting; }));
  peers.report(1, net::peer_event::fail, "it died");
  ASSERT_TRUE(until_alone(*g, 0, [&] { return !g->at(0).seen().gone().empty(); }));
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::fatal);
}

// To read what was just found empty costs the provider's system calls, and messages wait for it.
TEST_F(event_queue_test, poll__reads_again_only_behind_a_full_batch) {
  auto g = open(2);
  meet(*g, 0, 1);
  meet(*g, 1, 0);
  for (int i = 0; i < 200; ++i) g->poll();
  const auto reads_of = [&](std::size_t messages) {
    for (std::size_t i = 0; i < messages; ++i) EXPECT_EQ(send(*g, 0, 1), errorcode_t::done);
    const std::size_t arrived = g->at(1).seen().arrived();
    const std::size_t before = fake().calls("fi_cq_read");
    g->at(1).devices[0]->poll(*g->at(1).sinks[0], 100);
    EXPECT_EQ(g->at(1).seen().arrived() - arrived, messages);
    return fake().calls("fi_cq_read") - before;
  };
  EXPECT_EQ(reads_of(0), 1u);
  EXPECT_EQ(reads_of(1), 1u);
  EXPECT_EQ(reads_of(3), 1u);
  EXPECT_EQ(reads_of(40), 2u);
}

TEST_F(event_queue_test, device_that_ends_early__what_it_left_is_told_to_nobody) {
  expect_what_a_device_left_is_told_to_nobody(*open(2));
}

}  // namespace lci::ofi
