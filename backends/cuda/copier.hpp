// Moves bytes with a GPU's copy engines, on streams of lci's own: two per direction, one for small
// copies and one for bulk. Callers: the protocols' GPU paths, staging. Threads: shared; one thread
// at a time is inside, the others get retry_lock (posts) or nothing (poll).
// Always true: nothing here waits for the GPU, but for the destructor. A post that answered posted
// ends in exactly one call of its completion, from poll(), outside the lock; any other answer means
// that nothing was begun. A small copy never stands behind bulk that the GPU has not begun:
// bulk is handed over in chunks, `depth` at a time. There is no order between two posts.
// Figures and their source: docs/gpu.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "backends/cuda/lane.hpp"
#include "lci/types.hpp"

namespace lci::cuda {

// Where the bytes go, as seen from the GPU whose copier it is. Host memory may be pageable; pinned
// is faster, and only with it the call returns before the copy.
enum class direction : std::uint8_t { to_gpu, to_peer, to_host };
inline constexpr std::size_t DIRECTIONS = 3;

class copy_completion {
 public:
  virtual void on_copied(const failure& error) noexcept = 0;

 protected:
  ~copy_completion() = default;
};

struct copier_limits {
  std::size_t small_max = std::size_t{256} << 10;  // bytes of a post that goes to the small stream
  // Chunks of bulk: while small copies are about, and while there are none.
  std::size_t busy_chunk = std::size_t{4} << 20;
  std::size_t quiet_chunk = std::size_t{64} << 20;
  std::size_t depth = 2;  // chunks handed over; more gains nothing
};

struct copy_answer {
  errorcode_t code = errorcode_t::done;  // done, posted, retry_lock, retry_nomem, fatal
  failure error;                         // of fatal: this post cannot be made
};

class copier {
 public:
  static constexpr std::size_t BULK_QUEUE = 64;  // bulk posts under way per direction

  // Throws backend_error.
  explicit copier(gpu& g, const copier_limits& limits = {});
  // Waits for what was handed over. Posts not yet complete are forgotten: poll until is_idle().
  ~copier();
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;

  // One copy of any size, or up to lane::BATCH copies of together at most small_max; then the flag.
  // Copies of size 0 are left out; done if nothing is left to do. `to` may be null.
  copy_answer post(direction way, std::span<const copy> copies, const flag_write& flag,
                   copy_completion* to) noexcept;
  // Writes up to lane::STORES words in the same way, faster than copies would: for a GPU with
  // facts().stream_stores. The driver may refuse memory that it would copy to.
  copy_answer post_stores(direction way, std::span<const flag_write> stores,
                          copy_completion* to) noexcept;
  // Calls completions and hands over further bulk; answers how many ended.
  std::size_t poll() noexcept;
  // edge cuda.copier_idle: partner is the end of poll().
  bool is_idle() const noexcept { return pending_.load(std::memory_order_acquire) == 0; }
  const copier_limits& limits() const noexcept { return limits_; }
  gpu& device() noexcept { return gpu_; }

 private:
  // A large copy of which the first `handed_over` bytes are in the bulk lane or done.
  struct bulk_post {
    copy what;
    flag_write flag;
    copy_completion* to = nullptr;
    std::size_t handed_over = 0;
    std::size_t chunks = 0;  // of it, in the lane
    failure error;
  };
  struct road {
    lane small, bulk;
    std::array<bulk_post, BULK_QUEUE> queue;
    std::uint64_t first = 0, last = 0;  // posts first..last-1 are not complete
    std::uint64_t next = 0;             // the first that is not wholly handed over
  };
  struct ended {
    copy_completion* to;
    failure error;
  };
  static constexpr std::size_t AT_ONCE = 32;  // completions collected under the lock
  using ended_list = std::array<ended, AT_ONCE>;

  void close() noexcept;
  template <class HandOver>
  copy_answer post_locked(direction way, HandOver&& hand_over) noexcept;
  template <class Begin>
  copy_answer post_small_locked(road& on, Begin&& begin) noexcept;
  copy_answer post_bulk_locked(road& on, const copy& what, const flag_write& flag,
                               copy_completion* to) noexcept;
  void feed_locked(road& on) noexcept;
  std::size_t chunk_locked() const noexcept;
  std::size_t collect_locked(road& on, ended_list& out, std::size_t count) noexcept;
  bool finish_bulk_locked(road& on, ended& out) noexcept;
  bool needs_calls_locked(const road& on) const noexcept;
  std::size_t service_locked(road& on, ended_list& out, std::size_t count) noexcept;

  gpu& gpu_;
  const copier_limits limits_;
  std::atomic<bool> inside_{false};      // the lock: taken by try only
  std::atomic<std::size_t> pending_{0};  // posts not yet complete
  abi::context context_ = nullptr;
  void* pinned_ = nullptr;
  std::size_t small_recently_ = 0;  // bulk chunks for which small copies still count as being about
  std::array<road, DIRECTIONS> roads_;
};

}  // namespace lci::cuda
