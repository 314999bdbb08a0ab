// Keys that their owner withdraws while operations use them.
#include "lci/transport/remote_keys.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "lci/transport/memory_key.hpp"

namespace lci::transports {
namespace {

// The owner refuses all others that are asked for.
std::shared_ptr<remote_key> good_key(remote_keys& all, const std::string& text,
                                     std::uint64_t memory = 77) {
  std::shared_ptr<remote_key> one = all.find(text);
  for (const ask& question : all.questions(10000)) {
    answer reply;
    reply.number = question.number;
    reply.is_good = question.key == text;
    reply.memory = memory;
    EXPECT_TRUE(all.hear(reply, std::chrono::steady_clock::now()));
  }
  EXPECT_EQ(one->now(), remote_key::state::good);
  return one;
}

TEST(remote_keys, released__each_withdrawal_when_its_own_keys_are_out_of_use) {
  remote_keys all;
  const std::shared_ptr<remote_key> first = good_key(all, "first");
  first->uses = 1;
  all.withdraw({77, 1});
  EXPECT_EQ(all.released(), std::vector<std::uint64_t>());
  good_key(all, "second");
  all.withdraw({77, 2});
  EXPECT_EQ(all.released(), std::vector<std::uint64_t>{2});
  first->uses = 0;
  EXPECT_EQ(all.released(), std::vector<std::uint64_t>{1});
  EXPECT_EQ(all.released(), std::vector<std::uint64_t>());
}

TEST(remote_keys, questions__so_many_at_a_time_and_in_order) {
  remote_keys all;
  const std::vector<std::string> texts = {"a", "b", "c", "d", "e"};
  std::vector<std::shared_ptr<remote_key>> held;
  for (const std::string& one : texts) held.push_back(all.find(one));
  std::vector<std::string> asked;
  std::vector<std::size_t> counts;
  while (all.has_questions()) {
    const std::vector<ask> some = all.questions(2);
    counts.push_back(some.size());
    for (const ask& one : some) asked.push_back(one.key);
  }
  EXPECT_EQ(asked, texts);
  EXPECT_EQ(counts, (std::vector<std::size_t>{2, 2, 1}));
}

// Those that are held are not looked at for every new key, so an idle one stays for a while.
TEST(remote_keys, find__many_are_held_and_an_idle_one_is_not_asked_for_again) {
  remote_keys all;
  std::shared_ptr<remote_key> idle = good_key(all, "idle");
  std::vector<std::shared_ptr<remote_key>> held;
  for (std::size_t i = 0; i < remote_keys::MOST_IDLE + 100; ++i)
    held.push_back(all.find(std::to_string(i)));
  idle.reset();
  for (int i = 0; i < 10; ++i) held.push_back(all.find("new" + std::to_string(i)));
  EXPECT_EQ(all.find("idle")->now(), remote_key::state::good);
}

TEST(remote_keys, withdraw__keys_of_other_memories_stay) {
  remote_keys all;
  const std::shared_ptr<remote_key> held = good_key(all, "held");
  good_key(all, "of another", 78);
  good_key(all, "idle");
  all.withdraw({77, 1});
  EXPECT_EQ(all.find("of another")->now(), remote_key::state::good);
  EXPECT_EQ(all.find("idle")->now(), remote_key::state::unknown);
  EXPECT_EQ(all.find("held"), held) << "who holds it waits for another answer";
  EXPECT_EQ(held->now(), remote_key::state::unknown);
  EXPECT_EQ(all.released(), std::vector<std::uint64_t>{1});
}

TEST(remote_keys, find__idle_ones_are_not_kept_without_end) {
  remote_keys all;
  good_key(all, "idle");
  for (std::size_t i = 0; i <= remote_keys::MOST_IDLE; ++i) good_key(all, std::to_string(i));
  EXPECT_EQ(all.find("idle")->now(), remote_key::state::unknown);
}

TEST(remote_keys, hear__a_key_is_good_for_as_long_as_its_owner_says) {
  const std::uint64_t year_ms = 1000ULL * 60 * 60 * 24 * 365;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& [left_ms, is_good] : {std::pair{3 * year_ms, true},
                                         {~std::uint64_t{0}, true},  // no clock can add that
                                         {year_ms, false}}) {
    remote_keys all;
    const std::shared_ptr<remote_key> one = all.find("a key");
    answer reply;
    reply.number = all.questions(1).front().number;
    reply.is_good = true;
    reply.rights = memory_key::MAY_READ;
    reply.size = 8;
    reply.left_ms = left_ms;
    ASSERT_TRUE(all.hear(reply, now - 2 * std::chrono::milliseconds(year_ms)));
    EXPECT_EQ(one->refusal_of(0, 8, false), is_good ? "" : "its time is over") << left_ms;
  }
}

}  // namespace
}  // namespace lci::transports
