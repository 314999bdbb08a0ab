// A call of the driver fails while GPU buffers are moved: the bytes arrive all the same, or an
// exception names the call, in the rank where it failed, and a second try works. On the mock only;
// two ranks under lcrun:
//   accelerator_failures <rank> <call> <error code> blocking|posted
// In each round the next call of that name in that rank fails once. The last line says how often
// that happened: an operation that does not need the call is no proof of anything.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/interface/common.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/watchdog.hpp"

namespace accelerator_test {
namespace {

struct plan {
  lci::test::mock_cuda* mock = nullptr;
  int rank = 0;
  std::string call;
  lci::cuda::abi::result code{};
  bool blocks = true;  // whether the acting rank posts with COMP_NULL
  int fired = 0;
  int thrown = 0;

  bool is_mine() const { return rank == world().rank; }
  void arm() {
    if (!is_mine()) return;
    mock->forget_counts();
    mock->fail_nth(call, 1, code);
  }
  void disarm() {
    if (!is_mine()) return;
    if (mock->count(call) > 0) ++fired;
    mock->fail_nth(call, 1 << 30, lci::cuda::abi::result::success);
  }
};

// What an exception says: in the rank where the call failed, which call that was.
void note(plan& p, const std::exception& error) {
  ++p.thrown;
  std::printf("rank %d: %s\n", world().rank, error.what());
  if (p.is_mine()) {
    EXPECT_NE(std::string(error.what()).find(p.call), std::string::npos);
  }
}

// Does it, and until it ends without an exception.
template <class Action>
void insist_on(plan& p, Action action) {
  for (;;) {
    try {
      return action();
    } catch (const std::exception& error) {
      note(p, error);
    }
  }
}

enum class operation { send, put, get, am };
constexpr const char* NAMES[] = {"send", "put", "get", "am"};

// One operation between two ranks, in memory that is new each time, so that nothing is remembered
// of it: rank 1 acts, on memory of rank 0.
class round_of {
 public:
  round_of(plan& p, operation what, std::size_t size) : p_(p), what_(what), size_(size) {
    // Collective only once everything is registered.
    insist_on(p, [&] {
      memory_ = std::make_unique<target>(place::device, std::vector<std::size_t>{size});
    });
    const slot& mine = memory_->at(0);
    const int me = world().rank;
    is_source_ ? mine.fill(seed_of(me, use_)) : mine.clear(seed_of(1 - me, use_));
    insist_on(p, [] { barrier(); });
  }
  // Whether both ranks found the operation to be as it should.
  bool run() {
    bool is_over = false;
    bool good = true;
    try {
      world().rank == 1 ? act() : start_to_expect();
    } catch (const std::exception& error) {
      note(p_, error);
      good = false;
    }
    if (world().rank == 1) {
      // What the other rank hears of a failure leaves before the word that we are through, so that
      // no exception comes later, when nobody expects one.
      if (!good) insist_on(p_, [] { lci::wait_drained(); });
      tell_and_hear(good, [] { return true; });
    }
    if (world().rank == 0) {
      tell_and_hear(good, [&] { return is_over = is_over || arrived_here(); });
    }
    if (both_good_ && !is_source_ && what_ != operation::am) {
      EXPECT_EQ(memory_->at(0).check(seed_of(1 - world().rank, use_)), "");
    }
    insist_on(p_, [] { barrier(); });
    return both_good_;
  }

 private:
  void act() {
    void* const at = memory_->at(0).get();
    const lci::mr_t mr = lci::MR_DEVICE;
    const lci::comp_t none = lci::COMP_NULL;  // finish() has its own
    const auto [rmr, disp] = memory_->at_peer(0, 0, handle::whole);
    switch (what_) {
      case operation::send:
        return finish(lci::post_send_x(0, at, size_, use_, none).mr(mr));
      case operation::put:
        return finish(
            lci::post_put_x(0, at, size_, none, disp, rmr).mr(mr).remote_comp(arrived_.rcomp()));
      case operation::get:
        return finish(lci::post_get_x(0, at, size_, none, disp, rmr).mr(mr));
      case operation::am:
        return finish(lci::post_am_x(0, at, size_, none, arrived_.rcomp()).mr(mr));
    }
  }
  template <class Op>
  void finish(Op&& op) {
    if (p_.blocks) return post_and_wait(op);
    op.local_comp(acted_);
    post(op);
    wait_until([&] { return lci::counter_get(acted_) == 1; });
  }
  void start_to_expect() {
    if (what_ != operation::send) return;
    void* const at = memory_->at(0).get();
    post(lci::post_recv_x(1, at, size_, use_, arrived_.cq()).mr(lci::MR_DEVICE));
  }
  bool arrived_here() {
    if (what_ == operation::get) return true;
    const lci::status_t status = lci::cq_pop(arrived_.cq());
    if (status.is_retry()) return false;
    if (what_ == operation::am) {
      EXPECT_EQ(difference(status.buffer, size_, seed_of(1, use_)), "");
      std::free(status.buffer);
    }
    return true;
  }
  // Tells the other rank how it went here, and waits for what it says. An exception, here or there,
  // ends the operation; without one it has to end by itself.
  template <class IsOver>
  void tell_and_hear(bool good, IsOver is_over) {
    const auto say = [&] {
      char outcome = good ? 'g' : 'b';
      lci::post_am(1 - world().rank, &outcome, 1, lci::COMP_NULL, told_.rcomp());
    };
    // Rank 1 is first to know, and rank 0 waits for it.
    bool told = world().rank == 1;
    if (told) insist_on(p_, say);
    for (lci::status_t news; news.is_retry();) {
      try {
        progress();
        news = lci::cq_pop(told_.cq());
      } catch (const std::exception& error) {
        note(p_, error);
        good = false;
      }
      if (news.is_done()) both_good_ = good && *static_cast<char*>(news.buffer) == 'g';
      if (news.is_done()) std::free(news.buffer);
    }
    while (!told && both_good_ && !is_over()) {
      try {
        progress();
      } catch (const std::exception& error) {
        note(p_, error);
        both_good_ = false;
      }
    }
    good = both_good_;
    if (!told) insist_on(p_, say);
  }

  plan& p_;
  operation what_;
  std::size_t size_;
  std::uint64_t use_ = next_use();
  bool is_source_ = (world().rank == 1) != (what_ == operation::get);
  bool both_good_ = false;
  std::unique_ptr<target> memory_;
  interface_test::inbox arrived_, told_;
  owned_comp acted_{lci::alloc_counter()};
};

void one_round(plan& p, operation what, bool fails, std::size_t size) {
  SCOPED_TRACE(std::string(NAMES[static_cast<int>(what)]) + (fails ? "" : ", nothing fails"));
  if (fails) p.arm();
  // Kept to the end where it failed: what an exception has left behind may still refer to it.
  auto first = std::make_unique<round_of>(p, what, size);
  const bool good = first->run();
  EXPECT_TRUE(good || fails);
  if (fails) p.disarm();
  if (good) return;
  first.release();
  EXPECT_TRUE(round_of(p, what, size).run()) << "the second try";
}

void check_leaks(plan& p) {
  for (const std::string& leak : p.mock->leaks()) {
    const bool of_the_test = leak.find("context") != std::string::npos;
    EXPECT_TRUE(of_the_test) << "left over: " << leak;
  }
}

}  // namespace
}  // namespace accelerator_test

int main(int count, char** arguments) {
  using namespace accelerator_test;
  testing::InitGoogleTest(&count, arguments);
  // The calls that fail, and what is left over at the end, are the library's.
  const lci::cuda::gpu_kernels::left_out copied;
  if (count != 5) return std::puts("arguments: <rank> <call> <error code> blocking|posted"), 2;
  plan p;
  p.mock = lci::test::load_mock_cuda("");
  if (p.mock == nullptr) return std::puts("skipped: the mock driver is not in the path"), 77;
  p.rank = std::atoi(arguments[1]);
  p.call = arguments[2];
  p.code = static_cast<lci::cuda::abi::result>(std::atoi(arguments[3]));
  p.blocks = std::string(arguments[4]) == "blocking";
  lci::g_runtime_init();
  world().rank = lci::get_rank_me();
  world().n = lci::get_rank_n();
  world().device = lci::get_default_device();
  world().bcopy = lci::get_max_bcopy_size();
  lci::cuda::real_gpu::of_rank(world().rank);
  lci::test::watchdog dog(p.call + " fails, rank " + std::to_string(world().rank));
  int rounds = 0;
  for (const std::size_t size : {std::size_t{100}, std::size_t{65536}, std::size_t{3} << 20}) {
    for (const operation what : {operation::send, operation::put, operation::get, operation::am}) {
      one_round(p, what, true, size);
      one_round(p, what, false, size);
      dog.pet();
      ++rounds;
    }
  }
  lci::g_runtime_fina();
  check_leaks(p);
  if (p.is_mine())
    std::printf("%s failed in %d of %d rounds, %d exceptions\n", p.call.c_str(), p.fired, rounds,
                p.thrown);
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}
