// Three threads take a biased lock: one at a time has it and finds what the last one left. Tried
// are all orders of their steps with one switch of threads that nothing asks for, and random ones,
// with every value that a load may see. The checker is shown to notice when one of the edges that
// this rests on is not there.
#include "tests/interleavings/checker.hpp"
#include "tests/interleavings/form.hpp"
// The checker's words first.
#include "lci/base/biased_lock.cpp"
#include "tests/interleavings/thread_records.hpp"

namespace lci::test {
namespace {

constexpr unsigned THREADS = 3;

// Each thread tries `turns` times. streak: of the lock.
template <unsigned turns, unsigned streak>
struct three_threads : rl::test_suite<three_threads<turns, streak>, THREADS> {
  base::biased_lock lock{streak};
  one_at_a_time<THREADS> inside;

  void before() { inside.begin(); }
  void thread(unsigned) {
    resume_thread();
    for (unsigned i = 0; i < turns; ++i) {
      if (!lock.try_lock()) continue;
      inside.add();
      lock.unlock();
    }
  }
  void after() { inside.end(); }
};

constexpr unsigned SWITCHES = 1;  // with two it is minutes, and finds no more
using one_turn = three_threads<1, 0>;

TEST(biased_lock_interleavings, one_turn_each_in_every_order_of_few_switches) {
  const verdict v = check<one_turn>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 1'000u) << "few orders were tried";
}

// Long enough to go both ways, in some of the orders.
TEST(biased_lock_interleavings, some_turns_each_in_random_orders) {
  const verdict v = check<three_threads<4, 1>>(rl::random_scheduler_type, 0, 40'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

#ifdef LCI_CHECK_LOCKED_FORM
// In the plain form the barrier of whoever takes the lock away stands for some of these.
class without_edge : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(
    edges, without_edge,
    testing::Values(
        // biased.mode, as it was: a third thread had lock_ before the one that made it shared.
        weakening{"is_shared", std::memory_order_acquire},
        weakening{"try_lock_slow", std::memory_order_release},
        weakening{"try_lock", std::memory_order_acquire},
        weakening{"unlock", std::memory_order_release},
        weakening{"leave_brief", std::memory_order_release},
        weakening{"holds", std::memory_order_seq_cst}));

TEST_P(without_edge, is_found) {
  const verdict v = check<one_turn>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_data_race) << GetParam().function;
}
#endif

}  // namespace
}  // namespace lci::test
