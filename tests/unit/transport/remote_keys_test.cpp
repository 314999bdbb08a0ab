// Keys that their owner withdraws while operations use them.
#include "lci/transport/remote_keys.hpp"

#include <gtest/gtest.h>

namespace lci::transports {
namespace {

// The owner refuses all others that are asked for.
std::shared_ptr<remote_key> good_key(remote_keys& all, const std::string& text) {
  std::shared_ptr<remote_key> one = all.find(text);
  for (const ask& question : all.questions(10000)) {
    answer reply;
    reply.number = question.number;
    reply.is_good = question.key == text;
    reply.memory = 77;
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

}  // namespace
}  // namespace lci::transports
