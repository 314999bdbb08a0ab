// A name finds its registration and nothing else, here and through a peer's mapping.
#include "lci/mem/region_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::mem {
namespace {

class region_table_test : public testing::Test {
 protected:
  region_name add(std::size_t size) { return table_.insert(bytes_, size); }

  arena arena_{std::size_t{64} << 20};
  region_table table_{arena_};
  std::byte bytes_[4096] = {};
};

using insert__names = region_table_test;
using find__range = region_table_test;
using erase__names = region_table_test;
using read_remote__mapping = region_table_test;
using region_table__threads = region_table_test;

TEST_F(insert__names, slots_from_1_and_generations_from_1) {
  const region_name a = add(100);
  const region_name b = add(100);
  EXPECT_EQ(a.slot, 1u);
  EXPECT_EQ(b.slot, 2u);
  EXPECT_EQ(a.generation, 1u);
  EXPECT_EQ(table_.live(), 2u);
}

TEST_F(insert__names, flags_and_the_place_of_a_record_do_not_mix) {
  const auto* const rows =
      reinterpret_cast<const region_table::row*>(arena_.at(table_.rows_offset()));
  for (const mem_kind kind : {mem_kind::host, mem_kind::device})
    for (const bool off_network : {false, true})
      for (const std::uint64_t record : {std::uint64_t{0}, std::uint64_t{64 * 77}}) {
        const region_name name = table_.insert({bytes_, 100, kind, {record, 5}, off_network});
        for (const auto& r : {table_.look_up(name), region_table::read_remote(rows, name)}) {
          ASSERT_TRUE(r);
          EXPECT_EQ(r->kind, kind);
          EXPECT_EQ(r->off_network, off_network);
          EXPECT_EQ(r->share.record, record);
        }
      }
}

TEST_F(insert__names, freed_slot_comes_back_first_with_another_generation) {
  const region_name a = add(100);
  const region_name b = add(100);
  add(100);
  ASSERT_TRUE(table_.erase(a));
  ASSERT_TRUE(table_.erase(b));
  const region_name c = add(50);
  EXPECT_EQ(c.slot, b.slot);
  EXPECT_NE(c.generation, b.generation);
  EXPECT_EQ(table_.find(b, 0, 1), nullptr) << "the late name finds nothing";
  EXPECT_EQ(table_.find(c, 0, 50), bytes_);
  EXPECT_EQ(add(1).slot, a.slot);
}

TEST_F(insert__names, null_address_with_a_size_is_refused_with_its_size) {
  try {
    table_.insert(nullptr, 77);
    FAIL();
  } catch (const argument_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("77"));
  }
  EXPECT_EQ(table_.live(), 0u);
}

TEST_F(insert__names, full_table_throws_and_recovers_after_an_erase) {
  if (test::HAS_THREAD_SANITIZER) GTEST_SKIP() << "a million regions of one thread";
  std::vector<region_name> names;
  for (std::uint32_t i = 1; i < region_table::MAX_REGIONS; ++i) names.push_back(add(i % 4096));
  EXPECT_THROW(add(1), argument_error);
  EXPECT_EQ(table_.live(), names.size());
  EXPECT_EQ(table_.look_up(names[5000])->size, 5001u % 4096);
  ASSERT_TRUE(table_.erase(names[1234]));
  EXPECT_EQ(add(1).slot, names[1234].slot);
}

TEST_F(find__range, inside_is_found_and_anything_beyond_is_not) {
  const region_name a = add(100);
  EXPECT_EQ(table_.find(a, 0, 100), bytes_);
  EXPECT_EQ(table_.find(a, 99, 1), bytes_ + 99);
  EXPECT_EQ(table_.find(a, 100, 0), bytes_ + 100) << "nothing at the very end is inside";
  EXPECT_EQ(table_.find(a, 0, 101), nullptr);
  EXPECT_EQ(table_.find(a, 100, 1), nullptr);
  EXPECT_EQ(table_.find(a, 101, 0), nullptr);
  EXPECT_EQ(table_.find(a, ~std::uint64_t{0}, 2), nullptr) << "the sum must not wrap";
  EXPECT_EQ(table_.find(a, 2, ~std::size_t{0}), nullptr);
}

TEST_F(find__range, forged_names_find_nothing) {
  const region_name a = add(100);
  EXPECT_EQ(table_.find({0, 0}, 0, 0), nullptr);
  EXPECT_EQ(table_.find({0, 1}, 0, 0), nullptr);
  EXPECT_EQ(table_.find({a.slot, 0}, 0, 0), nullptr);
  EXPECT_EQ(table_.find({a.slot, a.generation + 1}, 0, 0), nullptr);
  EXPECT_EQ(table_.find({a.slot + 1, 0}, 0, 0), nullptr) << "an entry never used";
  EXPECT_EQ(table_.find({5000, 1}, 0, 0), nullptr) << "a block never made";
  EXPECT_EQ(table_.find({region_table::MAX_REGIONS, 1}, 0, 0), nullptr);
  EXPECT_EQ(table_.find({~0u, ~0u}, 0, 0), nullptr);
}

TEST_F(erase__names, once_and_only_by_its_own_name) {
  const region_name a = add(100);
  EXPECT_FALSE(table_.erase({a.slot, a.generation + 1}));
  EXPECT_FALSE(table_.erase({a.slot, 0}));
  EXPECT_FALSE(table_.erase({0, 1}));
  EXPECT_FALSE(table_.erase({~0u, 1}));
  EXPECT_TRUE(table_.erase(a));
  EXPECT_FALSE(table_.erase(a));
  EXPECT_EQ(table_.find(a, 0, 1), nullptr);
  EXPECT_EQ(table_.live(), 0u);
}

TEST_F(read_remote__mapping, the_peer_sees_what_find_sees) {
  void* const view = mmap(nullptr, arena_.reserved(), PROT_READ, MAP_SHARED, arena_.fd(), 0);
  ASSERT_NE(view, MAP_FAILED);
  const auto* const rows = reinterpret_cast<const region_table::row*>(
      static_cast<std::byte*>(view) + table_.rows_offset());
  const region_name a = add(100);
  const auto found = region_table::read_remote(rows, a);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->address, bytes_);
  EXPECT_EQ(found->size, 100u);
  EXPECT_FALSE(region_table::read_remote(rows, {a.slot, a.generation + 1}));
  EXPECT_FALSE(region_table::read_remote(rows, {a.slot, 0}));
  EXPECT_FALSE(region_table::read_remote(rows, {0, 0}));
  EXPECT_FALSE(region_table::read_remote(rows, {region_table::MAX_REGIONS, 1}));
  table_.erase(a);
  EXPECT_FALSE(region_table::read_remote(rows, a));
  munmap(view, arena_.reserved());
}

// Each size occurs with one address only, so a mixture of two registrations would show.
TEST_F(region_table__threads, readers_never_see_a_mixture) {
  constexpr int rounds = 20000;
  std::atomic<std::uint32_t> last{1};
  std::atomic<bool> stop{false};
  const auto* const rows =
      reinterpret_cast<const region_table::row*>(arena_.at(table_.rows_offset()));
  std::atomic<int> mixtures{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const region_name name{1, last.load(std::memory_order_relaxed)};
      for (const auto& r : {table_.look_up(name), region_table::read_remote(rows, name)}) {
        if (r && r->address != bytes_ + r->size) mixtures.fetch_add(1, std::memory_order_relaxed);
      }
    }
  });
  for (int i = 0; i < rounds; ++i) {
    const std::size_t size = 1 + i % 4000;
    const region_name name = table_.insert(bytes_ + size, size);
    last.store(name.generation, std::memory_order_relaxed);
    ASSERT_EQ(name.slot, 1u);
    ASSERT_TRUE(table_.erase(name));
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(mixtures.load(), 0);
}

TEST_F(region_table__threads, names_given_at_once_are_distinct) {
  std::vector<std::vector<region_name>> got(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const region_name name = add(1 + t);
        if (i % 2 == 0)
          EXPECT_TRUE(table_.erase(name));
        else
          got[t].push_back(name);
      }
    });
  }
  for (auto& t : threads) t.join();
  std::set<std::uint32_t> slots;
  for (std::size_t t = 0; t < 4; ++t) {
    for (const region_name name : got[t]) {
      EXPECT_TRUE(slots.insert(name.slot).second);
      EXPECT_EQ(table_.look_up(name)->size, 1 + t);
    }
  }
  EXPECT_EQ(table_.live(), 4000u);
}

}  // namespace
}  // namespace lci::mem
