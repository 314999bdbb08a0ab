// Takes the copies that protocols ask of one GPU and hands them to its copier in batches: small
// ones are gathered while others of the same direction are under way and posted together, because a
// post costs 2 us alone and half a microsecond in company. Callers: accelerator. Threads: shared,
// all functions; lists are spliced under a short spinlock, which is never held across a driver call
// or a job's function.
// Always true: a job ends in exactly one on_copied(), from poll(), outside every lock. A job that
// the GPU cannot be asked for (no copier, a refused post) is told so by poll() as well. Once warm
// nothing is allocated per job. Nothing here waits for the GPU.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/cuda/copier.hpp"
#include "backends/cuda/copy_job_list.hpp"
#include "backends/cuda/resident.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

class copy_batcher {
 public:
  static constexpr std::size_t SMALL_UNDER_WAY = 2;  // batches per way: one runs, one is ready
  // While one batch is under way, the next one goes from this size on without waiting for a poll:
  // half of what a full one saves per copy (0.5 us of 2), and the GPU is not left idle.
  static constexpr std::size_t WORTH_A_POST = 16;
  static constexpr std::size_t LARGE_UNDER_WAY = 16;  // jobs per way, of which the GPU has chunks

  // Makes nothing yet.
  copy_batcher(gpu_list& gpus, int ordinal, const copier_limits& limits,
               const resident_options& wanted) noexcept;
  ~copy_batcher() = default;  // wants no job
  copy_batcher(const copy_batcher&) = delete;
  copy_batcher& operator=(const copy_batcher&) = delete;

  // The first job makes the copier, and with it the primary context: that may take a while.
  void add(mem::copy_job& job) noexcept;
  // The same for a job that goes now and alone, with a store behind it. False: others are under way
  // or were gathered before, or the GPU is busy with another thread; the job was not taken.
  bool add_flagged(mem::copy_job& job, const flag_write& flag) noexcept;
  // By the resident kernel, or not at all: false, and the job was not taken. The first delivery has
  // it made, if one is wanted.
  bool deliver(mem::delivery_job& job) noexcept {
    if (wanted_.blocks == 0 || ready() == nullptr) return false;
    resident* const one = kernel();
    return one != nullptr && one->take(job);
  }
  bool perform(mem::atomic_job& job) noexcept {
    resident* const one = kernel();
    return one != nullptr && one->take(job);
  }
  // Hands over what was gathered and tells what has ended; answers how many.
  std::size_t poll() noexcept;
  // Makes now what the first job would: the copier, and the resident kernel where one is wanted.
  void make_ready() noexcept { ready(); }
  // The resident kernel ends soon: for what waits for the GPU. The next job starts it again.
  void rest() noexcept;
  // edge cuda.copier_made: partner is ready().
  bool has_copier() const noexcept { return copier_.load(std::memory_order_acquire) != nullptr; }

 private:
  // Jobs of one way and size class.
  struct road {
    direction way = direction::to_gpu;
    bool is_large = false;
    copy_job_list gathered;
    std::size_t under_way = 0;  // posts
    std::size_t alone = 0;      // of the first ones: were refused in company, go one by one
    bool has_room() const noexcept {
      return under_way < (is_large ? LARGE_UNDER_WAY : SMALL_UNDER_WAY);
    }
  };
  // What one post of the copier is for.
  struct batch final : copy_completion {
    void on_copied(const failure& why) noexcept override { owner->end(*this, why); }
    copy_batcher* owner = nullptr;
    road* on = nullptr;
    copy_job_list jobs;
    bool is_alone = false;  // was to go without company
    failure error;
    batch* next = nullptr;  // free, or in failed_
  };
  using copy_array = std::array<copy, lane::BATCH>;

  copier* ready() noexcept;
  void make_resident_locked() noexcept;
  void add_to_copier(mem::copy_job& job) noexcept;
  resident* kernel() const noexcept {
    return kernel_.load(std::memory_order_acquire);  // edge cuda.resident_made
  }
  std::array<bool, 2 * DIRECTIONS> waiting_roads() noexcept;
  void refuse_all(const char* why) noexcept;
  batch* begin(road& on, copy_array& copies) noexcept;
  bool hand_over(copier& to, road& on) noexcept;
  road& road_of(const mem::copy_job& job) noexcept;
  copy_answer post(copier& to, std::span<const copy> copies, batch& what) noexcept;
  void put_back(batch& unwanted, bool one_by_one) noexcept;
  void put_back_locked(batch& unwanted, bool one_by_one) noexcept;
  void end(batch& ended, const failure& why) noexcept;
  void free_locked(batch& used) noexcept;
  std::size_t tell() noexcept;

  gpu_list& gpus_;
  const int ordinal_;
  const copier_limits limits_;
  const resident_options& wanted_;
  std::mutex making_;              // one thread makes the copier and the resident kernel
  std::unique_ptr<copier> owned_;  // under making_
  std::atomic<copier*> copier_{nullptr};
  std::unique_ptr<resident> owned_kernel_;  // under making_
  std::atomic<resident*> kernel_{nullptr};  // null: none is wanted, or it cannot be had

  base::spinlock lock_;                 // guards all below
  std::atomic<std::size_t> untold_{0};  // jobs taken over and not given to tell(); read by any
  std::array<road, 2 * DIRECTIONS> roads_;
  // One per post that can be under way, and some whose failure is not told yet.
  std::array<batch, DIRECTIONS*(SMALL_UNDER_WAY + LARGE_UNDER_WAY)> batches_;
  batch* free_ = nullptr;
  batch* failed_ = nullptr;
  copy_job_list copied_;   // ended well
  copy_job_list refused_;  // there is no copier for them,
  std::string refusal_;    // for this reason
};

}  // namespace lci::cuda
