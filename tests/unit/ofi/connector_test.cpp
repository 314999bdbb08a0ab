// First contact that goes wrong for good.
#include "backends/ofi/connector.hpp"

#include <chrono>
#include <thread>

#include "tests/support/alloc_counter.hpp"
#include "tests/unit/ofi/world.hpp"

namespace lci::ofi {
namespace {

class connector_test : public on_a_network {
 protected:
  // Posts to rank 1 and polls, as first contact fails, until it is gone.
  static testing::AssertionResult is_given_up(test::group& g, const std::function<void()>& poll) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (send(g, 0, 1) != errorcode_t::fatal) {
      if (std::chrono::steady_clock::now() > deadline)
        return testing::AssertionFailure() << "posts are not refused";
      poll();
    }
    g.settle();
    const auto gone = g.at(0).seen().gone();
    if (gone.size() != 1 || gone[0].rank != 1 || gone[0].orderly)
      return testing::AssertionFailure() << gone.size() << " ranks are gone";
    if (gone[0].reason.find("no connection can be made: ") != 0)
      return testing::AssertionFailure() << gone[0].reason;
    return testing::AssertionSuccess();
  }
  // By who leaves, where a message is out when it is received.
  static void nobody_is_waited_for() { fake().cut("fake://", FI_ECONNRESET); }
};

}  // namespace

TEST_F(connector_test, no_memory_for_a_connection__the_rank_is_gone_and_others_are_not) {
  if (!test::has_alloc_counter()) GTEST_SKIP() << test::ALLOC_COUNTER_MISSING;
  auto g = open(3);
  meet(*g, 0, 2);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem) << "there may be memory in a moment";
  ASSERT_TRUE(is_given_up(*g, [&] {
    // The first of a poll is for the list of requested connections; then comes what is entered.
    const test::fail_nth_allocation none_left(2);
    g->at(0).poll();
  }));
  EXPECT_EQ(send(*g, 0, 2), errorcode_t::done);
}

// The peer has ours, and calls again and again. It is not left waiting either. Between slow polls
// several of its calls come: the answer to none of them can be taken.
TEST_F(connector_test, an_answer_that_cannot_be_taken__each_is_gone_for_the_other) {
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(100)}) {
    fake().reset();
    auto g = open(2);
    EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
    ASSERT_TRUE(is_given_up(*g, [&] {
      // We have the name of its fabric, and it has both of ours.
      const bool is_to_fail = fake().calls("fi_av_insert") >= 3;
      if (is_to_fail) fake().fail("fi_av_insert", 1, -FI_ENOMEM, 1000);
      std::this_thread::sleep_for(pause);
      g->poll();
    }));
    EXPECT_TRUE(until_gone(*g, 1));
  }
}

// Providers may keep a hello until its rank makes progress.
TEST_F(connector_test, ranks_that_do_not_poll__others_are_answered) {
  test::fake_ofi_config config;
  config.completes_early = false;
  fake().reset(config);
  constexpr int SILENT = 40;
  net::device_config small;
  small.max_recvs = 64;
  auto g = open(SILENT + 2, small);
  for (int rank = 1; rank <= SILENT; ++rank) EXPECT_EQ(send(*g, 0, rank), errorcode_t::retry_nomem);
  const std::size_t before = fake().calls("fi_send");
  ASSERT_TRUE(until_alone(*g, 0, [&] { return fake().calls("fi_send") >= before + 20; }));
  for (int i = 0; i < 1000; ++i) g->at(0).poll();
  // This one calls, and is to be answered.
  constexpr int LAST = SILENT + 1;
  EXPECT_EQ(send(*g, LAST, 0), errorcode_t::retry_nomem);
  EXPECT_TRUE(until_alone(*g, 0, [&] {
    g->at(LAST).poll();
    return send(*g, LAST, 0) == errorcode_t::done;
  }));
  nobody_is_waited_for();
}

// However often it is called.
TEST_F(connector_test, a_rank_that_does_not_poll__has_one_call_on_its_way) {
  test::fake_ofi_config config;
  config.completes_early = false;
  fake().reset(config);
  auto g = open(2);
  EXPECT_EQ(send(*g, 0, 1), errorcode_t::retry_nomem);
  const std::size_t before = fake().calls("fi_send");
  ASSERT_TRUE(until_alone(*g, 0, [&] { return fake().calls("fi_send") > before; }));
  const std::uint64_t since = base::cpu_ticks();
  const std::uint64_t several = 10 * net::connected::call_pace::FIRST_MS * base::ticks_per_ms();
  ASSERT_TRUE(until_alone(*g, 0, [&] { return base::cpu_ticks() > since + several; }));
  EXPECT_EQ(fake().calls("fi_send"), before + 1);
  meet(*g, 0, 1);
  nobody_is_waited_for();
}

// Its end is news once, and nobody on the new device would hear of it.
TEST_F(connector_test, a_rank_that_was_missed_before_there_is_a_device__is_missed_there) {
  auto g = open(2);
  // What is called is a device that rank 0 does not have yet.
  g->at(1).add_device(1);
  const std::uint64_t word = 0;
  const auto call = [&] { g->at(1).to(1).send_inline(0, 0, nullptr, 0, &word, sizeof(word)); };
  ASSERT_TRUE(g->until(
      [&] {
        call();
        return at(0).calls().is_watched(1);
      },
      "rank 1 to be known"));
  g->close(1, false);
  ASSERT_TRUE(until_alone(*g, 0, [&] { return !at(0).calls().is_watched(1); }));
  // The provider waits for an answer.
  fake().fail("fi_send", 1, -FI_EAGAIN, 1u << 30);
  g->at(0).add_device(1);
  EXPECT_EQ(g->at(0).to(1).send_inline(1, 0, nullptr, 0, &word, sizeof(word)),
            errorcode_t::retry_nomem);
  ASSERT_TRUE(g->until([&] { return !g->at(0).seen(1).gone().empty(); }, "the end of rank 1"));
  EXPECT_EQ(g->at(0).seen(1).gone()[0].reason, "its process has ended");
}

}  // namespace lci::ofi
