// One thread looks into what it owns and stays, in a way that others may take it meanwhile: at most
// one is inside, and it finds what the last one left. Tried are all orders of their steps with few
// switches of threads that nothing asks for, and random ones, with every value that a load may see.
// So are visits that end out of order. The checker is shown to notice a visit that is announced too
// late, and each missing edge.
#include "tests/interleavings/checker.hpp"
#include "tests/interleavings/form.hpp"
// The checker's words first.
#include "tests/interleavings/thread_records.hpp"

namespace lci::test {
namespace {

constexpr unsigned THREADS = 3;

bool stay(base::owned& what, base::detail::thread_record* me) { return what.stay(me); }

// As stay(), but the brief visit ends first.
bool stay_too_late(base::owned& what, base::detail::thread_record* me) {
  base::owned::leave_brief(me);
  const std::uint32_t depth = me->depth.load(std::memory_order_relaxed);
  me->inside[depth].store(&what, std::memory_order_relaxed);
  me->depth.store(depth + 1, std::memory_order_release);
  return true;
}

// The first thread owns and looks `turns` times, and stays each other time. Of the others one takes
// it without waiting for an owner that is inside, and one waits.
template <unsigned turns, bool (*to_stay)(base::owned&, base::detail::thread_record*)>
struct one_looks_and_two_take : rl::test_suite<one_looks_and_two_take<turns, to_stay>, THREADS> {
  base::owned it;
  one_at_a_time<THREADS> inside;

  void before() { inside.begin(); }
  void look(base::detail::thread_record* me, bool is_to_stay) {
    if (!it.look_in(me)) return;
    inside.add();
    if (!is_to_stay) return base::owned::leave_brief(me);
    if (!to_stay(it, me)) return;
    inside.add();
    // As a handler that polls again.
    if (it.look_in(me)) {
      inside.add();
      base::owned::leave_brief(me);
    }
    inside.add();
    it.leave(me);
  }
  void thread(unsigned i) {
    resume_thread();
    base::detail::thread_record* const me = &inside.of_threads[i];
    if (i == 0) {
      it.seize(0);
      for (unsigned n = 0; n < turns; ++n) look(me, n % 2 == 0);
    } else if (it.seize(i - 1) && it.enter_as_owner(me)) {
      inside.add();
      it.leave(me);
    }
  }
  void after() { inside.end(); }
};

constexpr unsigned SWITCHES = 2;

TEST(owned_interleavings, one_look_that_stays_in_every_order_of_few_switches) {
  const verdict v =
      check<one_looks_and_two_take<1, &stay>>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 1'000u) << "few orders were tried";
}

TEST(owned_interleavings, some_looks_in_random_orders) {
  const verdict v = check<one_looks_and_two_take<4, &stay>>(rl::random_scheduler_type, 0, 40'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

TEST(owned_interleavings, a_longer_visit_announced_behind_the_brief_one_is_found) {
  const verdict v = check<one_looks_and_two_take<1, &stay_too_late>>(
      rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_data_race);
}

// The first thread owns three and leaves them in another order than it entered them; the other one
// takes the one that moves to another place of the record meanwhile.
struct one_moves_and_one_takes : rl::test_suite<one_moves_and_one_takes, 2> {
  base::owned first, moved, next;
  one_at_a_time<2> inside;

  void before() { inside.begin(); }
  void visit(base::detail::thread_record* me) {
    if (!first.enter_as_owner(me)) return;
    const bool is_in = moved.enter_as_owner(me);
    if (is_in) inside.add();
    first.leave(me);
    if (!is_in) return;
    inside.add();
    if (next.enter_as_owner(me)) {
      inside.add();
      next.leave(me);
    }
    inside.add();
    moved.leave(me);
  }
  void thread(unsigned i) {
    resume_thread();
    base::detail::thread_record* const me = &inside.of_threads[i];
    if (i == 0) {
      for (base::owned* const one : {&first, &moved, &next}) one->seize(0);
      visit(me);
    } else if (moved.seize(1) && moved.enter_as_owner(me)) {
      inside.add();
      moved.leave(me);
    }
  }
  void after() { inside.end(); }
};

TEST(owned_interleavings, a_visit_that_moves_in_every_order_of_few_switches) {
  const verdict v = check<one_moves_and_one_takes>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 100u) << "few orders were tried";
}

TEST(owned_interleavings, a_visit_that_moves_in_random_orders) {
  const verdict v = check<one_moves_and_one_takes>(rl::random_scheduler_type, 0, 40'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

#ifdef LCI_CHECK_LOCKED_FORM
// In the plain form the barrier of the taker stands for some of these.
class without_edge : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(edges, without_edge,
                         testing::Values(weakening{"leave", std::memory_order_release},
                                         weakening{"leave_brief", std::memory_order_release},
                                         weakening{"announce_brief", std::memory_order_seq_cst},
                                         weakening{"holds", std::memory_order_seq_cst}));

TEST_P(without_edge, is_found) {
  const verdict v =
      check<one_looks_and_two_take<1, &stay>>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_data_race) << GetParam().function;
}

class without_edge_of_moves : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(edges, without_edge_of_moves,
                         testing::Values(weakening{"announce", std::memory_order_release},
                                         weakening{"holds", std::memory_order_acquire}));

TEST_P(without_edge_of_moves, is_found) {
  const verdict v = check<one_moves_and_one_takes>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_data_race) << GetParam().function;
}
#endif

}  // namespace
}  // namespace lci::test
