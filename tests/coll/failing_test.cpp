// Blocking collectives while something fails: what is no part of them must not end the call while
// its buffers are in use, and a step of them that fails ends it, whoever takes the exception.
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/coll/data.hpp"

namespace lci::test {
namespace {

// Rank 0 gets a message of its own while it is in the collective, and its handler does as the test
// says. Only then do the other ranks enter the collective.
class failing : public testing::Test {
 protected:
  static constexpr size_t COUNT = 8;

  void SetUp() override {
    if (get_rank_n() == 1) GTEST_SKIP() << "one rank waits for nobody";
    interrupting_ = alloc_handler(&interrupt);
    allowing_ = alloc_handler(&allow);
    interrupts_ = register_rcomp(interrupting_);
    allows_ = register_rcomp(allowing_);
    may_enter_ = false;
    calls_of_operator_ = 0;
    barrier();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    const auto in = contribution(get_rank_me(), COUNT);
    std::vector<uint64_t> out(COUNT);
    allreduce(in.data(), out.data(), COUNT, 8, add_u64);
    EXPECT_EQ(out, sum_of_all(COUNT));
    barrier();
    deregister_rcomp(interrupts_);
    deregister_rcomp(allows_);
    free_comp(&interrupting_);
    free_comp(&allowing_);
  }

  // What the collective throws, or nothing. `inside`: in the handler of rank 0.
  static std::string outcome(const std::function<void()>& inside,
                             const std::function<void()>& collective) {
    if (get_rank_me() == 0) {
      inside_ = inside;
      char byte = 0;
      post_am(0, &byte, 1, COMP_NULL, interrupts_);
    } else {
      wait_to_enter();
    }
    try {
      collective();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  static void wait_to_enter() {
    while (!may_enter_) progress();
  }
  static void let_enter(int rank) {
    char byte = 0;
    while (post_am(rank, &byte, 1, COMP_NULL_RETRY, allows_).is_retry()) {
    }
  }
  static void let_others_enter() {
    for (int rank = 1; rank < get_rank_n(); ++rank) let_enter(rank);
  }
  // What progress throws in a round, as another thread would take it.
  static std::string thrown_in_a_round() {
    try {
      progress();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  static void refuse_on_rank_0(const void* left, const void* right, void* dst, size_t n) {
    if (get_rank_me() != 0) return add_u64(left, right, dst, n);
    ++calls_of_operator_;
    throw std::domain_error("the operator refuses");
  }

  static inline int calls_of_operator_;

 private:
  static void interrupt(status_t status) {
    std::free(status.buffer);
    inside_();
  }
  static void allow(status_t status) {
    std::free(status.buffer);
    may_enter_ = true;
  }

  static inline std::function<void()> inside_;
  static inline rcomp_t interrupts_, allows_;
  static inline bool may_enter_;
  comp_t interrupting_, allowing_;
};

// Where ranks compare their calls first, the handler runs before the collective itself.
class failing_step : public failing {
 protected:
  void SetUp() override {
    if (compares_calls()) GTEST_SKIP() << "a debug build, or LCI_CHECK_COLLECTIVES is 1";
    failing::SetUp();
  }
};

TEST_F(failing, handler__the_collective_goes_on_and_throws_it_at_its_end) {
  auto data = get_rank_me() == 1 ? contribution(1, COUNT) : std::vector<uint64_t>(COUNT);
  std::string what = outcome(
      [] {
        let_others_enter();
        throw std::domain_error("the handler fails");
      },
      [&] { broadcast(data.data(), COUNT * 8, 1); });
  // The comparison leaves it to the next progress, which the collective needs only if it waits.
  if (compares_calls() && get_rank_me() == 0 && what.empty()) what = thrown_in_a_round();
  EXPECT_EQ(what, get_rank_me() == 0 ? "the handler fails" : "");
  EXPECT_EQ(data, contribution(1, COUNT));
}

TEST_F(failing_step, operator_in_progress_of_somebody_else__ends_the_call) {
  const auto in = contribution(get_rank_me(), COUNT);
  std::vector<uint64_t> out(COUNT);
  std::string taken;
  const std::string what = outcome(
      [&] {
        let_others_enter();
        while (calls_of_operator_ == 0) taken = thrown_in_a_round();
      },
      [&] { reduce(in.data(), out.data(), COUNT, 8, refuse_on_rank_0, 0); });
  EXPECT_EQ(what, get_rank_me() == 0 ? "the operator refuses" : "");
  EXPECT_EQ(taken, "") << "it is thrown once";
}

TEST_F(failing, operator_while_a_handler_fails__progress_throws_that_later) {
  const auto in = contribution(get_rank_me(), COUNT);
  std::vector<uint64_t> out(COUNT);
  const std::string what = outcome(
      [] {
        let_others_enter();
        throw std::domain_error("the handler fails");
      },
      [&] { reduce(in.data(), out.data(), COUNT, 8, refuse_on_rank_0, 0); });
  EXPECT_EQ(what, get_rank_me() == 0 ? "the operator refuses" : "");
  if (get_rank_me() == 0) {
    EXPECT_EQ(thrown_in_a_round(), "the handler fails");
  }
}

TEST_F(failing_step, receive_in_progress_of_somebody_else__ends_the_call) {
  const size_t size = (get_rank_me() == 0 ? COUNT / 2 : COUNT) * 8;
  auto data = get_rank_me() == 1 ? contribution(1, COUNT) : std::vector<uint64_t>(COUNT);
  std::string taken;
  const std::string what = outcome(
      [&] {
        let_others_enter();
        while (taken.empty()) taken = thrown_in_a_round();
      },
      [&] { broadcast_x(data.data(), size, 1).algorithm(broadcast_algorithm_t::direct)(); });
  EXPECT_EQ(!what.empty(), get_rank_me() == 0);
  EXPECT_EQ(what, taken) << "also where that progress has thrown it";
}

TEST_F(failing_step, receive_while_a_handler_fails__the_call_throws_its_own) {
  const size_t size = (get_rank_me() == 0 ? COUNT / 2 : COUNT) * 8;
  auto data = get_rank_me() == 1 ? contribution(1, COUNT) : std::vector<uint64_t>(COUNT);
  const std::string what = outcome(
      [] {
        let_others_enter();
        throw std::domain_error("the handler fails");
      },
      [&] { broadcast_x(data.data(), size, 1).algorithm(broadcast_algorithm_t::direct)(); });
  EXPECT_EQ(!what.empty(), get_rank_me() == 0);
  EXPECT_NE(what, "the handler fails");
  if (get_rank_me() == 0) {
    EXPECT_EQ(thrown_in_a_round(), "the handler fails");
    EXPECT_EQ(thrown_in_a_round(), "");
  }
}

// Rank 0 receives less than the others send, and lets them enter one by one.
TEST_F(failing_step, receive_while_others_are_under_way__the_object_may_be_freed) {
  const int me = get_rank_me(), n = get_rank_n();
  if (n < 3) GTEST_SKIP() << "nothing else is under way";
  const size_t size = (me == 0 ? COUNT / 2 : COUNT) * 8;
  const auto in = contribution(me, COUNT * static_cast<size_t>(n));
  std::vector<uint64_t> out(in.size());
  if (me != 0) {
    wait_to_enter();
    alltoall(in.data(), out.data(), size);
  } else {
    comp_t queue = alloc_cq();
    alltoall_x(in.data(), out.data(), size).comp(queue)();
    for (int rank = 1; rank < n; ++rank) {
      let_enter(rank);
      std::string what;
      while (what.empty()) what = thrown_in_a_round();
      EXPECT_THAT(what, testing::HasSubstr("does not fit"));
      if (rank == 1) {
        EXPECT_NO_THROW(free_comp(&queue));
      }
    }
  }
  barrier();
}

}  // namespace
}  // namespace lci::test
