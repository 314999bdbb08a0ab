#include "lci/runtime/runtime_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <latch>
#include <thread>

namespace lci::runtime {
namespace {

// Runtimes that nobody looks into.
struct three_runtimes : testing::Test {
  runtime_impl_t& one(std::size_t i) { return *reinterpret_cast<runtime_impl_t*>(&memory[i]); }
  // Whether it is the oldest one; null: there is none.
  bool is_oldest(const runtime_impl_t* wanted) {
    const runtime_impl_t* found = nullptr;
    list.oldest([&](const runtime_impl_t& which) {
      found = &which;
      return true;
    });
    return found == wanted;
  }
  struct alignas(64) block {
    std::array<char, 64> bytes;
  };
  std::array<block, 3> memory{};
  runtime_list list;
};

}  // namespace

TEST_F(three_runtimes, oldest__is_the_one_that_was_listed_first) {
  EXPECT_TRUE(is_oldest(nullptr));
  for (std::size_t i = 0; i < 3; ++i) list.add(one(i));
  EXPECT_TRUE(is_oldest(&one(0)));
  list.remove(one(1));
  EXPECT_TRUE(is_oldest(&one(0)));
  list.remove(one(0));
  EXPECT_TRUE(is_oldest(&one(2)));
  list.remove(one(2));
  EXPECT_TRUE(is_oldest(nullptr));
}

TEST_F(three_runtimes, oldest__says_what_was_answered) {
  const auto answer = [&](bool is_mine) {
    return list.oldest([is_mine](runtime_impl_t&) { return is_mine; });
  };
  EXPECT_FALSE(answer(true));
  list.add(one(0));
  EXPECT_TRUE(answer(true));
  EXPECT_FALSE(answer(false));
}

TEST_F(three_runtimes, remove__waits_for_who_looks_at_the_oldest) {
  list.add(one(0));
  list.add(one(1));
  std::latch is_inside(1);
  std::atomic<bool> has_looked{false};
  std::thread reader([&] {
    list.oldest([&](runtime_impl_t&) {
      is_inside.count_down();
      // The other thread is in remove() by then, or has returned from it too early.
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      has_looked.store(true);
      return true;
    });
  });
  is_inside.wait();
  list.remove(one(0));
  EXPECT_TRUE(has_looked.load());
  reader.join();
  EXPECT_TRUE(is_oldest(&one(1)));
}

TEST_F(three_runtimes, leave_to_parent__the_child_has_none) {
  list.add(one(0));
  list.leave_to_parent();
  EXPECT_TRUE(is_oldest(nullptr));
}

}  // namespace lci::runtime
