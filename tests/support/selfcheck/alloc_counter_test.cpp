#include "tests/support/alloc_counter.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace lci::test {
namespace {

class alloc_counters : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_alloc_counter()) GTEST_SKIP() << ALLOC_COUNTER_MISSING;
  }
};

// Keeps the compiler from removing a pair of new and delete.
template <class T>
T* opaque(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

TEST_F(alloc_counters, count__new_and_delete) {
  alloc_counter counter;
  delete opaque(new int(1));
  EXPECT_EQ(counter.allocations(), 1u);
  EXPECT_EQ(counter.frees(), 1u);
}

TEST_F(alloc_counters, count__every_way_to_the_heap) {
  alloc_counter counter;
  std::free(opaque(std::malloc(8)));
  std::free(opaque(std::calloc(2, 8)));
  std::free(opaque(std::realloc(opaque(std::malloc(8)), 80)));
  std::free(opaque(std::aligned_alloc(64, 128)));
  struct alignas(128) wide {
    char bytes[128];
  };
  delete opaque(new wide);
  void* p = nullptr;
  ASSERT_EQ(posix_memalign(&p, 64, 100), 0);
  std::free(opaque(p));
  EXPECT_EQ(counter.allocations(), 7u);
  EXPECT_EQ(counter.frees(), 6u);
}

TEST_F(alloc_counters, count__calls_made_inside_a_shared_library) {
  // Code of libstdc++ calls malloc from its own object file.
  std::string text(10, 'x');
  alloc_counter counter;
  text.reserve(1000);
  EXPECT_EQ(counter.allocations(), 1u);
}

TEST_F(alloc_counters, count__nothing_for_nothing_and_nothing_of_other_threads) {
  alloc_counter counter;
  std::free(nullptr);
  EXPECT_EQ(counter.calls(), 0u);
  // Making the thread allocates here; what it does itself is not ours.
  std::thread other;
  alloc_counter around;
  other = std::thread([] {
    for (int i = 0; i < 100; ++i) delete opaque(new int(i));
  });
  other.join();
  EXPECT_LT(around.calls(), 20u);
}

TEST_F(alloc_counters, fail_nth__the_nth_and_no_other) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    void* p[3];
    fail_nth_allocation failing(n);
    for (void*& one : p) one = opaque(std::malloc(8));
    for (std::uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(p[i] == nullptr, i + 1 == n);
      std::free(p[i]);
    }
    EXPECT_TRUE(failing.fired());
  }
}

TEST_F(alloc_counters, fail_nth__loop_until_the_scenario_succeeds) {
  // The pattern for fault injection: every allocation of the scenario fails once.
  int failures = 0;
  for (std::uint64_t n = 1;; ++n) {
    fail_nth_allocation failing(n);
    try {
      std::vector<std::unique_ptr<int>> three;
      three.reserve(3);
      for (int i = 0; i < 3; ++i) three.push_back(std::make_unique<int>(i));
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    if (!failing.fired()) break;
  }
  EXPECT_EQ(failures, 4);
}

}  // namespace
}  // namespace lci::test
