// What does the shared-memory backend cost, alone: one small message through the backend contract,
// both sides? Both ranks are in one process, so one stepped thread sees the post and the poll.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "tests/contract/group.hpp"
#include "tests/cost/net_pair.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

constexpr int ROUNDS = 150;  // more than the slots of a lane, so that what is done once a lap is in
enum section_id { POST, POLL, IDLE_POLL };

// Two ranks that have exchanged enough messages for everything to be in place.
struct warm_pair {
  warm_pair() : ranks(2, 1, [](int, const net::fabric_config& c) { return open_named("shm", c); }) {
    for (int i = 0; i < 2000; ++i) {
      ranks.post([&] { return send(); });
      poll();
    }
  }
  errorcode_t send() { return ranks.at(0).to().send_inline(1, 5, nullptr, 0, &word, sizeof word); }
  std::size_t poll() { return ranks.at(1).devices[0]->poll(sink, 32); }

  group ranks;
  null_sink sink;
  std::uint64_t word = 1;
};

class shm_cost : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  // Sections POST, POLL and IDLE_POLL in turn, ROUNDS times; stepped once for all tests.
  static const step_report& step_messages() {
    static const step_report report = count_steps([] {
      warm_pair pair;
      // The hang-up of peers is looked at once a millisecond: not in here.
      if (!step_freeze_clock()) abort();
      for (int i = 0; i < 100; ++i) {  // what was due then is done now
        pair.send();
        pair.ranks.at(0).poll();
        pair.poll();
      }
      for (int i = 0; i < ROUNDS; ++i) {
        step_begin(POST);
        const errorcode_t answer = pair.send();
        step_end();
        if (answer != errorcode_t::done) abort();
        const std::size_t before = pair.sink.seen;
        step_begin(POLL);
        pair.poll();
        step_end();
        if (pair.sink.seen != before + sizeof pair.word) abort();
        step_begin(IDLE_POLL);
        pair.poll();
        step_end();
      }
      step_freeze_clock(false);
    });
    return report;
  }
};

TEST_F(shm_cost, small_message__no_locked_instruction_and_no_system_call) {
  const step_report& report = step_messages();
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 3u * ROUNDS);
  const char* names[] = {"post", "poll with a message", "poll without"};
  for (int id : {POST, POLL, IDLE_POLL}) {
    std::vector<std::uint64_t> instructions;
    std::vector<std::uint64_t> lines;
    for (const step_section& s : report.sections) {
      if (s.id != id) continue;
      instructions.push_back(s.instructions);
      lines.push_back(s.lines.size());
      EXPECT_EQ(s.locked, 0u) << names[id] << ": " << testing::PrintToString(s.expensive);
      EXPECT_EQ(s.system_calls, 0u) << names[id] << ": " << testing::PrintToString(s.expensive);
    }
    std::printf("%s: %llu instructions (most %llu), %llu lines\n", names[id],
                static_cast<unsigned long long>(median(instructions)),
                static_cast<unsigned long long>(
                    *std::max_element(instructions.begin(), instructions.end())),
                static_cast<unsigned long long>(median(lines)));
  }
}

// The line that the sender writes and the receiver reads is the message's own; any other common
// line would be a second transfer on the critical path.
TEST_F(shm_cost, small_message__one_cache_line_travels) {
  const step_report& report = step_messages();
  ASSERT_EQ(report.failure, "");
  std::vector<std::uint64_t> common;
  for (std::size_t i = 0; i + 1 < report.sections.size(); i += 3) {
    const auto& post = report.sections[i].shared_lines;
    const auto& poll = report.sections[i + 1].shared_lines;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> both;
    std::set_intersection(post.begin(), post.end(), poll.begin(), poll.end(),
                          std::back_inserter(both));
    ASSERT_GE(both.size(), 1u) << "the message itself was not seen: the lines are not understood";
    common.push_back(both.size());
  }
  EXPECT_EQ(median(common), 1u);
  // Once in a while a lap is published or a cell returned; that is off the path.
  const auto more =
      std::count_if(common.begin(), common.end(), [](std::uint64_t n) { return n > 1; });
  EXPECT_LE(more, ROUNDS / 8);
}

TEST(shm_heap, small_message__no_heap_call) {
  if (!has_alloc_counter()) GTEST_SKIP() << ALLOC_COUNTER_MISSING;
  warm_pair pair;
  const alloc_counter counter;
  for (int i = 0; i < 10000; ++i) {
    while (is_retry(pair.send())) pair.poll();
    pair.poll();
  }
  EXPECT_EQ(counter.calls(), 0u);
}

}  // namespace
}  // namespace lci::test
