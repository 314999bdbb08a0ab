// The resident copy kernel of one GPU, as the processor sees it: hands small copies, deliveries and
// atomic operations to a kernel that is running and polls their ends in host memory, 3 us from GPU
// to GPU where the copy engine takes 6.5. The kernel ends by itself, and is launched again when the
// next job finds that it has ended. Callers: copy_batcher. Threads: shared; one spinlock, never
// held across a driver call or a job's function. Always true: a job is only taken while the kernel
// is known to run; one that was taken is reported once, from poll(), or, when the kernel has ended
// without it, goes by the copy engine in a wrapper that keeps its flag or signal; atomic operations
// then go where resident_options say. Nothing here waits for the GPU, but for the destructor.
// Figures and what it costs others: docs/gpu.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backends/cuda/copy_job_list.hpp"
#include "backends/cuda/lane.hpp"
#include "backends/cuda/pinned_ranges.hpp"
#include "backends/cuda/resident_command.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::cuda {

struct resident_options {
  int blocks = 0;  // 0: none is wanted
  std::span<const unsigned char> image;
  const pinned_ranges* pinned = nullptr;
  std::uint64_t idle_ns = 1'000'000;
  std::uint64_t life_ns = 10'000'000;
  mem::accelerator* words =
      nullptr;  // performs signals and atomic operations that missed the kernel
};

// What has ended and is to be told.
struct ended_jobs {
  copy_job_list copies;
  mem::delivery_job* deliveries = nullptr;  // in no order, through next, as those below
  mem::atomic_job* atomics = nullptr;
  bool is_empty() const noexcept {
    return copies.count == 0 && deliveries == nullptr && atomics == nullptr;
  }
  std::size_t tell(std::string_view error) noexcept;  // answers how many
};

class resident {
 public:
  // Up to these sizes the kernel is faster than the copy engine, or as fast (docs/gpu.md).
  static constexpr std::size_t KIB = 1024;
  static constexpr std::size_t TO_PEER_PER_BLOCK = 128 * KIB;
  static constexpr std::size_t TO_PEER_MOST = 1024 * KIB;
  static constexpr std::size_t TO_DEVICE_MOST = 16 * KIB;
  static constexpr std::size_t TO_HOST_MOST = 32 * KIB;
  static constexpr std::size_t ASKEW_MOST = 4 * KIB;   // ends that are not aligned alike
  static constexpr std::size_t ALONE_MOST = 64 * KIB;  // one block; more is shared,
  static constexpr std::size_t SHARE = 32 * KIB;       // each block gets about this or more

  // Loads the kernel, which may wait for kernels of the program. Launches nothing. Throws
  // backend_error.
  resident(gpu& g, const resident_options& options);
  // Waits for the kernel, which it tells to end. Wants no job.
  ~resident();
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;

  // Takes the job if the kernel runs and can do it. `flag`: 8 bytes, or none.
  bool take(mem::copy_job& job, const flag_write& flag) noexcept;
  // The same for a delivery, and for an atomic operation whose masks say all bits or none.
  bool take(mem::delivery_job& job) noexcept;
  bool take(mem::atomic_job& job) noexcept;
  // Tells what has ended and answers how many; launches the kernel if a job missed it. `unwanted`
  // gets jobs for the copy engine.
  std::size_t poll(copy_job_list& unwanted) noexcept;
  // The kernel ends within some 30 us; the next job starts it again.
  void stop() noexcept;

 private:
  using layout_control = resident_layout::control;
  using layout_command = resident_layout::command;
  enum class state : std::uint8_t { none, launched, off };
  // A job that the kernel has taken, and what takes its place when the kernel has ended without it.
  struct slot final : mem::copy_job {
    void on_copied(std::string_view error) noexcept override;
    void raise_signal() noexcept;
    void end_delivery(std::string_view error) noexcept;
    resident* owner = nullptr;
    mem::copy_job* job = nullptr;  // one of the three is there
    mem::delivery_job* delivery = nullptr;
    mem::atomic_job* atomic = nullptr;
    flag_write flag;
    std::uint32_t number = 0;  // in the command that is or was here
    // The signal of a delivery of which the copy engine has brought the bytes.
    struct signal final : mem::atomic_job {
      void on_performed(std::string_view error) noexcept override { of->end_delivery(error); }
      slot* of = nullptr;
    } signal;
  };

  void open();
  void close() noexcept;
  bool is_fit(const mem::copy_job& job, const flag_write& flag) const noexcept;
  bool is_running_locked() noexcept;
  slot* begin_locked() noexcept;
  std::size_t number_of(const slot& one) const noexcept {
    return static_cast<std::size_t>(&one - slots_.data());
  }
  layout_command& next_command_locked(std::uint32_t& turn) noexcept;
  static void write_part(resident_layout::part& to, std::uint64_t value, std::uint32_t detail,
                         std::uint32_t turn) noexcept;
  // Where bytes for that address are kept, aligned alike.
  std::byte* bytes_of(std::size_t which, const std::byte* to) const noexcept {
    return reinterpret_cast<std::byte*>(control_->bytes[which]) +
           reinterpret_cast<std::uintptr_t>(to) % 16;
  }
  void end_slot_locked(std::size_t which, ended_jobs& to) noexcept;
  std::size_t go_elsewhere(mem::atomic_job* atomics, std::uint64_t signals) noexcept;
  void write_locked(std::size_t which) noexcept;
  void write_part_locked(unsigned ring, const slot& of, std::size_t which, std::size_t begin,
                         std::size_t size, unsigned shares) noexcept;
  void collect_locked(ended_jobs& ended) noexcept;
  void give_back_locked(copy_job_list& unwanted, mem::atomic_job*& atomics,
                        std::uint64_t& signals) noexcept;
  void launch() noexcept;
  std::size_t examine() noexcept;
  std::size_t give_up(const failure& why) noexcept;

  gpu& gpu_;
  const resident_options options_;
  const std::size_t to_peer_most_;
  abi::context context_ = nullptr;
  abi::stream stream_ = nullptr;
  abi::code_module module_ = nullptr;
  abi::function kernel_ = nullptr;
  layout_control* control_ = nullptr;  // pinned, and the rings behind it
  layout_command* rings_ = nullptr;
  resident_layout::arguments arguments_{};

  // Numbers only, for poll() to find that there is nothing to do; what they count is under lock_.
  std::atomic<std::uint64_t> busy_{0};  // slots, by bit: with the kernel
  std::atomic<bool> is_wanted_{false};  // a job missed the kernel
  base::spinlock lock_;                 // guards all below
  state state_ = state::none;
  std::uint32_t launch_ = 0;  // number of the newest launch
  std::uint64_t away_ = 0;    // slots, by bit: with the copy engine
  unsigned next_ring_ = 0;
  unsigned idle_looks_ = 0;
  std::array<std::uint32_t, resident_layout::MOST_BLOCKS> turns_;  // of the next command, by ring
  std::array<slot, resident_layout::SLOTS> slots_;
};

}  // namespace lci::cuda
