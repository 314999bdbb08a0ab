#include "lci/boot/value_store.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <random>
#include <utility>

#include "lci/boot/bootstrap.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::boot {
namespace {

TEST(value_store, find__what_was_never_set) {
  value_store store(3);
  EXPECT_FALSE(store.find(0, "k").has_value());
  store.set(1, "k", "v");
  EXPECT_FALSE(store.find(0, "k").has_value());
  EXPECT_FALSE(store.find(1, "other").has_value());
  EXPECT_EQ(store.find(1, "k"), "v");
}

TEST(value_store, set__any_bytes_of_any_size) {
  value_store store(2);
  const std::string zeros(5, '\0'), largest(MAX_VALUE, 'x');
  store.set(0, "zeros", zeros);
  store.set(0, "empty", "");
  store.set(1, "largest", largest);
  store.set(1, std::string(MAX_KEY, 'k'), "v");
  EXPECT_EQ(store.find(0, "zeros"), zeros);
  EXPECT_EQ(store.find(0, "empty"), "");
  EXPECT_EQ(store.find(1, "largest"), largest);
  EXPECT_EQ(store.find(1, std::string(MAX_KEY, 'k')), "v");
}

// Against a map, with values that grow, shrink and are set again.
TEST(value_store, set__in_any_order) {
  constexpr int RANKS = 20, KEYS = 6;
  std::mt19937 random(7);
  value_store store(RANKS);
  std::map<std::pair<int, std::string>, std::string> expected;
  for (int i = 0; i < 5000; ++i) {
    const int rank = static_cast<int>(random() % RANKS);
    const std::string key = "key" + std::to_string(random() % KEYS);
    const std::size_t size = random() % 50 == 0 ? random() % MAX_VALUE : random() % 40;
    const std::string value(size, static_cast<char>(random()));
    store.set(rank, key, value);
    expected[{rank, key}] = value;
  }
  for (int rank = 0; rank < RANKS; ++rank)
    for (int k = 0; k < KEYS; ++k) {
      const std::string key = "key" + std::to_string(k);
      const auto found = expected.find({rank, key});
      const auto kept = store.find(rank, key);
      ASSERT_EQ(kept.has_value(), found != expected.end());
      if (kept.has_value()) {
        ASSERT_EQ(*kept, found->second) << rank << " " << key;
      }
    }
}

std::size_t heap_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

// Lists of device numbers are put again at each device.
TEST(value_store, set__again_and_again_needs_no_more_memory) {
  if (test::IS_SANITIZED) GTEST_SKIP() << "sanitizers have a heap of their own";
  value_store store(1000);
  const auto round = [&](int i) {
    for (int rank = 0; rank < 1000; ++rank)
      store.set(rank, i % 2 == 0 ? "even" : "odd",
                std::string(static_cast<std::size_t>(60 + i % 40), 'v'));
  };
  for (int i = 0; i < 100; ++i) round(i);
  const std::size_t before = heap_bytes();
  for (int i = 0; i < 1000; ++i) round(i);
  EXPECT_EQ(heap_bytes(), before);
}

// What the first round of a job puts: a network's address is 110 bytes. A map of maps took 390 for
// each rank.
TEST(value_store, set__memory_of_a_large_job) {
  if (test::IS_SANITIZED) GTEST_SKIP() << "sanitizers have a heap of their own";
  constexpr int RANKS = 4096;
  const std::size_t before = heap_bytes();
  value_store store(RANKS);
  for (int rank = 0; rank < RANKS; ++rank) store.set(rank, "address.0", std::string(110, 'a'));
  const double each = static_cast<double>(heap_bytes() - before) / RANKS;
  RecordProperty("bytes_a_rank", static_cast<int>(each));
  EXPECT_LT(each, 110 + 50);
}

}  // namespace
}  // namespace lci::boot
