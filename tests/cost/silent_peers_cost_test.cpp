// What does a poll cost that finds nothing, per peer that has been silent for long? Counted with
// all ranks in one process: instructions, cache lines, and how evenly these lines are spread over
// the sets of a first-level cache. Threads: the test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "backends/shm/inbox.hpp"
#include "backends/shm/layout.hpp"
#include "tests/contract/group.hpp"
#include "tests/cost/net_pair.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

constexpr std::size_t SETS = 64;  // of 64-byte lines: what the bits below a page's size select

// Ranks that have each sent rank 0 a message, and nothing since.
struct silent_ranks {
  explicit silent_ranks(int peers)
      : ranks(peers + 1, 1, [](int, const net::fabric_config& c) { return open_named("shm", c); }) {
    for (int i = 1; i <= peers; ++i) {
      bool is_sent = false;
      const std::size_t before = sink.seen;
      for (int tries = 0; tries < 1000000 && sink.seen == before; ++tries) {
        is_sent = is_sent || send(i) == errorcode_t::done;
        poll();
        ranks.at(i).devices[0]->poll(sink, 32);
      }
    }
    constexpr int LOOKS = shm::inbox::SILENT_AFTER + 2;
    for (int i = 0; i < LOOKS * static_cast<int>(shm::inbox::MOST_POLLS_TO_LOOK); ++i) poll();
  }
  errorcode_t send(int from) {
    return ranks.at(from).to().send_inline(0, 5, nullptr, 0, &word, sizeof word);
  }
  std::size_t poll() { return ranks.at(0).devices[0]->poll(sink, 32); }

  group ranks;
  null_sink sink;
  std::uint64_t word = 1;
};

struct idle_cost {
  std::uint64_t instructions = 0, lines = 0;
  std::size_t crowd = 0;  // lines of other processes in the fullest set
};

idle_cost cost_of(int peers) {
  const step_report report = count_steps([peers] {
    silent_ranks all(peers);
    if (!step_freeze_clock()) abort();
    for (int i = 0; i < 9; ++i) {
      step_begin(0);
      all.poll();
      step_end();
    }
  });
  EXPECT_EQ(report.failure, "");
  std::vector<std::uint64_t> instructions, lines;
  idle_cost out;
  for (const step_section& s : report.sections) {
    EXPECT_EQ(s.locked, 0u);
    instructions.push_back(s.instructions);
    lines.push_back(s.lines.size());
    std::array<std::size_t, SETS> in_set{};
    for (const auto& [file, offset] : s.shared_lines) ++in_set[offset / 64 % SETS];
    out.crowd = std::max(out.crowd, *std::max_element(in_set.begin(), in_set.end()));
  }
  out.instructions = median(instructions);
  out.lines = median(lines);
  return out;
}

}  // namespace

TEST(silent_peers, idle_poll__costs_four_instructions_and_a_line_for_each) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  idle_cost few;
  for (const int peers : {16, 64, 128}) {
    const idle_cost cost = cost_of(peers);
    std::printf("%d silent peers: %llu instructions, %llu lines, %zu in the fullest set\n", peers,
                static_cast<unsigned long long>(cost.instructions),
                static_cast<unsigned long long>(cost.lines), cost.crowd);
    if (peers == 16) {
      few = cost;
      continue;
    }
    const auto more = static_cast<std::uint64_t>(peers - 16);
    EXPECT_LE(cost.instructions - few.instructions, 4 * more);
    EXPECT_LE(cost.lines - few.lines, more + more / 8 + 4) << "its header, an eighth of a list";
    // Eight ways of 32 sets, since headers are in every second line.
    EXPECT_LE(cost.crowd, static_cast<std::size_t>(peers) / 32 * 2 + 2);
  }
}

TEST(silent_peers, first_message__is_presented_by_the_next_poll) {
  silent_ranks all(16);
  ASSERT_EQ(all.poll(), 0u);
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 16; ++i) {
      ASSERT_EQ(all.send(i), errorcode_t::done);
      const std::size_t before = all.sink.seen;
      all.poll();
      EXPECT_EQ(all.sink.seen, before + sizeof all.word) << "of rank " << i;
    }
  }
}

// The model beyond what one process can hold: ranks of a host, with any distance between them.
TEST(silent_peers, first_slot__spreads_512_ranks_over_the_sets) {
  for (const int peers : {16, 64, 256, 512}) {
    for (const int distance : {1, 2, 3, 4, 8, 16, 32, 48, 64, 96, 128}) {
      std::array<int, SETS> in_set{};
      for (int i = 0; i < peers; ++i) {
        const std::size_t at = shm::first_slot_of(i * distance, 0) * sizeof(shm::slot);
        ++in_set[at / 64 % SETS];
      }
      const int most = *std::max_element(in_set.begin(), in_set.end());
      EXPECT_LE(most, peers / 32 * 3 / 2 + 3) << peers << " ranks, each " << distance << "th";
    }
  }
}

}  // namespace lci::test
