#include "lci/wqe/progress.hpp"

#include <gtest/gtest.h>

#include "tests/unit/wqe/golden.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

TEST(progress, may_write__7_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("admission", 7)) {
    SCOPED_TRACE(v.at("id"));
    EXPECT_EQ(may_write(number(v.at("reserved_at")), v.at("num_bb"), number(v.at("done")),
                        v.at("wqe_cnt")),
              v.at("expect").at("may_write").get<bool>());
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(progress, collapsed__12_golden_vectors) {
  int compared = 0;
  for (const json& v : vectors("collapsed", 12)) {
    SCOPED_TRACE(v.at("id"));
    EXPECT_EQ(
        collapsed_progress(number(v.at("done")), number(v.at("posted")),
                           static_cast<std::uint16_t>(number(v.at("wqe_counter"))), v.at("num_bb")),
        number(v.at("expect").at("done")));
    ++compared;
  }
  EXPECT_EQ(compared, 12);
}

TEST(progress, widened__every_distance_across_the_wrap) {
  for (std::uint64_t from : {0ull, 1ull, 0xfffeull, 0xffffull, 0x10000ull, 0x12345fff0ull}) {
    for (std::uint64_t distance : {0u, 1u, 15u, 0x7fffu, 0xfffeu, 0xffffu}) {
      const std::uint64_t index = from + distance;
      EXPECT_EQ(widened(from, static_cast<std::uint16_t>(index)), index);
    }
    EXPECT_NE(widened(from, static_cast<std::uint16_t>(from)), from + 0x10000);
  }
}

// A ring that is full for the next request has one that asks for a completion, whatever the sizes.
TEST(progress, must_signal__a_full_ring_is_never_without_one) {
  random_numbers random(1, 2);
  int full = 0;
  for (std::uint32_t ring : {1u, 2u, 16u, 32u, 64u, 1024u}) {
    const std::uint32_t most = ring < MAX_BLOCKS ? ring : MAX_BLOCKS;
    for (int round = 0; round < 200; ++round) {
      std::uint64_t base = random.below(70000), done = base;
      int signaled = 0;
      std::uint32_t next = 0;
      for (;; base += next) {
        next = 1 + random.below(most);
        if (!may_write(base, next, done, ring)) break;
        signaled += must_signal(base, next, ring);
      }
      EXPECT_GT(signaled, 0) << "ring " << ring << " base " << base;
      ++full;
    }
  }
  EXPECT_EQ(full, 1200);
}

// The first that reaches each half, for every place in the ring.
TEST(progress, must_signal__is_whether_it_reaches_the_next_half) {
  for (std::uint64_t ring : {32u, 64u, 1024u}) {
    for (std::uint64_t turn : {std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{1} << 40}) {
      for (std::uint64_t at = 0; at < ring; ++at) {
        for (std::uint32_t blocks = 1; blocks <= MAX_BLOCKS; ++blocks) {
          const std::uint64_t base = turn + at;
          ASSERT_EQ(must_signal(base, blocks, static_cast<std::uint32_t>(ring)),
                    base / (ring / 2) != (base + blocks) / (ring / 2))
              << base << " " << blocks;
        }
      }
    }
  }
}

}  // namespace
