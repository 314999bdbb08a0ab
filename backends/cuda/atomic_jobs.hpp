// The atomic operations that are asked of one GPU: what waits at the same time goes in one launch
// of a small kernel, whose end is a word in pinned host memory. Callers: accelerator. Threads:
// shared, all functions; lists are spliced under a short spinlock, which is never held across a
// driver call or a job's function.
// Always true: a job that was taken ends in exactly one on_performed(), from poll(), outside every
// lock. Once the kernel is loaded nothing is allocated per job, and nothing waits for the GPU.
// Loading it may wait for kernels of the program: make_ready() does that before any of them waits
// for a job.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "backends/cuda/atomic_command.hpp"
#include "backends/cuda/errors.hpp"
#include "backends/cuda/gpu.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

// The compiled kernel. Empty in a library without device code.
std::span<const unsigned char> atomic_image() noexcept;

class atomic_jobs {
 public:
  static constexpr std::size_t LAUNCHES = 2;  // under way: one runs, one is ready

  // Makes nothing yet.
  atomic_jobs(gpu_list& gpus, int ordinal, const std::span<const unsigned char>& image) noexcept
      : gpus_(gpus), ordinal_(ordinal), image_(image) {}
  // Those that the GPU has are performed first; the others end with an error.
  ~atomic_jobs();
  atomic_jobs(const atomic_jobs&) = delete;
  atomic_jobs& operator=(const atomic_jobs&) = delete;

  // Loads the kernel, and makes the primary context with it. Throws backend_error.
  void make_ready();
  // Empty: taken. Else a sentence, which lives as long as this object. The first job does what
  // make_ready() would.
  std::string_view add(mem::atomic_job& job) noexcept;
  // Launches what was gathered and tells what has ended; answers how many.
  std::size_t poll() noexcept;

 private:
  // Linked through atomic_job::next.
  struct chain {
    mem::atomic_job* first = nullptr;
    mem::atomic_job* last = nullptr;
    void add(mem::atomic_job& job) noexcept;
    mem::atomic_job* take_first() noexcept;
    std::size_t tell(std::string_view error) noexcept;
  };
  // What one launch is for.
  struct batch {
    atomic_layout::batch* shared = nullptr;  // pinned,
    atomic_layout::batch* at_gpu = nullptr;  // and as the GPU names it
    std::array<mem::atomic_job*, atomic_layout::MOST> jobs;
    std::uint32_t count = 0;   // 0: free
    std::uint32_t number = 0;  // of its last launch
    bool is_launched = false;  // count is not 0, and the kernel may be looked for
  };

  // Empty: the kernel is there.
  std::string_view why_not_ready() noexcept;
  void make_locked();
  void open();
  void close() noexcept;
  batch* fill() noexcept;
  void launch() noexcept;
  void fail(chain jobs, const failure& why) noexcept;
  void collect_locked() noexcept;
  void examine() noexcept;
  void give_up(const failure& why) noexcept;

  gpu_list& gpus_;
  const int ordinal_;
  const std::span<const unsigned char>& image_;  // fixed before the first job
  std::mutex making_;                            // guards the next ones until they are made
  gpu* gpu_ = nullptr;
  abi::context context_ = nullptr;
  abi::code_module module_ = nullptr;
  abi::function kernel_ = nullptr;
  abi::stream stream_ = nullptr;
  void* memory_ = nullptr;  // pinned: what the batches share with the kernel
  std::string cannot_;      // why the first job could not have it made; set once
  std::atomic<bool> is_made_{false};

  std::atomic<std::size_t> open_{0};  // jobs taken and not told; read by any
  base::spinlock lock_;               // guards all below
  std::array<batch, LAUNCHES> batches_;
  chain gathered_;
  chain ended_;          // well, and not told yet
  chain failed_;         // not told yet,
  std::string problem_;  // for this reason
  unsigned idle_looks_ = 0;
  failure broken_;  // nothing runs any more
};

}  // namespace lci::cuda
