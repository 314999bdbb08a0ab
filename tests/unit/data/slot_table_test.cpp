#include "lci/data/slot_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/alloc_counter.hpp"
#include "tests/support/seed.hpp"

using lci::data::slot_name;
using lci::data::slot_table;

namespace {

struct counted {
  explicit counted(int& alive, int v = 0) : alive_(alive), value(v) {
    if (v < 0) throw std::runtime_error("negative");
    ++alive_;
  }
  ~counted() { --alive_; }
  int& alive_;
  int value;
};

}  // namespace

TEST(slot_table, find__object_that_was_inserted) {
  slot_table<int> table;
  const auto in = table.insert(42);
  EXPECT_EQ(table.find(in.name), in.object);
  EXPECT_EQ(*in.object, 42);
  EXPECT_EQ(table.size(), 1u);
}

TEST(slot_table, find__stale_repeated_and_forged_names_find_nothing) {
  slot_table<int> table;
  const slot_name name = table.insert(1).name;
  EXPECT_EQ(table.find({}), nullptr);
  EXPECT_EQ(table.find({name.slot, name.generation + 1}), nullptr);
  EXPECT_EQ(table.find({name.slot, name.generation + 2}), nullptr);
  EXPECT_EQ(table.find({name.slot, name.generation - 2}), nullptr);
  EXPECT_EQ(table.find({name.slot + 1, name.generation}), nullptr);
  EXPECT_EQ(table.find({0xffffffffu, name.generation}), nullptr);
  EXPECT_EQ(table.find({0xfffffff0u, 1}), nullptr);
  EXPECT_TRUE(table.erase(name));
  EXPECT_EQ(table.find(name), nullptr);
}

TEST(slot_table, erase__second_time_is_refused) {
  slot_table<int> table;
  const slot_name name = table.insert(1).name;
  EXPECT_TRUE(table.erase(name));
  EXPECT_FALSE(table.erase(name));
  EXPECT_FALSE(table.erase({}));
  EXPECT_EQ(table.size(), 0u);
}

TEST(slot_table, insert__reused_slot_gets_a_new_name) {
  slot_table<int> table;
  const slot_name first = table.insert(1).name;
  table.erase(first);
  const auto second = table.insert(2);
  EXPECT_EQ(second.name.slot, first.slot);
  EXPECT_NE(second.name.generation, first.generation);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(*table.find(second.name), 2);
}

TEST(slot_table, insert__constructor_that_throws_leaves_the_slot_free) {
  int alive = 0;
  slot_table<counted> table;
  EXPECT_THROW(table.insert(alive, -1), std::runtime_error);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.insert(alive, 3).name.slot, 0u);
  EXPECT_EQ(alive, 1);
}

TEST(slot_table, destructor__destroys_what_is_left) {
  int alive = 0;
  {
    slot_table<counted> table;
    for (int i = 0; i < 100; ++i) table.insert(alive, i);
    EXPECT_EQ(alive, 100);
  }
  EXPECT_EQ(alive, 0);
}

TEST(slot_table, for_each_st__visits_exactly_the_living) {
  slot_table<int> table;
  std::vector<slot_name> names;
  for (int i = 0; i < 10; ++i) names.push_back(table.insert(i).name);
  table.erase(names[3]);
  int sum = 0;
  table.for_each_st([&](slot_name name, int& value) {
    EXPECT_EQ(name, names[static_cast<std::size_t>(value)]);
    sum += value;
  });
  EXPECT_EQ(sum, 45 - 3);
}

TEST(slot_table, names__travel_through_64_bits) {
  const slot_name name{0x12345678u, 0x9abcdef1u};
  EXPECT_EQ(slot_name::from_bits(name.to_bits()), name);
}

TEST(slot_table, insert__no_heap_after_warm_up) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  slot_table<int> table;
  std::vector<slot_name> names(200);
  const auto fill_and_empty = [&] {
    for (auto& name : names) name = table.insert(1).name;
    for (auto& name : names) table.erase(name);
  };
  fill_and_empty();
  const lci::test::alloc_counter heap;
  fill_and_empty();
  EXPECT_EQ(heap.calls(), 0u);
}

// Random operations against a map: every name ever given must behave as the map says.
TEST(slot_table, random__agrees_with_a_map) {
  auto random = lci::test::seeded(1);
  slot_table<int> table;
  std::map<std::uint64_t, int> model;
  std::vector<slot_name> all;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || all.empty()) {
      const slot_name name = table.insert(i).name;
      ASSERT_TRUE(model.emplace(name.to_bits(), i).second) << "a name was given twice";
      all.push_back(name);
    } else {
      const slot_name name = all[random() % all.size()];
      const bool known = model.erase(name.to_bits()) == 1;
      ASSERT_EQ(table.erase(name), known);
    }
    const slot_name probe = all[random() % all.size()];
    const auto it = model.find(probe.to_bits());
    int* const found = table.find(probe);
    ASSERT_EQ(found != nullptr, it != model.end());
    if (found != nullptr) {
      ASSERT_EQ(*found, it->second);
    }
  }
  EXPECT_EQ(table.size(), model.size());
}

TEST(slot_table, erase__exactly_one_of_many_threads_wins) {
  slot_table<int> table;
  constexpr int ROUNDS = 2000;
  std::vector<slot_name> names(ROUNDS);
  for (auto& name : names) name = table.insert(1).name;
  std::atomic<int> wins{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (const auto& name : names) wins += table.erase(name) ? 1 : 0;
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wins, ROUNDS);
  EXPECT_EQ(table.size(), 0u);
}

TEST(slot_table, insert_find_erase__threads_see_only_their_own_objects) {
  slot_table<std::uint64_t> table;
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::pair<slot_name, std::uint64_t>> mine;
      for (std::uint64_t i = 0; i < 5000; ++i) {
        const std::uint64_t value = t << 32 | i;
        mine.emplace_back(table.insert(value).name, value);
        if (mine.size() == 50) {
          for (auto& [name, v] : mine) {
            const std::uint64_t* found = table.find(name);
            if (found == nullptr || *found != v || !table.erase(name)) ++errors;
          }
          mine.clear();
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
}
