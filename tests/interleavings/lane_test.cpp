// A producer writes into one slot again and again, as soon as it may, and the consumer reads what
// is there: nothing is lost, read twice or overwritten while it is read. Tried are all orders with
// a few switches of threads that nothing asks for, with every value that a load may see. The
// checker is shown to notice when one of the edges that this rests on is not there.
#include "tests/interleavings/checker.hpp"
// The checker's words first. Its atomics are larger than those that processes share.
#include <emmintrin.h>
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

constexpr unsigned SWITCHES = 4;

TEST(lane_interleavings, one_slot_in_every_order_of_few_switches) {
  const verdict v = check<one_slot>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_EQ(v.result, rl::test_result_success) << v.text;
  EXPECT_GT(v.executions, 10'000u) << "few orders were tried";
}

class lane_without_edge : public with_weakening {};
const weakening EDGES[] = {
    {"publish", std::memory_order_release},
    {"look", std::memory_order_acquire},
    {"settle", std::memory_order_release},
    {"is_still_full", std::memory_order_acquire},
};
INSTANTIATE_TEST_SUITE_P(edges, lane_without_edge, testing::ValuesIn(EDGES));

TEST_P(lane_without_edge, is_found) {
  const verdict v = check<one_slot>(rl::fair_context_bound_scheduler_type, SWITCHES);
  EXPECT_NE(v.result, rl::test_result_success) << GetParam().function;
}

}  // namespace

void resume_thread() noexcept {}

}  // namespace lci::test
