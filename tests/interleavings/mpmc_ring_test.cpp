// Producers and consumers at one ring: every element comes out once, those of a producer in their
// order, and whole. Tried are all orders with a few switches of threads that nothing asks for, and
// random ones, with every value that a load may see. The checker is shown to notice when one of the
// edges that this rests on is not there.
#include "tests/interleavings/checker.hpp"
// The checker's words first. Its elements are not copied as bytes.
#define static_assert(...) static_assert(true)
#include "lci/data/mpmc_ring.hpp"

namespace lci::test {

void resume_thread() noexcept {}  // nothing is thread_local here

namespace {

// Whose copies are noticed where one thread reads and another one writes.
class element {
 public:
  element() : element(0) {}
  explicit element(unsigned number) { number_($) = number; }
  element(const element&) = delete;
  element& operator=(const element& other) {
    number_($) = other.number();
    return *this;
  }
  unsigned number() const { return number_($); }

 private:
  mutable rl::var<unsigned> number_;
};

// The first PRODUCERS threads push EACH elements, the others take what they find.
template <unsigned PRODUCERS, unsigned CONSUMERS, unsigned EACH, unsigned CAPACITY>
struct at_one_ring
    : rl::test_suite<at_one_ring<PRODUCERS, CONSUMERS, EACH, CAPACITY>, PRODUCERS + CONSUMERS> {
  static constexpr unsigned ALL = PRODUCERS * EACH;
  data::mpmc_ring<element> ring{CAPACITY};
  rl::var<unsigned> content[ALL];  // what an element stands for
  bool is_accepted[ALL];
  unsigned taken[ALL];

  void before() {
    for (unsigned i = 0; i < ALL; ++i) {
      content[i]($) = 0;
      is_accepted[i] = false;
      taken[i] = 0;
    }
  }
  void thread(unsigned which) { which < PRODUCERS ? produce(which) : consume(); }
  void produce(unsigned which) {
    for (unsigned i = which * EACH; i < (which + 1) * EACH; ++i) {
      content[i]($) = i + 1;
      for (int tries = 0; ring.try_push(element(i)) != data::push_result::pushed; ++tries) {
        if (tries == 3) return;
        yield_step();
      }
      is_accepted[i] = true;
    }
  }
  void consume() {
    unsigned next[PRODUCERS] = {};
    for (unsigned looks = 0; looks < ALL; ++looks) {
      element taken_out;
      if (!ring.try_pop(taken_out)) continue;
      const unsigned one = taken_out.number();
      take(one);
      RL_ASSERT(one % EACH >= next[one / EACH]);
      next[one / EACH] = one % EACH + 1;
    }
  }
  void take(unsigned one) {
    RL_ASSERT(one < ALL);
    RL_ASSERT(content[one]($) == one + 1);
    RL_ASSERT(++taken[one] == 1);
  }
  void after() {
    for (element one; ring.try_pop(one);) take(one.number());
    for (unsigned i = 0; i < ALL; ++i) RL_ASSERT(taken[i] == (is_accepted[i] ? 1u : 0u));
    RL_ASSERT(ring.size() == 0);
  }
};

using small_ring = at_one_ring<2, 1, 1, 2>;
constexpr unsigned SWITCHES = 2;

TEST(mpmc_ring_interleavings, two_producers_in_every_order_of_few_switches) {
  const verdict v = check<small_ring>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 1'000u) << "few orders were tried";
}

TEST(mpmc_ring_interleavings, two_consumers_in_every_order_of_few_switches) {
  const verdict v = check<at_one_ring<1, 2, 2, 2>>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 1'000u) << "few orders were tried";
}

// Long enough to lap the ring, and for both sides to lose races.
TEST(mpmc_ring_interleavings, several_of_each_in_random_orders) {
  const verdict v = check<at_one_ring<2, 2, 3, 2>>(rl::random_scheduler_type, 0, 100'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

class without_edge : public with_weakening {};
INSTANTIATE_TEST_SUITE_P(edges, without_edge,
                         testing::Values(weakening{"try_push", std::memory_order_acquire},
                                         weakening{"try_push", std::memory_order_release},
                                         weakening{"try_pop", std::memory_order_acquire},
                                         weakening{"try_pop", std::memory_order_release}));

TEST_P(without_edge, is_found) {
  const verdict v = check<at_one_ring<2, 2, 3, 2>>(rl::random_scheduler_type, 0, 100'000);
  EXPECT_EQ(v.result, rl::test_result_data_race) << GetParam().function << v.text;
}

}  // namespace
}  // namespace lci::test
