#include "lci/net/peer_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "lci/errors.hpp"

namespace lci::net {
namespace {

constexpr peer_state STATES[] = {peer_state::unknown, peer_state::connecting, peer_state::ready,
                                 peer_state::left, peer_state::failed};
constexpr peer_event EVENTS[] = {peer_event::connect, peer_event::connected, peer_event::leave,
                                 peer_event::fail};

// Brings a rank there with one report.
void bring(peer_table& table, int rank, peer_state to) {
  if (to == peer_state::unknown) return;
  const peer_event by = EVENTS[static_cast<std::size_t>(to) - 1];
  ASSERT_TRUE(table.report(rank, by, "the first"));
  ASSERT_EQ(table.state(rank), to);
}

class listener final : public peer_table::subscriber {
 public:
  void on_peer(int rank, peer_state now) noexcept override { told.emplace_back(rank, now); }
  void on_part(int rank) noexcept override { parted.push_back(rank); }
  std::vector<int> parted;
  std::vector<std::pair<int, peer_state>> told;
};

// ---- which report may follow which ----

// Written out once more, so that a row that changes is noticed: by state, what each event leads to.
TEST(peer_states, every_pair_of_state_and_event__leads_where_it_should) {
  using enum peer_state;
  constexpr peer_state NEXT[5][4] = {{connecting, ready, left, failed},
                                     {connecting, ready, left, failed},
                                     {ready, ready, left, failed},
                                     {left, left, left, failed},
                                     {failed, failed, failed, failed}};
  for (const peer_state from : STATES) {
    for (const peer_event what : EVENTS) {
      peer_table table(2);
      bring(table, 1, from);
      const std::uint32_t before = table.epoch();
      listener one;
      table.subscribe(one);
      const peer_state to = NEXT[static_cast<std::size_t>(from)][static_cast<std::size_t>(what)];
      SCOPED_TRACE(std::string(name_of(from)) + ", " + name_of(what));
      EXPECT_EQ(table.report(1, what, "the second"), to != from);
      EXPECT_EQ(table.state(1), to);
      EXPECT_EQ(table.has_ended(1), to == left || to == failed);
      EXPECT_EQ(table.has_failed(1), to == failed);
      const bool ends = to != from && table.has_ended(1);
      EXPECT_EQ(table.epoch(), before + (ends ? 1 : 0));
      EXPECT_EQ(one.told.size(), to != from ? 1u : 0u);
      if (table.has_ended(1)) {
        EXPECT_EQ(table.reason(1), ends ? "the second" : "the first");
      }
      EXPECT_EQ(table.state(0), unknown);
    }
  }
}

TEST(peer_states, rows__say_what_has_happened) {
  std::set<std::pair<peer_state, peer_event>> seen;
  for (const peer_row& row : PEER_TABLE) {
    EXPECT_TRUE(seen.emplace(row.from, row.on).second);
    EXPECT_NE(std::string(row.says), "");
    EXPECT_EQ(row.action == peer_action::ignore, row.from == row.to);
    EXPECT_EQ(row.action == peer_action::end, row.from != row.to && row.to >= peer_state::left);
  }
}

// ---- epoch and reasons ----

TEST(peer_table, epoch__changes_with_each_end_and_not_with_contact) {
  peer_table table(4);
  table.report(0, peer_event::connect);
  table.report(0, peer_event::connected);
  EXPECT_EQ(table.epoch(), 0u);
  table.report(1, peer_event::leave, "it has left");
  EXPECT_EQ(table.epoch(), 1u);
  table.report(2, peer_event::fail, "it died");
  EXPECT_EQ(table.epoch(), 2u);
  table.report(2, peer_event::fail, "it died");
  table.report(1, peer_event::leave, "it has left");
  EXPECT_EQ(table.epoch(), 2u);
  table.report(1, peer_event::fail, "it died");
  EXPECT_EQ(table.epoch(), 3u);
}

TEST(peer_table, failed__are_those_that_did_not_leave) {
  peer_table table(5);
  table.report(4, peer_event::fail, "it died");
  table.report(1, peer_event::fail, "it died");
  table.report(2, peer_event::leave, "it has left");
  EXPECT_EQ(table.failed(), (std::vector<int>{1, 4}));
}

TEST(peer_table, has_failed_lately__counts_failures_only) {
  constexpr auto LONG = std::chrono::hours(1);
  peer_table table(3);
  EXPECT_FALSE(table.has_failed_lately(LONG));
  table.report(1, peer_event::leave, "it has left");
  EXPECT_FALSE(table.has_failed_lately(LONG));
  table.report(2, peer_event::fail, "it died");
  EXPECT_TRUE(table.has_failed_lately(LONG));
  EXPECT_FALSE(table.has_failed_lately(std::chrono::seconds(0)));
}

TEST(peer_table, check__throws_with_rank_and_reason_for_those_that_have_ended) {
  peer_table table(3);
  table.report(0, peer_event::connected);
  EXPECT_NO_THROW(table.check(0));
  EXPECT_NO_THROW(table.check(1));
  table.report(1, peer_event::leave, "it has left");
  try {
    table.check(1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const peer_failure_error& error) {
    EXPECT_EQ(error.failed_rank(), 1);
    EXPECT_STREQ(error.what(), "rank 1 is lost: it has left");
  }
}

// The network may refuse a post before a poll has reported the end.
TEST(peer_table, throw_ended_of_a_rank_that_no_report_has_ended__says_what_is_known) {
  peer_table table(1);
  try {
    table.throw_ended(0);
  } catch (const peer_failure_error& error) {
    EXPECT_STREQ(error.what(), "rank 0 is lost: its connection has failed");
  }
}

TEST(peer_table, part__leaves_the_state_and_gives_the_reason_until_an_end) {
  peer_table table(2);
  listener one;
  table.subscribe(one);
  table.report(1, peer_event::connected);
  table.part(1, "it has left one network");
  EXPECT_EQ(table.state(1), peer_state::ready);
  EXPECT_EQ(table.epoch(), 1u);
  EXPECT_NO_THROW(table.check(1));
  EXPECT_EQ(table.reason(1), "it has left one network");
  EXPECT_EQ(one.parted, std::vector<int>{1});
  EXPECT_EQ(one.told.size(), 1u);
  EXPECT_TRUE(table.report(1, peer_event::fail, "it died"));
  table.part(1, "it has left another network");
  EXPECT_EQ(table.state(1), peer_state::failed);
  EXPECT_EQ(table.reason(1), "it died");
  EXPECT_EQ(table.epoch(), 2u);
  EXPECT_EQ(one.parted.size(), 1u);
  EXPECT_EQ(one.told.size(), 3u) << "reminded";
}

// ---- subscribers ----

TEST(peer_subscribers, all__are_told_each_change_once_and_in_order) {
  peer_table table(3);
  listener a, b;
  table.subscribe(a);
  table.report(1, peer_event::connect);
  table.subscribe(b);
  table.report(1, peer_event::connected);
  table.report(1, peer_event::connected);
  table.report(2, peer_event::fail, "it died");
  table.report(2, peer_event::fail, "it died");
  const std::vector<std::pair<int, peer_state>> later = {{1, peer_state::ready},
                                                         {2, peer_state::failed}};
  EXPECT_EQ(b.told, later) << "what was before it subscribed is read from the table";
  ASSERT_EQ(a.told.size(), 3u);
  EXPECT_EQ(a.told[0], std::pair(1, peer_state::connecting));
}

TEST(peer_subscribers, removed__are_not_told) {
  peer_table table(2);
  listener a, b;
  table.subscribe(a);
  table.subscribe(b);
  table.unsubscribe(a);
  table.report(1, peer_event::fail, "it died");
  EXPECT_TRUE(a.told.empty());
  EXPECT_EQ(b.told.size(), 1u);
}

TEST(peer_subscribers, remind__tells_of_ranks_that_have_ended_only) {
  peer_table table(2);
  listener one;
  table.subscribe(one);
  table.report(0, peer_event::connected);
  table.remind(0);
  EXPECT_EQ(one.told.size(), 1u);
  table.report(1, peer_event::leave, "it has left");
  const std::uint32_t epoch = table.epoch();
  table.remind(1);
  ASSERT_EQ(one.told.size(), 3u);
  EXPECT_EQ(one.told[2], std::pair(1, peer_state::left));
  EXPECT_EQ(table.epoch(), epoch);
}

// Stays in on_peer() until it may go on.
class slow_listener final : public peer_table::subscriber {
 public:
  // edge test.slow: both sides here and in the test; orders nothing but the flags themselves.
  void on_peer(int, peer_state) noexcept override {
    times += 1;
    is_inside.store(true);
    is_inside.notify_all();
    may_go_on.wait(false);
    was_removed_inside = is_removed.load();
  }
  int times = 0;
  bool was_removed_inside = false;
  std::atomic<bool> is_inside{false}, may_go_on{false}, is_removed{false};
};

TEST(peer_subscribers, removed_while_told__are_let_go_when_that_is_over) {
  peer_table table(2);
  slow_listener one;
  table.subscribe(one);
  std::thread reporter([&] { table.report(0, peer_event::fail, "it died"); });
  one.is_inside.wait(false);
  std::atomic<bool> is_about_to{false};
  std::thread remover([&] {
    is_about_to.store(true);
    is_about_to.notify_all();
    table.unsubscribe(one);
    one.is_removed.store(true);
  });
  is_about_to.wait(false);
  one.may_go_on.store(true);
  one.may_go_on.notify_all();
  reporter.join();
  remover.join();
  EXPECT_FALSE(one.was_removed_inside);
  table.report(1, peer_event::fail, "it died");
  EXPECT_EQ(one.times, 1);
}

// ---- threads ----

// A listener that threads tell.
class counting_listener final : public peer_table::subscriber {
 public:
  void on_peer(int rank, peer_state now) noexcept override { times[{rank, now}] += 1; }
  std::map<std::pair<int, peer_state>, int> times;  // under the table's lock
};

TEST(peer_threads, two_that_report_the_same__one_of_them_has_changed_it) {
  constexpr int RANKS = 500;
  peer_table table(RANKS);
  counting_listener one;
  table.subscribe(one);
  std::atomic<int> changes{0}, ready{0};
  const auto report_all = [&](peer_event what) {
    ready += 1;
    while (ready.load() < 2) std::this_thread::yield();
    for (int rank = 0; rank < RANKS; ++rank) changes += table.report(rank, what, "it died");
  };
  std::thread other([&] { report_all(peer_event::fail); });
  report_all(peer_event::fail);
  other.join();
  EXPECT_EQ(changes.load(), RANKS);
  EXPECT_EQ(table.epoch(), static_cast<std::uint32_t>(RANKS));
  for (int rank = 0; rank < RANKS; ++rank)
    EXPECT_EQ((one.times[{rank, peer_state::failed}]), 1) << rank;
}

TEST(peer_threads, leave_and_failure_together__end_as_a_failure) {
  constexpr int RANKS = 500;
  peer_table table(RANKS);
  std::atomic<int> ready{0};
  const auto report_all = [&](peer_event what, const char* why) {
    ready += 1;
    while (ready.load() < 2) std::this_thread::yield();
    for (int rank = 0; rank < RANKS; ++rank) table.report(rank, what, why);
  };
  std::thread other([&] { report_all(peer_event::leave, "it has left"); });
  report_all(peer_event::fail, "it died");
  other.join();
  for (int rank = 0; rank < RANKS; ++rank) {
    EXPECT_TRUE(table.has_failed(rank));
    EXPECT_EQ(table.reason(rank), "it died");
  }
}

// Edge peers.epoch: who sees the new epoch sees the state, and what the reporter did before. The
// thread sanitizer looks at `noted`.
TEST(peer_threads, epoch_that_has_changed__brings_what_was_before_the_report) {
  for (int round = 0; round < 200; ++round) {
    peer_table table(1);
    int noted = 0;
    std::thread reporter([&] {
      noted = 1;
      table.report(0, peer_event::fail, "it died");
    });
    while (table.epoch() == 0) std::this_thread::yield();
    EXPECT_EQ(noted, 1);
    EXPECT_TRUE(table.has_failed(0));
    reporter.join();
  }
}

}  // namespace
}  // namespace lci::net
