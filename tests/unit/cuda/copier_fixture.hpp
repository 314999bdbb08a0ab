// A copier on GPU 0 of the mock, with limits small enough that chunks show.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/copier.hpp"
#include "backends/cuda/pointer.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {

using lci::test::KIB, lci::test::MIB;

// Says how often and with what it was called.
struct recorder final : copy_completion {
  void on_copied(const failure& error) noexcept override {
    const std::lock_guard lock(mutex);  // several threads may poll
    last = error;
    ++calls;
  }
  std::atomic<int> calls{0};
  failure last;
  std::mutex mutex;
};

class copier_test : public cuda_test {
 protected:
  explicit copier_test(const test::mock_config& config = {}) : cuda_test(config) {
    limits_.small_max = 64 * KIB;
    limits_.busy_chunk = 64 * KIB;
    limits_.quiet_chunk = 256 * KIB;
    make();
  }
  void make() { copier_ = std::make_unique<copier>(gpus_.at(0), limits_); }

  copy_answer post(direction way, void* to, const void* from, std::size_t size,
                   const flag_write& flag = {}) {
    const copy one{as_device(to), as_device(from), size};
    return copier_->post(way, std::span(&one, 1), flag, &done_);
  }
  // Lets the GPU run and the copier look, until all is complete.
  void finish() {
    for (int i = 0; i < 100000 && !copier_->is_idle(); ++i) {
      mock().advance(1);
      copier_->poll();
    }
    EXPECT_TRUE(copier_->is_idle());
  }
  void expect_ended_with(fault kind, int calls = 1) {
    EXPECT_EQ(done_.calls, calls);
    EXPECT_EQ(done_.last.kind(), kind) << done_.last.call;
  }

  gpu_list gpus_{driver_};
  copier_limits limits_;
  recorder done_;
  std::unique_ptr<copier> copier_;
};

}  // namespace lci::cuda
