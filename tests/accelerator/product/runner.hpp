// Where the bodies of tests/support/device_code/product_messages.hpp run: as kernels on a GPU, or
// in threads of the process. Callers: the tests of this folder. Threads: single. Always true: a
// body that has begun is waited for; memory is zero when it is given out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/device_code/product_messages.hpp"

namespace product_test {

namespace product = lci::test::product;

enum class scope { thread, warp, block };
const char* name_of(scope of);

class runner {
 public:
  static runner& get();
  ~runner();
  runner(const runner&) = delete;
  runner& operator=(const runner&) = delete;

  // Once, in front of all else: kernels run on the GPU of this rank. "", or why there are none.
  std::string use_gpu(int rank);
  bool is_gpu() const { return gpu_ != lci::gpu::NO_GPU; }
  int gpu() const { return gpu_; }

  void* allocate(std::size_t size);
  void* pinned(std::size_t size);
  void free(void* of_gpu, std::size_t size);
  void free_pinned(void* at, std::size_t size);
  void write(void* of_gpu, const void* from, std::size_t size);
  std::vector<std::byte> read(const void* of_gpu, std::size_t size);

  // How many callers there are, or one if only one is wanted, and of how many members.
  std::uint64_t callers(scope of, bool only_one) const;
  std::uint64_t members(scope of, bool only_one) const;
  void start(scope of, bool only_one, const product::task& task);
  bool is_over();

 private:
  runner() = default;
  unsigned blocks(bool only_one) const { return only_one ? 1 : 2; }
  static unsigned threads(scope of, bool only_one);

  int gpu_ = lci::gpu::NO_GPU;
  void* kernels_[3] = {};
  void* stream_ = nullptr;
  std::atomic<std::uint64_t> running_{0};
  std::vector<std::thread> threads_;
};

}  // namespace product_test
