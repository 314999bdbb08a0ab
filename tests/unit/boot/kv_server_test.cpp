#include "lci/boot/kv_server.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lci/boot/kv_member.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/seed.hpp"

namespace lci::boot::kv {
namespace {

using test::throws_with;

// Server and members joined by hand: bytes move when a test says so.
class kv_server_test : public testing::Test {
 protected:
  explicit kv_server_test(bool hold_news = false) : server_(3, hold_news) {}

  member& add(int connection, int rank, int size = 3) {
    server_.opened(connection);
    return *members_.emplace(connection, std::make_unique<member>("test", rank, size))
                .first->second;
  }
  // Everything in flight, both ways. What a member throws is kept in errors_.
  void run() {
    for (auto& [c, m] : members_) server_.received(c, m->take_output());
    for (const auto& out : server_.take_outputs()) {
      if (out.then_close) closed_.push_back(out.to);
      const auto found = members_.find(out.to);
      if (found == members_.end() || !out.bytes) continue;
      try {
        found->second->receive(*out.bytes);
      } catch (const backend_error& error) {
        errors_[out.to] = error.what();
      }
    }
  }
  void add_all() {
    for (int r = 0; r < size_; ++r) add(10 + r, r);
    run();
  }
  void fence_all() {
    for (auto& [c, m] : members_) m->begin_fence();
    run();
  }

  static constexpr int size_ = 3;
  server server_;
  std::map<int, std::unique_ptr<member>> members_;
  std::map<int, std::string> errors_;
  std::vector<int> closed_;
};

TEST_F(kv_server_test, join__welcome_when_all_are_there) {
  member& a = add(10, 0);
  member& b = add(11, 1);
  run();
  EXPECT_FALSE(a.is_welcome());
  EXPECT_EQ(server_.missing(), std::vector<int>{2});
  add(12, 2);
  run();
  EXPECT_TRUE(a.is_welcome());
  EXPECT_TRUE(b.is_welcome());
  EXPECT_TRUE(server_.all_joined());
  EXPECT_TRUE(server_.missing().empty());
}

TEST_F(kv_server_test, fence__values_are_readable_after_it_and_not_before) {
  add_all();
  for (auto& [c, m] : members_) m->put("k", "of " + std::to_string(m->rank()));
  run();
  member& reader = *members_.at(10);
  EXPECT_THROW(reader.get(1, "k"), argument_error);
  fence_all();
  EXPECT_FALSE(reader.fence_pending());
  for (int r = 0; r < 3; ++r) EXPECT_EQ(reader.get(r, "k"), "of " + std::to_string(r));
}

TEST_F(kv_server_test, fence__waits_for_the_last) {
  add_all();
  members_.at(10)->begin_fence();
  members_.at(12)->begin_fence();
  run();
  EXPECT_TRUE(members_.at(10)->fence_pending());
  members_.at(11)->begin_fence();
  run();
  for (auto& [c, m] : members_) EXPECT_FALSE(m->fence_pending());
}

TEST_F(kv_server_test, put__the_newer_of_two_counts) {
  add_all();
  members_.at(10)->put("k", "old");
  members_.at(10)->put("k", "new");
  fence_all();
  EXPECT_EQ(members_.at(12)->get(0, "k"), "new");
  members_.at(10)->put("k", "newest");
  fence_all();
  EXPECT_EQ(members_.at(12)->get(0, "k"), "newest");
}

TEST_F(kv_server_test, get__names_rank_and_key) {
  add_all();
  const member& m = *members_.at(10);
  EXPECT_TRUE(throws_with<argument_error>([&] { m.get(3, "k"); }, {"rank 3", "0 to 2"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { m.get(-1, "k"); }, {"rank -1", "0 to 2"}));
  EXPECT_TRUE(throws_with<argument_error>([&] { m.get(1, "k"); }, {"rank 1", "\"k\""}));
}

TEST_F(kv_server_test, join__second_process_of_a_rank_is_refused_and_the_job_goes_on) {
  add_all();
  add(20, 1);
  run();
  EXPECT_NE(errors_[20].find("rank 1 has already joined"), std::string::npos) << errors_[20];
  EXPECT_EQ(closed_, std::vector<int>{20});
  members_.erase(20);
  fence_all();
  EXPECT_FALSE(members_.at(10)->fence_pending());
  EXPECT_EQ(errors_.size(), 1u);
}

TEST_F(kv_server_test, join__wrong_size_is_refused_with_both_numbers) {
  add(10, 0);
  add(20, 1, 4);
  run();
  EXPECT_NE(errors_[20].find("4 ranks"), std::string::npos) << errors_[20];
  EXPECT_NE(errors_[20].find("has 3"), std::string::npos) << errors_[20];
  EXPECT_EQ(server_.missing(), (std::vector<int>{1, 2}));
}

TEST_F(kv_server_test, closed__who_waits_is_told_who_left) {
  add_all();
  members_.at(10)->begin_fence();
  run();
  server_.closed(11);
  run();
  EXPECT_NE(errors_[10].find("rank 1 left"), std::string::npos) << errors_[10];
  EXPECT_NE(errors_[10].find("fence 0"), std::string::npos) << errors_[10];
  EXPECT_EQ(errors_.count(12), 0u);  // was not waiting
  members_.at(12)->begin_fence();
  run();
  EXPECT_NE(errors_[12].find("rank 1 left"), std::string::npos);
  // And it stays told, without asking the server again.
  EXPECT_THROW(members_.at(12)->begin_fence(), backend_error);
}

TEST_F(kv_server_test, closed__after_the_last_fence_disturbs_nobody) {
  add_all();
  fence_all();
  server_.closed(11);
  server_.closed(10);
  server_.closed(12);
  run();
  EXPECT_TRUE(errors_.empty());
}

TEST_F(kv_server_test, rejoin__lives_do_not_mix) {
  add_all();
  members_.at(11)->put("k", "first life");
  fence_all();
  // Rank 1 is back before the others have left.
  server_.closed(11);
  members_.erase(11);
  add(21, 1);
  members_.at(21)->put("k", "second life");
  members_.at(21)->begin_fence();
  run();
  EXPECT_TRUE(members_.at(21)->fence_pending());
  EXPECT_EQ(members_.at(10)->get(1, "k"), "first life");
  for (const int c : {10, 12}) {
    server_.closed(c);
    members_.erase(c);
  }
  add(20, 0);
  add(22, 2);
  members_.at(20)->begin_fence();
  members_.at(22)->begin_fence();
  run();
  EXPECT_TRUE(errors_.empty());
  EXPECT_EQ(members_.at(20)->get(1, "k"), "second life");
}

TEST_F(kv_server_test, rank_ended__before_it_joined_ends_the_wait_of_the_others) {
  add(10, 0);
  members_.at(10)->begin_fence();
  run();
  server_.rank_ended(2, "rank 2 exited with status 1");
  run();
  EXPECT_NE(errors_[10].find("rank 2 exited with status 1"), std::string::npos) << errors_[10];
  // Also for one that comes later.
  add(11, 1);
  members_.at(11)->begin_fence();
  run();
  EXPECT_NE(errors_[11].find("rank 2 exited"), std::string::npos) << errors_[11];
}

TEST_F(kv_server_test, rank_ended__after_it_joined_is_left_to_its_connection) {
  add_all();
  members_.at(12)->begin_fence();
  run();
  server_.rank_ended(2, "rank 2 exited with status 0");
  members_.at(10)->begin_fence();
  members_.at(11)->begin_fence();
  run();
  EXPECT_TRUE(errors_.empty());
  EXPECT_FALSE(members_.at(10)->fence_pending());
}

TEST_F(kv_server_test, closed__without_farewell_is_news_for_all_others) {
  add_all();
  fence_all();
  members_.at(11)->leave();
  run();
  server_.closed(11);
  members_.erase(11);
  run();
  std::vector<departure> news = members_.at(10)->take_news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].rank, 1);
  EXPECT_TRUE(news[0].orderly) << "it left";
  server_.closed(12);
  members_.erase(12);
  run();
  news = members_.at(10)->take_news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].rank, 2);
  EXPECT_EQ(news[0].why, "rank 2 ended without leaving the job");
  EXPECT_FALSE(news[0].orderly);
  EXPECT_TRUE(members_.at(10)->take_news().empty()) << "once";
  EXPECT_TRUE(errors_.empty());
}

// At the end of a job: n ranks that hear of n others by one frame each would be n squared.
TEST_F(kv_server_test, closed__ranks_that_leave_together_are_news_in_one_frame) {
  add_all();
  for (const int c : {10, 11}) members_.at(c)->leave();
  run();
  for (const int c : {10, 11}) {
    server_.closed(c);
    members_.erase(c);
  }
  const auto outputs = server_.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].to, 12);
  members_.at(12)->receive(*outputs[0].bytes);
  const std::vector<departure> news = members_.at(12)->take_news();
  ASSERT_EQ(news.size(), 2u);
  EXPECT_TRUE(news[0].rank == 0 && news[0].orderly);
  EXPECT_TRUE(news[1].rank == 1 && news[1].orderly);
}

TEST_F(kv_server_test, has_departed__until_it_joins_again_and_when_nobody_is_left) {
  add_all();
  members_.at(11)->leave();
  run();
  EXPECT_FALSE(server_.has_departed(2));
  for (const int c : {12, 11, 10}) {
    server_.closed(c);
    members_.erase(c);
  }
  EXPECT_FALSE(server_.has_departed(1)) << "it left";
  EXPECT_TRUE(server_.has_departed(2));
  add(22, 2);
  run();
  EXPECT_FALSE(server_.has_departed(2));
  EXPECT_TRUE(server_.has_departed(0));
}

TEST_F(kv_server_test, take_leave__is_said_to_members) {
  add_all();
  EXPECT_FALSE(members_.at(10)->has_server_left());
  server_.take_leave();
  run();
  for (const auto& [c, m] : members_) EXPECT_TRUE(m->has_server_left()) << c;
  EXPECT_TRUE(errors_.empty());
}

class kv_server_holding_news : public kv_server_test {
 protected:
  kv_server_holding_news() : kv_server_test(true) {}
};

TEST_F(kv_server_holding_news, closed__is_told_with_the_cause_once_that_is_known) {
  add_all();
  members_.at(10)->begin_fence();
  run();
  server_.closed(12);
  members_.at(11)->begin_fence();
  run();
  EXPECT_TRUE(errors_.empty());
  EXPECT_TRUE(server_.has_news());
  server_.rank_ended(2, "rank 2 died of signal 9");
  run();
  EXPECT_FALSE(server_.has_news());
  for (const int c : {10, 11})
    EXPECT_NE(errors_[c].find("rank 2 died of signal 9"), std::string::npos) << errors_[c];
}

TEST_F(kv_server_holding_news, closed__is_news_with_the_cause_once_that_is_known) {
  add_all();
  fence_all();
  server_.closed(12);
  run();
  EXPECT_TRUE(server_.has_news());
  EXPECT_TRUE(members_.at(10)->take_news().empty());
  server_.rank_ended(2, "rank 2 died of signal 9");
  run();
  const std::vector<departure> news = members_.at(10)->take_news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].why, "rank 2 died of signal 9");
  server_.closed(11);
  server_.tell_failures();
  run();
  EXPECT_EQ(members_.at(10)->take_news().at(0).rank, 1);
}

TEST_F(kv_server_holding_news, closed__without_a_death_is_told_on_request) {
  add_all();
  members_.at(10)->begin_fence();
  run();
  server_.closed(12);
  run();
  EXPECT_TRUE(errors_.empty());
  server_.tell_failures();
  run();
  EXPECT_NE(errors_[10].find("rank 2 left"), std::string::npos) << errors_[10];
  members_.at(11)->begin_fence();
  run();
  EXPECT_NE(errors_[11].find("rank 2 left"), std::string::npos) << errors_[11];
}

TEST_F(kv_server_test, received__frames_out_of_turn_end_the_connection) {
  add_all();
  std::string bytes;
  encode_arrive(bytes, 5);  // the open fence is 0
  server_.received(10, bytes);
  run();
  EXPECT_EQ(closed_, std::vector<int>{10});
  server_.opened(30);
  std::string put;
  encode_put(put, "k", "v");  // before a hello
  server_.received(30, put);
  run();
  EXPECT_EQ(closed_, (std::vector<int>{10, 30}));
  EXPECT_TRUE(errors_.count(11) == 0);
}

TEST_F(kv_server_test, fail_all__everybody_gets_the_text) {
  add_all();
  server_.fail_all("time is up");
  run();
  for (const int c : {10, 11, 12})
    EXPECT_NE(errors_[c].find("time is up"), std::string::npos) << errors_[c];
}

TEST_F(kv_server_test, member__server_that_talks_nonsense_is_an_error) {
  member m("test", 0, 2);
  EXPECT_TRUE(throws_with<backend_error>([&] { m.receive("HTTP/1.1 400 Bad Request"); },
                                         {"not of this protocol"}));
  member n("test", 0, 2);
  std::string bytes;
  encode_hello(bytes, 0, 2);
  EXPECT_TRUE(
      throws_with<backend_error>([&] { n.receive(bytes); }, {"does not belong here", "type 1"}));
  member o("test", 0, 2);
  std::string released;
  encode_released(released, 0);  // without a fence
  EXPECT_THROW(o.receive(released), backend_error);
}

// Strangers throw anything at the server while a job runs: the job does not notice.
TEST_F(kv_server_test, strangers__random_bytes_do_not_disturb_the_job) {
  auto random = test::seeded(3);
  add_all();
  for (int i = 0; i < 2000; ++i) {
    const int stranger = 1000 + i;
    server_.opened(stranger);
    std::string bytes;
    if (i % 3 == 0) encode_hello(bytes, static_cast<int>(random() % 3), 3);
    if (i % 3 == 1) encode_put(bytes, "k", "stolen");
    for (auto n = random() % 64; n > 0; --n) bytes += static_cast<char>(random());
    server_.received(stranger, bytes);
    server_.closed(stranger);
    if (i % 100 == 0) {
      members_.at(10)->put("k", std::to_string(i));
      fence_all();
      ASSERT_EQ(members_.at(11)->get(0, "k"), std::to_string(i));
    }
  }
  EXPECT_TRUE(errors_.empty());
}

}  // namespace
}  // namespace lci::boot::kv
