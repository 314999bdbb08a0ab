// An accelerator on the mock whose small copies go through the resident kernel, and memory of all
// kinds to copy between.
#pragma once

#include <array>
#include <deque>

#include "tests/unit/cuda/accelerator_fixture.hpp"

namespace lci::cuda {

// The mock looks at the beginning only: it is how every image of nvcc begins.
inline constexpr std::array<unsigned char, 64> STAND_IN{0x50, 0xED, 0x55, 0xBA};

class resident_test : public accelerator_test {
 protected:
  explicit resident_test(const test::mock_config& config = {}, int blocks = 4)
      : accelerator_test(config), blocks_(blocks) {
    options_.resident_image = STAND_IN;
    remake();
  }
  ~resident_test() override {
    mock().run_all();
    acc_.reset();  // before the memory that it has pinned
  }
  void remake() {
    mock().run_all();
    make();
    acc_->keep_resident(blocks_);
  }

  static std::byte* at(void* memory) { return static_cast<std::byte*>(memory); }
  std::byte* pinned(std::size_t size) {
    hosts_.emplace_back(size);
    EXPECT_EQ(acc_->pin(hosts_.back().data(), size), "");
    return hosts_.back().data();
  }
  void copy(told_job& job, mem::copy_way way, void* to, const void* from, std::size_t size,
            int device = 0) {
    job.is_in_reach = true;
    accelerator_test::copy(job, way, to, from, size, device);
  }
  bool copy_and_flag(told_job& job, void* to, const void* from, std::size_t size,
                     std::uint64_t* flag, std::uint64_t value) {
    job.way = mem::copy_way::to_peer;
    job.to = at(to);
    job.from = static_cast<const std::byte*>(from);
    job.size = size;
    job.is_in_reach = true;
    return acc_->copy_and_flag(job, flag, value);
  }
  // Two jobs: one makes the copier, the next one misses the kernel.
  void start_kernel(int device = 0) {
    void* const a = gpu_memory(64, device);
    const std::size_t before = by_kernel();
    for (int tries = 0; tries < 100; ++tries) {
      told_job job;
      copy(job, mem::copy_way::to_peer, a, a, 16, device);
      finish(1);
      EXPECT_EQ(job.error, "");
      if (by_kernel() != before) return mock().free(a);
      mock().advance(20);  // all blocks begin
    }
    ADD_FAILURE() << "the kernel does not run";
  }
  static std::size_t by_kernel() { return mock().count(resident_layout::KERNEL); }
  static std::size_t by_engine() {
    return mock().count("cuMemcpyAsync") + mock().count("cuMemcpy2DAsync") +
           mock().count("cuMemcpyBatchAsync") + mock().count("cuStreamBatchMemOp");
  }

  const int blocks_;
  std::deque<std::vector<std::byte>> hosts_;
};

}  // namespace lci::cuda
