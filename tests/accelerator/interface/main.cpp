// The program that every rank of the accelerator suite runs, on the real driver or on the mock:
//   lcrun -n 2 accelerator_interface [GoogleTest flags]
// Rank r uses GPU r, counted round. Exit status 0 only if every test of this rank passed.
#include <cstdio>
#include <cstdlib>

#include "tests/accelerator/gpu_kernels.hpp"
#include "tests/accelerator/interface/common.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"
#include "tests/support/watchdog.hpp"

namespace accelerator_test {
namespace {

// Before each test all ranks meet; after it nothing is left under way.
class in_step : public testing::EmptyTestEventListener {
 public:
  in_step()
      : watchdog_("accelerator suite, rank " + std::to_string(world().rank),
                  [this] { print_current(); }) {}
  void OnTestStart(const testing::TestInfo& info) override {
    current_ = std::string(info.test_suite_name()) + "." + info.name();
    watchdog_.pet();
    barrier();
  }
  void OnTestEnd(const testing::TestInfo&) override {
    barrier();
    // A broken test may leave receives behind, which are not the failure of those after it.
    is_clean_ =
        is_clean_ && !testing::UnitTest::GetInstance()->current_test_info()->result()->Failed();
    if (!is_clean_) return;
    EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_done()) << "after " << current_;
  }

 private:
  void print_current() {
    std::fprintf(stderr, "rank %d was in %s\n", world().rank, current_.c_str());
  }
  bool is_clean_ = true;  // no test has failed so far
  std::string current_ = "start-up";
  lci::test::watchdog watchdog_;
};

void open_world() {
  lci::g_runtime_init();
  interface_test::world_t& w = world();
  w.rank = lci::get_rank_me();
  w.n = lci::get_rank_n();
  w.device = lci::get_default_device();
  w.devices.push_back(w.device);
  w.bcopy = lci::get_max_bcopy_size();
}

// What gdrcopy was asked for and not given back; only the mock of it can tell.
bool holds_gpu_memory() {
  lci::test::mock_gdr* const gdr = lci::test::load_mock_gdr("");
  if (gdr == nullptr) return false;
  for (const std::string& leak : gdr->leaks())
    std::printf("rank %d leaves %s\n", world().rank, leak.c_str());
  return !gdr->leaks().empty();
}

}  // namespace
}  // namespace accelerator_test

int main(int count, char** arguments) {
  using namespace accelerator_test;
  // Streams that wait for us hold up what shares a queue of the GPU with them, see docs/gpu.md.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // One report is enough to read; failures of the other ranks are still printed.
  lci::global_initialize();
  if (lci::get_rank_me() != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&count, arguments);
  if (const int skipped = lci::cuda::skip_without_gpu(); skipped != 0) {
    lci::global_finalize();
    return skipped;
  }
  lci::cuda::real_gpu::of_rank(lci::get_rank_me());
  const std::string announcement = lci::cuda::gpu_kernels::announcement();
  if (lci::get_rank_me() == 0) std::printf("%s\n", announcement.c_str());
  open_world();
  testing::UnitTest::GetInstance()->listeners().Append(new in_step);
  const int failed = RUN_ALL_TESTS();
  barrier();
  lci::g_runtime_fina();
  lci::global_finalize();
  return failed != 0 || holds_gpu_memory() ? 1 : 0;
}
