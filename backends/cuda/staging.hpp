// Moves a range between GPU memory and whatever takes pieces of host memory (packets of any
// backend, a user's pageable buffer), through two pinned buffers: while one piece is copied by the
// GPU, the other is filled or emptied by its owner. Callers: the staging protocol. Threads: the
// pool is shared; of one transfer, step() is single, while the copier may be polled by any thread.
// Always true: pieces are handed out in order, each once; a piece_fn that says "not now" is asked
// again at a later step() with the same piece. The end is told once, through on_copied, by step().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/copier.hpp"

namespace lci::cuda {

// Two pinned buffers of the same size.
class pinned_pair {
 public:
  // Throws backend_error.
  pinned_pair(gpu& g, std::size_t bytes);
  ~pinned_pair();
  pinned_pair(const pinned_pair&) = delete;
  pinned_pair& operator=(const pinned_pair&) = delete;
  std::byte* half(std::size_t which) const noexcept { return memory_ + which * bytes_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  gpu& gpu_;
  std::byte* memory_ = nullptr;
  const std::size_t bytes_;  // of one buffer
};

// Keeps pairs, because pinning costs more than copying, and bounds how much is pinned.
class staging_pool {
 public:
  static constexpr std::size_t BYTES = std::size_t{4} << 20;  // of one buffer; docs/gpu.md says why
  explicit staging_pool(gpu& g, std::size_t max_pairs = 4, std::size_t bytes = BYTES)
      : gpu_(g), max_pairs_(max_pairs), bytes_(bytes) {}
  // Null when all are in use: later. Throws backend_error when memory cannot be pinned and there
  // is no pair at all to wait for.
  std::unique_ptr<pinned_pair> take();
  void give(std::unique_ptr<pinned_pair> pair) noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  gpu& gpu_;
  const std::size_t max_pairs_, bytes_;
  std::mutex mutex_;  // guards the two below
  std::vector<std::unique_ptr<pinned_pair>> free_;
  std::size_t made_ = 0;
};

class staged_transfer {
 public:
  // Fills (to_gpu) or takes (to_host) `size` bytes at `offset` of the transfer. False: not now, and
  // nothing was done.
  using piece_fn = bool (*)(void* arg, std::size_t offset, std::byte* piece,
                            std::size_t size) noexcept;
  struct request {
    direction way = direction::to_host;  // to_host or to_gpu
    abi::device_ptr gpu_memory = 0;
    std::size_t size = 0;
    piece_fn piece = nullptr;
    void* arg = nullptr;
    copy_completion* done = nullptr;  // may be null
  };

  staged_transfer(copier& with, staging_pool& pool, const request& what);
  // Only once ended, or before the first step().
  ~staged_transfer();
  staged_transfer(const staged_transfer&) = delete;
  staged_transfer& operator=(const staged_transfer&) = delete;

  // Does what can be done now, without waiting; true when the transfer has ended. Poll the copier
  // besides.
  bool step() noexcept;

 private:
  enum class stage : int { empty, filled, copying };
  struct half final : copy_completion {
    void on_copied(const failure& why) noexcept override;
    std::atomic<stage> at{stage::empty};
    stage after = stage::empty;  // copying
    failure error;               // of the last copy
    std::size_t offset = 0, size = 0;
  };
  bool acquire() noexcept;
  void step_out() noexcept;
  void step_in() noexcept;
  bool start_copy(half& h, std::size_t which) noexcept;
  bool is_copying() const noexcept;
  bool finish() noexcept;

  copier& copier_;
  staging_pool& pool_;
  const request what_;
  std::unique_ptr<pinned_pair> pair_;
  std::size_t piece_size_ = 0;
  std::size_t begun_ = 0;                   // bytes for which the first half of the work was begun
  std::size_t passed_ = 0;                  // bytes wholly through
  std::size_t next_in_ = 0, next_out_ = 0;  // halves: the next to start with, the next to end
  std::array<half, 2> halves_;
  failure error_;
  bool has_ended_ = false;
};

}  // namespace lci::cuda
