// A thread puts through the only lane to a peer, another one opens a second lane, and the peer
// consumes: the second lane is opened only when the peer has consumed whatever was granted, and
// nothing is granted afterwards. Tried are all orders with a few switches of threads that nothing
// asks for, and random ones, with every value that a load may see. The checker is shown to notice
// when one of the edges that this rests on is not there.
#include "tests/interleavings/checker.hpp"
#include "tests/interleavings/form.hpp"
// The checker's words first. Its atomics are larger than those that processes share.
#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#define static_assert(...) static_assert(true)
#include "backends/shm/put_guard.hpp"
#include "tests/interleavings/owned_alone.hpp"

namespace lci::test {
namespace {

constexpr unsigned THREADS = 3;

// puts: of the first thread, with a plain message behind each where there are two.
template <unsigned puts>
struct second_lane : rl::test_suite<second_lane<puts>, THREADS> {
  shm::slot slots[shm::LANE_SLOTS];
  shm::consumed_count consumed;
  shm::tx_lane lane;
  shm::put_guard guard;
  rl::var<unsigned> applied;  // puts; by the peer
  // Not seen by the checker.
  unsigned granted = 0;
  bool is_open = false;

  void before() {
    consumed.store(shm::first_position(0), std::memory_order_relaxed);
    lane.begin(slots, shm::first_position(0), consumed);
    guard.opened(0);
    applied($) = 0;
    base::has_asymmetric_fence();
  }
  void thread(unsigned which) {
    if (which == 0) put();
    if (which == 1) open();
    if (which == 2) consume();
  }
  void put() {
    for (unsigned i = 0; i < puts; ++i) {
      if (!guard.begin(lane)) {
        guard.cancel(lane);
        return;
      }
      RL_ASSERT(!is_open);
      ++granted;
      lane.publish({0, 8, shm::slot_kind::put, 0});
      if (puts > 1) lane.publish({0, 8, shm::slot_kind::message, 0});
    }
  }
  void open() {
    for (int i = 0; i < 2; ++i) {
      if (!guard.may_open(lane)) continue;
      is_open = true;
      RL_ASSERT(applied($) == granted);
      return;
    }
  }
  void consume() {
    shm::rx_lane in;
    in.begin(slots, shm::first_position(0), consumed);
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t header = in.look();
      if (!in.is_message(header)) {
        in.settle();
        continue;
      }
      if (shm::slot_header::unpack(header).kind == shm::slot_kind::put) applied($) = applied($) + 1;
      in.move_to(in.cursor + 1);
      in.hand_back();
    }
    in.settle();
  }
};

constexpr unsigned SWITCHES = 4;  // 90,000 orders; with one more it is five times as many
using one_put = second_lane<1>;

TEST(put_guard_interleavings, one_put_in_every_order_of_few_switches) {
  const verdict v = check<one_put>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 50'000u) << "few orders were tried";
}

TEST(put_guard_interleavings, two_puts_and_messages_in_random_orders) {
  const verdict v = check<second_lane<2>>(rl::random_scheduler_type, 0, 40'000);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
}

class put_guard_without_edge : public with_weakening {};
const weakening EDGES[] = {
    {"settle", std::memory_order_release},
    {"is_consumed", std::memory_order_acquire},
#ifdef LCI_CHECK_LOCKED_FORM
    // In the plain form the barrier of whoever opens a lane stands for these.
    {"may_open", std::memory_order_seq_cst},
    {"begin", std::memory_order_seq_cst},
    {"has_open", std::memory_order_seq_cst},
#endif
};
INSTANTIATE_TEST_SUITE_P(edges, put_guard_without_edge, testing::ValuesIn(EDGES));

TEST_P(put_guard_without_edge, is_found) {
  const verdict v = check<one_put>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_NE(v.result, rl::test_result_success) << GetParam().function;
}

}  // namespace

void resume_thread() noexcept {}

}  // namespace lci::test
