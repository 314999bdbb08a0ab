// A producer writes into one slot again and again, as soon as it may, and the consumer reads what
// is there: nothing is lost, read twice or overwritten while it is read. Tried are all orders with
// a few switches of threads that nothing asks for, with every value that a load may see. The
// checker is shown to notice when one of the edges that this rests on is not there.
#include "tests/interleavings/checker.hpp"
// The checker's words first. Its atomics are larger than those that processes share.
#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#define static_assert(...) static_assert(true)
#include "backends/shm/lane.hpp"

namespace lci::test {
namespace {

constexpr unsigned LAPS = 3;
constexpr std::uint32_t BEGIN = shm::first_position(5);

// The slots between two laps are left out, by both.
struct one_slot : rl::test_suite<one_slot, 2> {
  shm::slot slots[shm::LANE_SLOTS];
  shm::consumed_count consumed;
  shm::tx_lane out;
  shm::rx_lane in;
  rl::var<unsigned> data;  // of the slot

  void before() {
    shm::prepare_slots(slots, BEGIN % shm::LANE_SLOTS);
    consumed.store(BEGIN, std::memory_order_relaxed);
    out.begin(slots, BEGIN, consumed);
    in.begin(slots, BEGIN, consumed);
    data($) = 0;
  }
  void thread(unsigned which) { which == 0 ? produce() : consume(); }
  void produce() {
    for (unsigned lap = 0; lap < LAPS; ++lap) {
      out.tail.store(BEGIN + lap * shm::LANE_SLOTS, std::memory_order_relaxed);
      for (int tries = 0; out.is_full(); ++tries)
        if (tries == 4) return;
      data($) = lap + 1;
      out.publish({lap, 0, shm::slot_kind::message, 0});
    }
  }
  void consume() {
    unsigned lap = 0;
    for (int looks = 0; looks < 6 && lap < LAPS; ++looks) {
      if (in.is_empty()) continue;
      RL_ASSERT(shm::slot_header::unpack(in.look()).imm == lap);
      RL_ASSERT(data($) == ++lap);
      in.move_to(in.cursor + shm::LANE_SLOTS);
      in.paid = in.cursor - 1;
      in.hand_back();
      in.settle();
    }
  }
};

// The producer has filled a lap: another thread knows by that alone that the first message of it
// was consumed, and that what it asked for is done.
struct a_lap_later : rl::test_suite<a_lap_later, 3> {
  shm::slot slots[shm::LANE_SLOTS];
  shm::consumed_count consumed;
  shm::tx_lane out;
  rl::var<unsigned> applied;

  void before() {
    consumed.store(BEGIN, std::memory_order_relaxed);
    out.begin(slots, BEGIN, consumed);
    applied($) = 0;
  }
  void thread(unsigned which) {
    if (which == 0) produce();
    if (which == 1) consume();
    if (which == 2) ask();
  }
  void produce() {
    out.publish({0, 8, shm::slot_kind::put, 0});
    out.tail.store(BEGIN + shm::LANE_SLOTS, std::memory_order_relaxed);
    for (int tries = 0; out.is_full(); ++tries)
      if (tries == 4) return;
    out.publish({0, 8, shm::slot_kind::message, 0});
  }
  void consume() {
    shm::rx_lane in;
    in.begin(slots, BEGIN, consumed);
    for (int looks = 0; looks < 3; ++looks) {
      if (in.is_empty()) continue;
      applied($) = 1;
      in.move_to(in.cursor + 1);
      in.hand_back();
      return in.settle();
    }
  }
  void ask() {
    for (int i = 0; i < 2; ++i)
      if (out.is_consumed(BEGIN)) {
        RL_ASSERT(applied($) == 1);
        return;
      }
  }
};

constexpr unsigned SWITCHES = 4;
constexpr unsigned LAP_SWITCHES = 3;  // with one more it is ten times as many

TEST(lane_interleavings, one_slot_in_every_order_of_few_switches) {
  const verdict v = check<one_slot>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 10'000u) << "few orders were tried";
}

TEST(lane_interleavings, a_lap_later_in_every_order_of_few_switches) {
  const verdict v = check<a_lap_later>(rl::fair_context_bound_scheduler_type, LAP_SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 10'000u) << "few orders were tried";
}

class one_slot_without_edge : public with_weakening {};
const weakening EDGES[] = {
    {"publish", std::memory_order_release},
    {"look", std::memory_order_acquire},
    {"settle", std::memory_order_release},
    {"is_still_full", std::memory_order_acquire},
};
INSTANTIATE_TEST_SUITE_P(edges, one_slot_without_edge, testing::ValuesIn(EDGES));

TEST_P(one_slot_without_edge, is_found) {
  const verdict v = check<one_slot>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_NE(v.result, rl::test_result_success) << GetParam().function;
}

class lap_without_edge : public with_weakening {};
const weakening LAP_EDGES[] = {
    {"move_on", std::memory_order_release},
    {"is_overwritten", std::memory_order_acquire},
};
INSTANTIATE_TEST_SUITE_P(edges, lap_without_edge, testing::ValuesIn(LAP_EDGES));

TEST_P(lap_without_edge, is_found) {
  const verdict v = check<a_lap_later>(rl::fair_context_bound_scheduler_type, LAP_SWITCHES);
  EXPECT_NE(v.result, rl::test_result_success) << GetParam().function;
}

}  // namespace

void resume_thread() noexcept {}

}  // namespace lci::test
