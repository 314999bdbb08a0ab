// A call of the driver fails while GPU buffers are moved: the bytes arrive all the same, or an
// exception names the call and a second try works. On the mock only; two ranks under lcrun:
//   accelerator_failures <rank> <call> <error code>
// In each round the next call of that name in that rank fails once. The last line says how often
// that happened: an operation that does not need the call is no proof of anything.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

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

// Does it, once more if an exception named the call; any other one is a failure.
template <class Action>
void with_second_try(plan& p, Action action) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      return action();
    } catch (const std::exception& error) {
      ++p.thrown;
      EXPECT_NE(std::string(error.what()).find(p.call), std::string::npos) << error.what();
      std::printf("rank %d: %s\n", world().rank, error.what());
    }
  }
  ADD_FAILURE() << "the second try failed too";
}

enum class operation { send, put, get, am };
constexpr const char* NAMES[] = {"send", "put", "get", "am"};

// One operation between two ranks, in memory that is new each time, so that nothing is remembered
// of it: rank 1 acts, on memory of rank 0.
class round_of {
 public:
  round_of(plan& p, operation what, std::size_t size) : p_(p), what_(what), size_(size) {
    // Collective only once everything is registered.
    with_second_try(p, [&] {
      memory_ = std::make_unique<target>(place::device, std::vector<std::size_t>{size});
    });
    const slot& mine = memory_->at(0);
    const int me = world().rank;
    is_source_ ? mine.fill(seed_of(me, use_)) : mine.clear(seed_of(1 - me, use_));
    with_second_try(p, [] { barrier(); });
  }
  void run() {
    const bool acts = world().rank == 1;
    with_second_try(p_, [&] { acts ? act() : expect(); });
    if (!is_source_ && what_ != operation::am) {
      EXPECT_EQ(memory_->at(0).check(seed_of(1 - world().rank, use_)), "");
    }
    with_second_try(p_, [] { barrier(); });
    EXPECT_TRUE(stays_empty(arrived_.cq())) << "signalled twice";
  }

 private:
  void act() {
    void* const at = memory_->at(0).get();
    const lci::mr_t mr = lci::MR_DEVICE;
    const lci::comp_t none = lci::COMP_NULL;
    const auto [rmr, disp] = memory_->at_peer(0, 0, handle::whole);
    switch (what_) {
      case operation::send:
        return post_and_wait(lci::post_send_x(0, at, size_, use_, none).mr(mr));
      case operation::put:
        return post_and_wait(
            lci::post_put_x(0, at, size_, none, disp, rmr).mr(mr).remote_comp(arrived_.rcomp()));
      case operation::get:
        return post_and_wait(lci::post_get_x(0, at, size_, none, disp, rmr).mr(mr));
      case operation::am:
        return post_and_wait(lci::post_am_x(0, at, size_, none, arrived_.rcomp()).mr(mr));
    }
  }
  void expect() {
    if (what_ == operation::send)
      post_and_wait(lci::post_recv_x(1, memory_->at(0).get(), size_, use_, lci::COMP_NULL)
                        .mr(lci::MR_DEVICE));
    if (what_ == operation::put) pop(arrived_.cq());
    if (what_ != operation::am) return;
    const lci::status_t status = pop(arrived_.cq());
    EXPECT_EQ(difference(status.buffer, size_, seed_of(1, use_)), "");
    std::free(status.buffer);
  }

  plan& p_;
  operation what_;
  std::size_t size_;
  std::uint64_t use_ = next_use();
  bool is_source_ = (world().rank == 1) != (what_ == operation::get);
  std::unique_ptr<target> memory_;
  interface_test::inbox arrived_;
};

void one_round(plan& p, operation what, bool fails, std::size_t size) {
  SCOPED_TRACE(std::string(NAMES[static_cast<int>(what)]) + (fails ? "" : ", nothing fails"));
  if (fails) p.arm();
  round_of(p, what, size).run();
  if (fails) p.disarm();
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
  if (count != 4) return std::puts("arguments: <rank> <call> <error code>"), 2;
  plan p;
  p.mock = lci::test::load_mock_cuda("");
  if (p.mock == nullptr) return std::puts("skipped: the mock driver is not in the path"), 77;
  p.rank = std::atoi(arguments[1]);
  p.call = arguments[2];
  p.code = static_cast<lci::cuda::abi::result>(std::atoi(arguments[3]));
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
