// The program that every rank of the suite of real endpoints runs:
//   lcrun -n 2 gpu_product [--gpu] [GoogleTest flags]
// With --gpu kernels make the calls, rank r on GPU r, counted round; else threads do. Exit status 0
// only if every test of this rank passed; 77: there is no GPU for the kernels, with the reason.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/accelerator/product/runner.hpp"
#include "tests/accelerator/real_gpu.hpp"
#include "tests/interface/world.hpp"
#include "tests/support/watchdog.hpp"

namespace product_test {
namespace {

using interface_test::world;

// Before each test all ranks meet, and the watchdog starts over.
class in_step : public testing::EmptyTestEventListener {
 public:
  in_step()
      : watchdog_(
            "real endpoints, rank " + std::to_string(world().rank), [this] { print_current(); },
            std::chrono::seconds(120)) {}
  void OnTestStart(const testing::TestInfo& info) override {
    current_ = std::string(info.test_suite_name()) + "." + info.name();
    watchdog_.pet();
    interface_test::barrier();
  }

 private:
  void print_current() {
    std::fprintf(stderr, "rank %d was in %s\n", world().rank, current_.c_str());
  }
  std::string current_ = "start-up";
  lci::test::watchdog watchdog_;
};

// 0, or the status to end with.
int find_gpu() {
  if (const int skipped = lci::cuda::skip_without_gpu(); skipped != 0) return skipped;
  const std::string why = runner::get().use_gpu(lci::get_rank_me());
  if (!why.empty()) std::printf("skipped: %s\n", why.c_str());
  return why.empty() ? 0 : 77;
}

void open_world() {
  lci::g_runtime_init();
  world().rank = lci::get_rank_me();
  world().n = lci::get_rank_n();
  world().device = lci::get_default_device();
  world().devices.push_back(world().device);
}

}  // namespace
}  // namespace product_test

int main(int count, char** arguments) {
  using namespace product_test;
  // Streams that wait for us hold up what shares a queue of the GPU with them, see docs/gpu.md.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  lci::global_initialize();
  if (lci::get_rank_me() != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&count, arguments);
  bool wants_gpu = false;
  for (int i = 1; i < count; ++i) wants_gpu |= std::strcmp(arguments[i], "--gpu") == 0;
  if (const int skipped = wants_gpu ? find_gpu() : 0; skipped != 0) {
    lci::global_finalize();
    return skipped;
  }
  open_world();
  testing::UnitTest::GetInstance()->listeners().Append(new in_step);
  const int failed = RUN_ALL_TESTS();
  interface_test::barrier();
  lci::g_runtime_fina();
  lci::global_finalize();
  return failed;
}
