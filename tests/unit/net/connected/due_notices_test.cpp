#include "lci/net/connected/due_notices.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lci/net/connected/null_sink.hpp"

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
  void on_peer_gone(int, bool, std::string_view) noexcept override {}
  std::vector<std::string> heard;
  std::function<void()> then;
};

using said_notes = std::vector<std::pair<int, int>>;

TEST(due_notices, nothing__is_not_due) {
  const due_notices<int> none;
  EXPECT_FALSE(none.is_due());
  EXPECT_TRUE(none.are_failures_told());
}

TEST(due_notices, serve__notes_and_failures_once_in_their_order) {
  due_notices<int> owed;
  owed.add_note(1, 10);
  owed.add_failure(2, nullptr, "first");
  owed.add_note(3, 30);
  owed.add_failure(4, nullptr, "second");
  EXPECT_TRUE(owed.is_due());
  EXPECT_FALSE(owed.are_failures_told());
  error_listener to;
  said_notes said;
  const auto tell = [&](int rank, int what) { said.emplace_back(rank, what); };
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
  due_notices<int> owed;
  owed.add_note(1, 10);
  sink& nobody = null_sink();
  int tries = 0;
  const auto tell = [&](int rank, int what) {
    if (++tries < 3) owed.add_note(rank, what);
  };
  owed.serve(nobody, tell);
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(owed.is_due());
  owed.serve(nobody, tell);
  owed.serve(nobody, tell);
  EXPECT_EQ(tries, 3);
  EXPECT_FALSE(owed.is_due());
}

// A sink may post again, or poll, while it is told.
TEST(due_notices, what_comes_in_while_it_is_served__is_not_lost) {
  due_notices<int> owed;
  owed.add_failure(1, nullptr, "first");
  error_listener to;
  to.then = [&] {
    EXPECT_FALSE(owed.are_failures_told()) << "it is being told";
    owed.add_failure(2, nullptr, "second");
    owed.raise();
  };
  const auto tell = [](int, int) {};
  owed.serve(to, tell);
  EXPECT_EQ(to.heard.size(), 2u);
  EXPECT_TRUE(owed.are_failures_told());
  EXPECT_TRUE(owed.is_due()) << "what was raised then may have come too late for that serve";
}

TEST(due_notices, threads__every_failure_is_told_once) {
  constexpr int EACH = 2000;
  due_notices<int> owed;
  std::vector<std::thread> posters;
  for (int t = 0; t < 3; ++t)
    posters.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) owed.add_failure(t, nullptr, "late");
    });
  error_listener to;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (to.heard.size() < 3u * EACH && std::chrono::steady_clock::now() < limit)
    if (owed.is_due()) owed.serve(to, [](int, int) {});
  for (std::thread& one : posters) one.join();
  EXPECT_TRUE(owed.are_failures_told());
  EXPECT_EQ(to.heard.size(), 3u * EACH);
}

}  // namespace
}  // namespace lci::net::connected
