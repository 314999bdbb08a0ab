// What the tests of backends/cuda share: a mock driver at its start and a look at what is left
// over.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/must_fire.hpp"

namespace lci::cuda {

inline test::mock_cuda& mock() {
  static test::mock_cuda* const one = test::load_mock_cuda(LCI_MOCK_CUDA);
  return *one;
}

inline driver_options mock_options() { return {true, LCI_MOCK_CUDA}; }

// A user's program that has started CUDA, and a driver of ours that has not been asked yet.
class cuda_test : public testing::Test {
 protected:
  explicit cuda_test(const test::mock_config& config = {}) {
    mock().reset(config);
    if (config.gpus > 0) mock().start();
  }
  // Derived fixtures declare what they test after this, so that it is gone before the look.
  ~cuda_test() override {
    for (const std::string& leak : mock().leaks()) ADD_FAILURE() << "left over: " << leak;
    mock().reset();
  }

  using mocked = test::mock_memory;
  void* gpu_memory(std::size_t size, int gpu = 0) {
    return mock().allocate(mocked::device, size, gpu);
  }
  // Bytes that differ by place and by seed.
  static std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed * 97) & 0xff);
    return bytes;
  }
  static void fill(void* device_memory, const std::vector<std::byte>& bytes) {
    std::memcpy(mock().contents(device_memory), bytes.data(), bytes.size());
  }
  static std::vector<std::byte> read(const void* device_memory, std::size_t size) {
    const std::byte* const at = mock().contents(device_memory);
    return {at, at + size};
  }

  test::leak_guard descriptors_;
  driver driver_{mock_options()};
};

}  // namespace lci::cuda
