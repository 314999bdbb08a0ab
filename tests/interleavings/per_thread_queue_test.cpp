// Threads at one queue of parts: two that make the same part at once, and a taker that has another
// number. Every element comes out once, those of a producer in their order, and whole. Tried are
// all orders with a few switches of threads that nothing asks for, and random ones, with every
// value that a load may see. The checker is shown to notice when one of the edges that this rests
// on is not there.
#include "tests/interleavings/checker.hpp"
// The checker's words first. Its elements are not copied as bytes.
#define static_assert(...) static_assert(true)
#include "lci/data/per_thread_queue.hpp"

namespace lci::base::detail {

constinit thread_local std::uint32_t thread_id_tls = 0;
std::uint32_t assign_thread_id() noexcept { std::abort(); }  // each fiber has one

}  // namespace lci::base::detail

namespace lci::test {

// As few parts and cells as there can be, for each is a step.
constexpr std::uint32_t PARTS = 2;
using small_queue = data::per_thread_queue<unsigned, PARTS, 4>;

// Both producers push to the same part, where the consumer looks last.
void resume_thread() noexcept {
  constexpr std::uint32_t NUMBERS[] = {1, 1 + PARTS, 2};
  if (rl::is_ctx()) base::detail::thread_id_tls = NUMBERS[rl::thread_index() % 3];
}

namespace {

template <unsigned EACH>
struct two_at_one_part : rl::test_suite<two_at_one_part<EACH>, 3> {
  static constexpr unsigned PRODUCERS = 2, ALL = PRODUCERS * EACH;
  small_queue queue;
  rl::var<unsigned> content[ALL];  // what an element stands for
  bool is_pushed[ALL];
  unsigned taken[ALL];

  void before() {
    for (unsigned i = 0; i < ALL; ++i) {
      content[i]($) = 0;
      is_pushed[i] = false;
      taken[i] = 0;
    }
  }
  void thread(unsigned which) {
    resume_thread();
    which < PRODUCERS ? produce(which) : consume();
  }
  void produce(unsigned which) {
    for (unsigned i = which * EACH; i < (which + 1) * EACH; ++i) {
      content[i]($) = i + 1;
      resume_thread();
      queue.push(i);
      is_pushed[i] = true;
    }
  }
  void consume() {
    unsigned next[PRODUCERS] = {};
    for (unsigned looks = 0; looks < ALL; ++looks) {
      unsigned one = 0;
      if (!queue.try_pop(one)) continue;
      take(one);
      RL_ASSERT(one % EACH >= next[one / EACH]);
      next[one / EACH] = one % EACH + 1;
    }
  }
  void take(unsigned one) {
    RL_ASSERT(one < ALL);
    RL_ASSERT(content[one]($) == one + 1);
    resume_thread();
    RL_ASSERT(++taken[one] == 1);
  }
  void after() {
    for (unsigned one = 0; queue.try_pop(one);) take(one);
    for (unsigned i = 0; i < ALL; ++i) RL_ASSERT(is_pushed[i] && taken[i] == 1);
  }
};

constexpr unsigned SWITCHES = 1;  // with one more it is thirty times as many
constexpr unsigned long long RANDOM = 100'000;

TEST(per_thread_queue_interleavings, every_order_of_few_switches) {
  const verdict v = check<two_at_one_part<1>>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 10'000u) << "few orders were tried";
}

TEST(per_thread_queue_interleavings, random_orders) {
  const verdict v = check<two_at_one_part<2>>(rl::random_scheduler_type, 0, RANDOM);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

class without_edge : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(edges, without_edge,
                         testing::Values(weakening{"push", std::memory_order_acquire},
                                         weakening{"try_take", std::memory_order_acquire},
                                         weakening{"make", std::memory_order_acq_rel}));

TEST_P(without_edge, is_found) {
  const verdict v = check<two_at_one_part<2>>(rl::random_scheduler_type, 0, RANDOM);
  EXPECT_NE(v.result, rl::test_result_success) << GetParam().function << v.text;
}

}  // namespace
}  // namespace lci::test
