// An accelerator on the mock with limits small enough that batches and chunks show, and jobs that
// say what they were told.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/accelerator.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {

using lci::test::KIB, lci::test::MIB;

struct told_job final : mem::copy_job {
  void on_copied(std::string_view why) noexcept override {
    error = why;
    ++calls;
  }
  std::string error;
  std::atomic<int> calls{0};
};

class accelerator_test : public cuda_test {
 protected:
  explicit accelerator_test(const test::mock_config& config = {}) : cuda_test(config) {
    options_.limits.small_max = 64 * KIB;
    options_.limits.busy_chunk = 64 * KIB;
    options_.limits.quiet_chunk = 256 * KIB;
    make();
  }
  ~accelerator_test() override { mock().run_all(); }  // whatever a failed test has left
  void make() {
    acc_.reset();
    acc_ = std::make_unique<accelerator>(driver_, pointers_, arena_, options_);
  }

  void copy(told_job& job, mem::copy_way way, void* to, const void* from, std::size_t size,
            int device = 0) {
    job.way = way;
    job.to = static_cast<std::byte*>(to);
    job.from = static_cast<const std::byte*>(from);
    job.size = size;
    job.device = device;
    acc_->copy(job);
  }
  // Lets the GPU run and the accelerator look until so many jobs were told.
  void finish(std::size_t jobs) {
    std::size_t told = 0;
    for (int i = 0; i < 100000 && told < jobs; ++i) {
      told += acc_->poll();
      if (told < jobs) mock().advance(1);
    }
    EXPECT_EQ(told, jobs);
    EXPECT_EQ(acc_->poll(), 0u);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  pointer_cache pointers_{driver_};
  mem::arena arena_{64 * MIB};
  accelerator_options options_;
  std::unique_ptr<accelerator> acc_;
};

}  // namespace lci::cuda
