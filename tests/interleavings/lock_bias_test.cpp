// Three threads use something that the first of them needs no lock for: one at a time is in it, and
// finds what the last one left, while the bias moves and when it is over. Tried are all orders of
// their steps with one switch of threads that nothing asks for, and random ones, with every value
// that a load may see. The checker is shown to notice when one of the edges that this rests on is
// not there.
#include "tests/interleavings/checker.hpp"
#include "tests/interleavings/form.hpp"
// The checker's words first.
#include "lci/base/lock_bias.cpp"
#include "tests/interleavings/thread_records.hpp"

namespace lci::test {
namespace {

constexpr unsigned THREADS = 3;

// Each thread is inside `turns` times; the middle one for longer.
template <unsigned turns, unsigned moves>
struct three_threads : rl::test_suite<three_threads<turns, moves>, THREADS> {
  base::lock_bias bias{moves};
  base::spinlock lock;
  one_at_a_time<THREADS> visits;

  void before() { visits.begin(); }
  void thread(unsigned i) {
    resume_thread();
    for (unsigned n = 0; n < turns; ++n) {
      if (i == 1) {
        const base::lock_bias::visit inside(bias);
        resume_thread();
        const base::lock_bias::visit once_more(bias);
        resume_thread();
        lock.lock();
        visits.add();
        lock.unlock();
      } else if (bias.enter_brief()) {
        resume_thread();
        visits.add();
        base::lock_bias::leave_brief();
      } else {
        lock.lock();
        visits.add();
        lock.unlock();
      }
    }
  }
  void after() {
    RL_ASSERT(visits.expected == THREADS * turns);
    visits.end();
  }
};

constexpr unsigned SWITCHES = 1;
using one_turn = three_threads<1, 0>;

TEST(lock_bias_interleavings, one_turn_each_in_every_order_of_few_switches) {
  const verdict v = check<one_turn>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 1'000u) << "few orders were tried";
}

TEST(lock_bias_interleavings, some_turns_each_in_random_orders) {
  const verdict v = check<three_threads<3, 2>>(rl::random_scheduler_type, 0, 40'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

#ifdef LCI_CHECK_LOCKED_FORM
// In the plain form the barrier of whoever moves the bias stands for some of these.
class without_edge : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(edges, without_edge,
                         testing::Values(weakening{"is_over", std::memory_order_acquire},
                                         weakening{"move", std::memory_order_release},
                                         weakening{"leave_brief", std::memory_order_release},
                                         weakening{"holds", std::memory_order_seq_cst}));

TEST_P(without_edge, is_found) {
  const verdict v = check<one_turn>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_data_race) << GetParam().function;
}
#endif

}  // namespace
}  // namespace lci::test
