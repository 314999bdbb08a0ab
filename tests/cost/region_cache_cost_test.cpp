// What does it cost to find a registration again? In a list of many, by a thread that uses sixteen.
#include <gtest/gtest.h>

#include "lci/mem/region_cache.hpp"
#include "tests/support/step_counter.hpp"

namespace lci::test {
namespace {

constexpr std::size_t LIVE = 100'000;
constexpr std::size_t HOT = 16;
enum section_id { ACQUIRE, RELEASE };

struct free_network final : mem::cache_registrar {
  answer register_range(const mem::cache_range&) override {
    answer out;
    out.handle = ++made;
    return out;
  }
  void deregister_range(std::uint64_t) noexcept override {}
  std::uint64_t made = 0;
};
struct no_news final : mem::unmap_source {
  std::string start(mem::unmap_listener& to) override {
    listener = &to;
    return "";
  }
  void stop(mem::unmap_listener&) noexcept override {}
  mem::unmap_listener* listener = nullptr;
};

mem::cache_range range_of(std::size_t number) {
  const std::uintptr_t begin = (std::uintptr_t{1} << 40) + number * 0x5000;
  return {begin + 64, begin + 0x3000, mem::mem_kind::host, 0};
}

TEST(region_cache_cost, hit__no_locked_instruction_and_no_system_call) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  const step_report report = count_steps([] {
    free_network network;
    no_news news;
    mem::region_cache cache(network, {}, &news);
    mem::region_cache::failure why;
    for (std::size_t i = 0; i < LIVE; ++i) cache.release(*cache.acquire(range_of(i), why));
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < HOT; ++i) {
        const mem::cache_range want = range_of(i * (LIVE / HOT));
        if (round == 2) step_begin(ACQUIRE);
        mem::cache_entry* const e = cache.acquire(want, why);
        if (round == 2) step_end();
        if (e == nullptr) abort();
        if (round == 2) step_begin(RELEASE);
        cache.release(*e);
        if (round == 2) step_end();
      }
    }
    if (network.made != LIVE) abort();
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 2 * HOT);
  std::uint64_t most[2] = {};
  for (const step_section& s : report.sections) {
    EXPECT_EQ(s.locked, 0u) << testing::PrintToString(s.expensive);
    EXPECT_EQ(s.system_calls, 0u) << testing::PrintToString(s.expensive);
    most[s.id] = std::max(most[s.id], s.instructions);
  }
  std::printf("hit: at most %llu instructions to find it, %llu to let go\n",
              static_cast<unsigned long long>(most[ACQUIRE]),
              static_cast<unsigned long long>(most[RELEASE]));
  // 64 where the compiler sees a floor at a time, 102 in builds of whole floors at once.
  EXPECT_LE(most[ACQUIRE], 110u);
  EXPECT_LE(most[RELEASE], 40u);
}

// No test can wait for the store that a missing barrier would let pass; the barrier can be counted.
TEST(region_cache_cost, kill__is_followed_by_one_membarrier) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  const step_report report = count_steps([] {
    free_network network;
    no_news news;
    mem::region_cache cache(network, {}, &news);
    mem::region_cache::failure why;
    if (!base::has_asymmetric_fence()) abort();
    const auto unmap_and_look = [&] {
      cache.release(*cache.acquire(range_of(0), why));
      step_begin(ACQUIRE);
      news.listener->on_unmap(range_of(0).begin, 1);
      if (cache.count().live != 0) abort();
      step_end();
    };
    for (int i = 0; i < 3; ++i) unmap_and_look();
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 3u);
  EXPECT_EQ(report.sections[2].system_calls, 1u)
      << testing::PrintToString(report.sections[2].expensive);
}

// The counter sees the locked form, so it would see one.
TEST(region_cache_cost, hit__locked_form_is_counted) {
  if (const std::string why = step_counter_missing(); !why.empty()) GTEST_SKIP() << why;
  const step_report report = count_steps([] {
    free_network network;
    no_news news;
    base::force_locked_fence_for_test(true);
    mem::region_cache cache(network, {}, &news);
    mem::region_cache::failure why;
    cache.release(*cache.acquire(range_of(0), why));
    step_begin(ACQUIRE);
    mem::cache_entry* const e = cache.acquire(range_of(0), why);
    step_end();
    cache.release(*e);
  });
  ASSERT_EQ(report.failure, "");
  ASSERT_EQ(report.sections.size(), 1u);
  EXPECT_EQ(report.sections[0].locked, 1u);
}

}  // namespace
}  // namespace lci::test
