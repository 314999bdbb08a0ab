#include "lci/net/connected/due_notices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/net/connected/null_sink.hpp"
#include "tests/support/failing_new/failing_new.hpp"

namespace lci::net::connected {
namespace {

// Writes down what it is told, and may do something then.
struct error_listener final : sink {
  verdict on_message(const arrival&) noexcept override { return verdict::taken; }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int rank, void*, std::string_view reason) noexcept override {
    heard.push_back(std::to_string(rank) + " " + std::string(reason));
    if (then) std::exchange(then, {})();
  }
  void on_peer_ended(int, bool, std::string_view) noexcept override {}
  std::vector<std::string> heard;
  std::function<void()> then;
};

struct note {
  enum class kind { other, withdrawn };
  note(int number) : slot(number) {}
  note(kind k, int s, int g) : what(k), slot(s), generation(g) {}
  kind what = kind::other;
  int slot = 0, generation = 0;
  bool operator==(const note&) const = default;
};
using said_notes = std::vector<std::pair<int, note>>;

TEST(due_notices, nothing__is_not_due) {
  const due_notices<note> none;
  EXPECT_FALSE(none.is_due());
  EXPECT_TRUE(none.are_failures_told());
}

TEST(due_notices, serve__notes_and_failures_once_in_their_order) {
  due_notices<note> owed;
  owed.add_note(1, 10);
  owed.add_failure(2, nullptr, "first");
  owed.add_note(3, 30);
  owed.add_failure(4, nullptr, "second");
  EXPECT_TRUE(owed.is_due());
  EXPECT_FALSE(owed.are_failures_told());
  error_listener to;
  said_notes said;
  const auto tell = [&](int rank, const note& what) {
    said.emplace_back(rank, what);
    return true;
  };
  owed.serve(to, tell);
  EXPECT_EQ(to.heard, (std::vector<std::string>{"2 first", "4 second"}));
  EXPECT_EQ(said, (said_notes{{1, 10}, {3, 30}}));
  EXPECT_FALSE(owed.is_due());
  EXPECT_TRUE(owed.are_failures_told());
  owed.serve(to, tell);
  EXPECT_EQ(to.heard.size(), 2u);
  EXPECT_EQ(said.size(), 2u);
}

TEST(due_notices, note_that_cannot_be_sent_again__stays_due_and_is_not_tried_in_a_circle) {
  due_notices<note> owed;
  owed.add_note(1, 10);
  sink& nobody = null_sink();
  int tries = 0;
  const auto tell = [&](int, const note&) { return ++tries == 3; };
  owed.serve(nobody, tell);
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(owed.is_due());
  owed.serve(nobody, tell);
  owed.serve(nobody, tell);
  EXPECT_EQ(tries, 3);
  EXPECT_FALSE(owed.is_due());
}

TEST(due_notices, tell__does_not_overtake_what_waits_for_that_rank) {
  due_notices<note> owed;
  said_notes said;
  bool is_full = true;
  const auto send = [&](int rank, const note& what) {
    if (rank == 1 && is_full) return false;
    said.emplace_back(rank, what);
    return true;
  };
  for (const int number : {10, 11}) owed.tell(1, number, send);
  owed.tell(2, 20, send);
  EXPECT_EQ(said, (said_notes{{2, 20}})) << "another rank does not wait";
  // As another thread does while they are served: it comes behind them, sent or not.
  const auto while_served = [&](int rank, const note& what) {
    if (what.slot == 10) owed.tell(1, 12, send);
    return send(rank, what);
  };
  owed.serve(null_sink(), while_served);
  is_full = false;
  owed.tell(1, 13, send);
  owed.serve(null_sink(), while_served);
  owed.serve(null_sink(), send);
  EXPECT_EQ(said, (said_notes{{2, 20}, {1, 10}, {1, 11}, {1, 12}, {1, 13}, {1, 12}}));
  EXPECT_FALSE(owed.is_due());
  owed.tell(1, 14, send);
  EXPECT_EQ(said.back(), (std::pair<int, note>(1, 14))) << "nothing waits any more";
}

// The list of those that are refused is full, so that it has to grow for the others.
TEST(due_notices, refused_notes__none_is_lost_where_the_lists_cannot_be_joined) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    due_notices<note> owed;
    int last = 0;
    const auto add = [&] { owed.add_note(1, ++last); };
    while (last < 16) {
      const test::fail_nth_new failing(1);
      add();
    }
    bool has_added = false;
    {
      const test::fail_nth_new failing(n);
      owed.serve(null_sink(), [&](int, const note&) {
        for (int i = 0; !has_added && i < 20; ++i) add();
        has_added = true;
        return false;
      });
    }
    said_notes expected, said;
    for (int i = 1; i <= last; ++i) expected.emplace_back(1, i);
    while (owed.is_due())
      owed.serve(null_sink(), [&](int rank, const note& what) {
        said.emplace_back(rank, what);
        return true;
      });
    EXPECT_EQ(said, expected) << n;
  }
}

// A sink may post again, or poll, while it is told.
TEST(due_notices, what_comes_in_while_it_is_served__is_not_lost) {
  due_notices<note> owed;
  owed.add_failure(1, nullptr, "first");
  error_listener to;
  to.then = [&] {
    EXPECT_FALSE(owed.are_failures_told()) << "it is being told";
    owed.add_failure(2, nullptr, "second");
    owed.raise();
  };
  const auto tell = [](int, const note&) { return true; };
  owed.serve(to, tell);
  EXPECT_EQ(to.heard.size(), 2u);
  EXPECT_TRUE(owed.are_failures_told());
  EXPECT_TRUE(owed.is_due()) << "what was raised then may have come too late for that serve";
}

// As at a device that nobody polls while registrations come and go.
TEST(due_notices, ends_of_registrations__are_folded_where_nobody_serves) {
  constexpr int RANKS = 3;
  due_notices<note> owed;
  owed.add_note(1, 10);
  int last[RANKS] = {};
  for (int i = 1; i <= 10000; ++i) {
    owed.add_note(i % RANKS, {note::kind::withdrawn, i, 1});
    last[i % RANKS] = i;
  }
  owed.add_note(2, 20);
  said_notes said;
  const auto tell = [&](int rank, const note& what) {
    said.emplace_back(rank, what);
    return true;
  };
  owed.serve(null_sink(), tell);
  EXPECT_LE(said.size(), 2 * due_notices<note>::LEAST_TO_FOLD);
  EXPECT_EQ(said.front(), (std::pair<int, note>(1, 10))) << "others stay in front of them";
  EXPECT_EQ(said.back(), (std::pair<int, note>(2, 20)));
  for (int rank = 0; rank < RANKS; ++rank) {
    EXPECT_EQ(std::count(said.begin(), said.end(),
                         std::pair<int, note>(rank, {note::kind::withdrawn, 0, 0})),
              1)
        << rank;
    EXPECT_EQ(std::count(said.begin(), said.end(),
                         std::pair<int, note>(rank, {note::kind::withdrawn, last[rank], 1})),
              1)
        << "what came after the last fold";
  }
  // A few are not folded.
  said.clear();
  for (int i = 1; i <= 10; ++i) owed.add_note(0, {note::kind::withdrawn, i, 1});
  owed.serve(null_sink(), tell);
  EXPECT_EQ(said.size(), 10u);
}

TEST(due_notices, threads__every_failure_is_told_once) {
  constexpr int EACH = 2000;
  due_notices<note> owed;
  std::vector<std::thread> posters;
  for (int t = 0; t < 3; ++t)
    posters.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) owed.add_failure(t, nullptr, "late");
    });
  error_listener to;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (to.heard.size() < 3u * EACH && std::chrono::steady_clock::now() < limit)
    if (owed.is_due()) owed.serve(to, [](int, const note&) { return true; });
  for (std::thread& one : posters) one.join();
  EXPECT_TRUE(owed.are_failures_told());
  EXPECT_EQ(to.heard.size(), 3u * EACH);
}

// Each thread tells a rank of its own, while what is refused is served.
TEST(due_notices, threads__notes_to_a_rank_keep_their_order) {
  constexpr int RANKS = 3, EACH = 500;
  due_notices<note> owed;
  std::vector<int> said[RANKS];
  std::mutex sending;  // as that of a connection
  int tries = 0;
  const auto send = [&](int rank, const note& what) {
    const std::lock_guard lock(sending);
    if (++tries % 3 == 0) return false;
    said[rank].push_back(what.slot);
    return true;
  };
  std::atomic<int> running = RANKS;
  std::vector<std::thread> tellers;
  for (int t = 0; t < RANKS; ++t)
    tellers.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) owed.tell(t, i, send);
      // edge due_notices_test.told: partner is the loop below.
      running.fetch_sub(1, std::memory_order_release);
    });
  // edge due_notices_test.told: partner is what the threads do last.
  while (running.load(std::memory_order_acquire) != 0 || owed.is_due())
    owed.serve(null_sink(), send);
  for (std::thread& one : tellers) one.join();
  std::vector<int> expected(EACH);
  std::iota(expected.begin(), expected.end(), 0);
  for (const auto& one : said) EXPECT_EQ(one, expected);
}

}  // namespace
}  // namespace lci::net::connected
