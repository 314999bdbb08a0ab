// At most one thread is inside, owners come back cheaply, idle ones are replaced.
#include "lci/base/owned.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "tests/support/in_thread.hpp"

namespace lci::base {
namespace {

using test::in_thread;

// Every case runs with the plain and with the locked announcement.
class owned_forms : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { force_locked_fence_for_test(GetParam()); }
  void TearDown() override { force_locked_fence_for_test(false); }
};
INSTANTIATE_TEST_SUITE_P(forms, owned_forms, testing::Values(false, true),
                         [](const auto& form) { return form.param ? "locked" : "plain"; });

TEST_P(owned_forms, enter__first_thread_becomes_owner) {
  owned it;
  EXPECT_EQ(it.owner(), detail::NO_THREAD_ID);
  ASSERT_TRUE(it.enter());
  EXPECT_EQ(it.owner(), thread_id());
  it.leave();
  EXPECT_TRUE(it.enter());
  it.leave();
}

TEST_P(owned_forms, enter__nested_visits_need_as_many_leaves) {
  owned it;
  ASSERT_TRUE(it.enter());
  ASSERT_TRUE(it.enter());
  it.leave();
  in_thread([&] { EXPECT_FALSE(it.seize(0)) << "the outer visit is still on"; });
  it.leave();
  in_thread([&] { EXPECT_TRUE(it.seize(0)); });
}

TEST_P(owned_forms, enter__too_deep_nesting_is_refused_not_overrun) {
  owned it;
  std::uint32_t depth = 0;
  while (it.enter()) ++depth;
  EXPECT_EQ(depth, detail::thread_record::MAX_INSIDE);
  owned other;
  EXPECT_FALSE(other.enter());
  while (depth-- > 0) it.leave();
  EXPECT_TRUE(other.enter());
  other.leave();
}

TEST_P(owned_forms, enter__another_thread_waits_for_idleness) {
  owned it;
  ASSERT_TRUE(it.enter());
  it.leave();
  std::uint64_t first = 0, got = 0;
  in_thread([&] {
    first = cpu_ticks();
    EXPECT_FALSE(it.enter()) << "the first look only starts the clock";
    while (!it.enter()) cpu_relax();
    got = cpu_ticks();
    it.leave();
  });
  EXPECT_GE(got - first, ticks_per_ms() * owned::IDLE_US / 1000 * 9 / 10);
  EXPECT_NE(it.owner(), thread_id());
}

TEST_P(owned_forms, enter__owner_inside_is_never_replaced) {
  owned it;
  ASSERT_TRUE(it.enter());
  in_thread([&] {
    const std::uint64_t until = cpu_ticks() + ticks_per_ms();
    while (cpu_ticks() < until) ASSERT_FALSE(it.enter());
  });
  EXPECT_EQ(it.owner(), thread_id());
  EXPECT_TRUE(it.enter()) << "nested, after failed attempts to replace us";
  it.leave();
  it.leave();
}

TEST_P(owned_forms, leave__visits_of_two_things_may_end_in_any_order) {
  owned a, b;
  ASSERT_TRUE(a.enter());
  ASSERT_TRUE(b.enter());
  a.leave();
  in_thread([&] {
    EXPECT_TRUE(a.seize(0));
    EXPECT_FALSE(b.seize(0));
  });
  b.leave();
  in_thread([&] { EXPECT_TRUE(b.seize(0)); });
}

TEST_P(owned_forms, seize__takes_an_owner_that_is_not_idle) {
  owned it;
  ASSERT_TRUE(it.enter());
  it.leave();
  in_thread([&] {
    EXPECT_TRUE(it.seize());
    EXPECT_EQ(it.owner(), thread_id());
    EXPECT_TRUE(it.enter());
    it.leave();
    EXPECT_TRUE(it.seize()) << "of what is ours already";
  });
}

TEST_P(owned_forms, seize__refused_from_inside) {
  owned it;
  const owned_guard guard(it);
  EXPECT_FALSE(it.seize());
}

TEST_P(owned_forms, seize__waits_for_the_owner_to_leave) {
  owned it;
  std::atomic<bool> inside{false}, done{false};
  std::thread owner([&] {
    ASSERT_TRUE(it.enter());
    inside.store(true, std::memory_order_release);
    while (it.owner() == thread_id()) cpu_relax();  // until the taker has withdrawn it
    done.store(true, std::memory_order_release);
    it.leave();
  });
  while (!inside.load(std::memory_order_acquire)) cpu_relax();
  EXPECT_TRUE(it.seize(10'000'000));
  EXPECT_TRUE(done.load(std::memory_order_acquire));
  owner.join();
}

TEST_P(owned_forms, disown__next_thread_enters_at_once) {
  owned it;
  ASSERT_TRUE(it.enter());
  it.disown();
  EXPECT_EQ(it.owner(), thread_id()) << "not while inside";
  it.leave();
  it.disown();
  EXPECT_EQ(it.owner(), detail::NO_THREAD_ID);
  in_thread([&] {
    EXPECT_TRUE(it.enter());
    it.leave();
  });
}

TEST_P(owned_forms, disown__by_a_stranger_changes_nothing) {
  owned it;
  ASSERT_TRUE(it.enter());
  it.leave();
  in_thread([&] { it.disown(); });
  EXPECT_EQ(it.owner(), thread_id());
}

TEST_P(owned_forms, exit__the_next_holder_of_the_number_is_owner) {
  owned it;
  in_thread([&] {
    ASSERT_TRUE(it.enter());
    it.leave();
  });
  in_thread([&] {
    EXPECT_TRUE(it.enter());
    it.leave();
  });
}

TEST_P(owned_forms, exit__a_thread_that_ended_inside_does_not_block_it) {
  owned it;
  in_thread([&] { ASSERT_TRUE(it.enter()); });
  EXPECT_TRUE(it.seize(0));
}

TEST_P(owned_forms, enter__threads_beyond_the_ceiling_take_part) {
  owned it;
  constexpr int count = MAX_THREADS + 3;
  std::barrier all_here(count);
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      const bool overflow = thread_id() == OVERFLOW_THREAD;
      all_here.arrive_and_wait();
      if (!overflow) return;
      while (!it.enter()) std::this_thread::yield();
      entered.fetch_add(1, std::memory_order_relaxed);
      it.leave();
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_GE(entered.load(), 3);
}

TEST_P(owned_forms, enter_brief__like_a_visit_for_everybody_else) {
  owned it;
  ASSERT_TRUE(it.enter_brief());
  EXPECT_EQ(it.owner(), thread_id());
  in_thread([&] { EXPECT_FALSE(it.seize(0)); });
  owned other;
  ASSERT_TRUE(other.enter()) << "other visits may begin inside";
  other.leave();
  it.leave_brief();
  in_thread([&] {
    EXPECT_TRUE(it.seize(0));
    EXPECT_TRUE(it.enter_brief());
    it.leave_brief();
  });
  EXPECT_TRUE(it.seize(0)) << "the other thread has left, too";
}

TEST_P(owned_forms, enter_brief__gets_in_once_the_owner_gave_up) {
  owned it;
  ASSERT_TRUE(it.enter_brief());
  it.disown();
  EXPECT_EQ(it.owner(), thread_id()) << "not while inside";
  it.leave_brief();
  it.disown();
  in_thread([&] {
    EXPECT_TRUE(it.enter_brief());
    it.leave_brief();
  });
}

TEST_P(owned_forms, enter_brief__does_not_keep_others_out_when_over) {
  owned it;
  ASSERT_TRUE(it.enter_brief());
  it.leave_brief();
  in_thread([&] {
    while (!it.enter()) cpu_relax();
    it.leave();
  });
  while (!it.enter_brief()) cpu_relax();
  it.leave_brief();
}

TEST_P(owned_forms, look_in__for_the_owner_alone_and_counts_as_activity) {
  owned it;
  thread_id();
  EXPECT_FALSE(it.look_in(detail::thread_record_tls)) << "nobody owns it yet";
  ASSERT_TRUE(it.enter());
  it.leave();
  in_thread([&] { EXPECT_FALSE(it.enter()); });  // sees when the owner was there
  ASSERT_TRUE(it.look_in(detail::thread_record_tls));
  in_thread([&] { EXPECT_FALSE(it.seize(0)) << "the owner is inside"; });
  it.leave_brief(detail::thread_record_tls);
  const std::uint64_t begin = cpu_ticks();
  while (cpu_ticks() - begin < ticks_per_ms()) {
  }
  in_thread([&] { EXPECT_FALSE(it.enter()) << "the owner has been there since"; });
  in_thread([&] { EXPECT_TRUE(it.seize(0)); });
}

TEST_P(owned_forms, stay__a_look_becomes_a_visit) {
  owned it, other;
  ASSERT_TRUE(it.enter());
  it.leave();
  ASSERT_TRUE(other.enter_brief());
  other.leave_brief();
  detail::thread_record* const me = detail::thread_record_tls;
  ASSERT_TRUE(it.look_in(me));
  ASSERT_TRUE(it.stay(me));
  ASSERT_TRUE(other.enter_brief());  // takes the place of the look
  in_thread([&] { EXPECT_FALSE(it.seize(0)) << "the visit is still on"; });
  other.leave_brief();
  ASSERT_TRUE(it.look_in(me)) << "one inside the other";
  it.leave_brief(me);
  in_thread([&] { EXPECT_FALSE(it.seize(0)) << "the visit is still on"; });
  it.leave();
  in_thread([&] { EXPECT_TRUE(it.seize(0)); });
}

TEST_P(owned_forms, stay__too_deep_nesting_is_refused_and_the_look_is_over) {
  owned it, deep;
  ASSERT_TRUE(it.enter());
  it.leave();
  std::uint32_t depth = 0;
  while (deep.enter()) ++depth;
  ASSERT_TRUE(it.look_in(detail::thread_record_tls));
  EXPECT_FALSE(it.stay(detail::thread_record_tls));
  in_thread([&] { EXPECT_TRUE(it.seize(0)); });
  while (depth-- > 0) deep.leave();
}

TEST_P(owned_forms, exit__a_thread_that_ended_in_a_brief_visit_does_not_block_it) {
  owned it;
  in_thread([&] { ASSERT_TRUE(it.enter_brief()); });
  EXPECT_TRUE(it.seize(0));
}

// The test that the whole construction is for: all kinds of entering at once, plain data inside.
TEST_P(owned_forms, stress__never_two_inside) {
  owned it;
  constexpr int threads_count = 3;
  constexpr int visits = LCI_TSAN ? 100000 : 1500000;
  std::barrier start(threads_count);
  std::atomic<int> inside{0};
  std::atomic<int> violations{0};
  std::uint64_t plain = 0;  // torn increments show too
  std::vector<std::uint64_t> mine(threads_count);
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < visits; ++i) {
        if (i % 64 == 17 * t) it.seize(0);
        if (i % 1024 == 0) std::this_thread::yield();
        if (!it.enter()) continue;
        if (inside.fetch_add(1, std::memory_order_relaxed) != 0) {
          violations.fetch_add(1, std::memory_order_relaxed);
        }
        ++plain;
        ++mine[t];
        const owned_guard nested(it);
        inside.fetch_sub(1, std::memory_order_relaxed);
        it.leave();
        if (i % 256 == 99) it.disown();
      }
    });
  }
  for (auto& t : threads) t.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t n : mine) sum += n;
  EXPECT_EQ(violations.load(), 0);
  EXPECT_EQ(plain, sum);
  EXPECT_GT(sum, 0u);
}

// The moment that the asymmetric fence is about, and little else: without the fence this fails
// almost every time where two threads really run at once.
TEST_P(owned_forms, stress__taker_against_a_busy_owner) {
  owned it;
  // By time, not by number: with more threads than cores each take may cost a time slice.
  const std::uint64_t until = cpu_ticks() + 300 * ticks_per_ms();
  std::atomic<int> holder{0};
  std::atomic<int> violations{0};
  std::atomic<bool> stop{false};
  const auto visit = [&](int me) {
    if (holder.load(std::memory_order_relaxed) != 0) {
      violations.fetch_add(1, std::memory_order_relaxed);
    }
    holder.store(me, std::memory_order_relaxed);
    for (int i = 0; i < 8; ++i) {
      if (holder.load(std::memory_order_relaxed) != me) {
        violations.fetch_add(1, std::memory_order_relaxed);
      }
    }
    holder.store(0, std::memory_order_relaxed);
  };
  std::thread owner([&] {
    for (unsigned i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      const bool brief = i % 2 == 0;
      if (!(brief ? it.enter_brief() : it.enter())) continue;
      visit(1);
      brief ? it.leave_brief() : it.leave();
    }
  });
  while (cpu_ticks() < until) {
    if (!it.seize(20) || !it.enter()) continue;
    visit(2);
    it.leave();
    it.disown();
    while (it.owner() == detail::NO_THREAD_ID) cpu_relax();
  }
  stop.store(true, std::memory_order_relaxed);
  owner.join();
  EXPECT_EQ(violations.load(), 0);
}

TEST(owned__fence, forced_off_and_on_again) {
  const bool normal = has_asymmetric_fence();
  force_locked_fence_for_test(true);
  EXPECT_FALSE(has_asymmetric_fence());
  force_locked_fence_for_test(false);
  EXPECT_EQ(has_asymmetric_fence(), normal);
}

}  // namespace
}  // namespace lci::base
