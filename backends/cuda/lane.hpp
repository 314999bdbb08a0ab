// One non-blocking stream with a record of what is under way in it. The stream itself says
// how far it is: behind each piece of work it writes a running number into a word of pinned host
// memory, so that looking costs a load (0.03 us; asking for an event takes 1.3 us and a lock of the
// driver). Where the GPU cannot write such words, events take their place.
// Callers: copier, under its lock. Threads: single (suffix _st), no lock of its own.
// Always true: work that was begun ends in exactly one entry given back by take_st(), with success
// or with the error that stopped the stream; entries come back in order. After an error nothing
// more is accepted. No call in here waits for the GPU, but for close_st().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "backends/cuda/errors.hpp"
#include "backends/cuda/gpu.hpp"

namespace lci::cuda {

struct copy {
  abi::device_ptr to;  // GPU memory, a peer's mapping, or host memory
  abi::device_ptr from;
  std::size_t size;  // not preset: arrays of these are made for each post
};

// A store that becomes visible after the copies before it, in memory that the driver knows (pinned,
// registered, a GPU's, a peer's mapping). bytes: 4 or 8, aligned; 0 = none.
struct flag_write {
  abi::device_ptr address = 0;
  std::uint64_t value = 0;
  unsigned bytes = 0;
};

class lane {
 public:
  static constexpr std::size_t DEPTH = 256;  // pieces of work under way
  static constexpr std::size_t BATCH = 64;   // copies in one piece
  static constexpr std::size_t STORES = 8;   // stores in one piece

  // What one lane needs in pinned memory: its progress word and the values of flags.
  struct pinned {
    alignas(64) std::atomic<std::uint64_t> reached;
    std::array<std::uint64_t, DEPTH> values;
  };

  // Where the copies of this lane come from. Small ones out of host memory are cut into two rows.
  enum class source : std::uint8_t { any, host };
  // The context of `g` is current. Throws backend_error.
  void open_st(gpu& g, pinned& memory, source from = source::any);
  // The context is current, or lost. Waits for what is under way.
  void close_st() noexcept;

  bool is_full_st() const noexcept { return issued_ - taken_ == DEPTH; }
  bool is_idle_st() const noexcept { return issued_ == taken_; }
  std::size_t under_way_st() const noexcept { return issued_ - taken_; }
  const failure& broken_st() const noexcept { return broken_; }

  // The context is current, the lane not full, no copy of size 0, at most BATCH copies. An error
  // means that nothing was begun. `tag` comes back in take_st(). Where copies are separate calls
  // and a later one is refused, the entry has that error once the others are through, without the
  // flag.
  failure begin_st(std::span<const copy> copies, const flag_write& flag, void* tag) noexcept;
  // The same with stores in place of copies, for a GPU with facts().stream_stores; at most STORES,
  // not none. The stream writes the values and its progress in one call of the driver.
  failure begin_stores_st(std::span<const flag_write> stores, void* tag) noexcept;
  // The oldest entry if it has ended. False: none has.
  struct entry {
    void* tag = nullptr;
    failure error;
  };
  bool take_st(entry& out) noexcept;
  // Looks for errors that would keep the words from ever changing. The context is current.
  void examine_st() noexcept;
  // The context is lost: what is under way ends with this error.
  void abandon_st(const failure& why) noexcept;
  // Whether enough looks have found nothing for that to be worth it.
  bool wants_examination_st() const noexcept { return idle_looks_ >= LOOKS; }

 private:
  static constexpr unsigned LOOKS = 1024;  // looks without progress between two examinations
  bool is_cut_st(const copy& one) const noexcept;
  failure copy_one_st(const copy& one) noexcept;
  failure copy_all_st(std::span<const copy> copies, std::size_t& begun) noexcept;
  failure write_flag_st(const flag_write& flag) noexcept;
  failure mark_st() noexcept;
  bool has_reached_st(std::uint64_t number) noexcept;

  const abi::functions* call_ = nullptr;
  pinned* memory_ = nullptr;
  abi::device_ptr reached_at_ = 0;  // the progress word as the GPU names it
  abi::device_ptr values_at_ = 0;
  bool writes_ = false;  // the stream can write words
  bool cuts_ = false;    // copies that the driver would write into commands
  abi::stream stream_ = nullptr;
  std::array<abi::event, DEPTH> events_{};  // without stream writes; made when first needed
  std::array<void*, DEPTH> tags_{};
  std::array<failure, DEPTH> refused_{};  // a copy of that piece, which ends all the same
  std::uint64_t issued_ = 0;              // number of the newest piece; the first is 1
  std::uint64_t taken_ = 0;               // number of the newest piece given back
  std::uint64_t known_ = 0;               // numbers up to this one are known to have ended
  unsigned idle_looks_ = 0;
  failure broken_;         // what stopped the stream
  bool is_quiet_ = false;  // after broken_: the GPU touches the buffers no more
};

}  // namespace lci::cuda
