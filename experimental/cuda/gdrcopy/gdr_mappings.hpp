// Parts of this process's GPU memory that the processor has mapped, to copy a few bytes without the
// GPU (gdrcopy). Pinning takes far longer than such a copy, so mappings are kept: windows of large
// allocations, found by address and by the allocation's buffer id. Callers: accelerator. Threads:
// shared; the first use of a window makes calls of the kernel, and others that need a new one wait
// for it.
// Always true: a mapping is used only for the allocation that it was made for, as it is now; one
// that is in use is not undone. How many there are, and their bytes, are bounded, since all
// processes of a machine share the GPU's window (BAR1, 256 MiB on some): the one not used for
// longest goes. What could not be mapped is remembered, and said once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cpu_copy.hpp"
#include "backends/cuda/gpu.hpp"
#include "backends/cuda/pointer.hpp"
#include "experimental/cuda/gdrcopy/gdr_library.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::cuda {

struct gdr_limits {
  std::size_t entries = 64;                         // windows, with those that could not be mapped
  std::size_t bytes = std::size_t{32} << 20;        // mapped
  std::size_t window = std::size_t{1} << 20;        // starts at multiples of that; a power of two
  static constexpr std::size_t LONGEST = 64 << 10;  // copy; windows overlap by so much
};

class gdr_mappings final : public cpu_copy {
 public:
  gdr_mappings(gpu_list& gpus, std::span<const char* const> libraries,
               const gdr_limits& limits = {});
  ~gdr_mappings() override;  // wants nobody inside
  gdr_mappings(const gdr_mappings&) = delete;
  gdr_mappings& operator=(const gdr_mappings&) = delete;

  // Empty, or one sentence; then nothing can be mapped.
  const std::string& why_not() const noexcept { return library_.why_not(); }

  // More than LONGEST is not copied.
  bool write(const allocation& of, abi::device_ptr to, const void* from,
             std::size_t size) noexcept override;
  bool read(const allocation& of, void* to, abi::device_ptr from,
            std::size_t size) noexcept override;

 private:
  struct window {
    allocation of;
    abi::device_ptr start = 0;  // whole pages of the GPU
    std::size_t size = 0;
    gdr_handle pinned;
    std::byte* at = nullptr;         // null: it could not be mapped
    std::uint64_t last_use = 0;      // under lock_
    std::atomic<unsigned> users{0};  // grows under lock_ only
  };
  using key = std::pair<abi::device_ptr, std::uint64_t>;  // number of the window, buffer id
  using window_map = std::map<key, std::unique_ptr<window>>;
  using window_list = std::vector<std::unique_ptr<window>>;
  class use;

  window* find(const key& where) noexcept;
  window* find_or_make(const allocation& of, abi::device_ptr at);
  std::unique_ptr<window> plan(const allocation& of, abi::device_ptr number) const;
  bool make_room(const window& wanted, window_list& gone);
  window* oldest_locked() noexcept;
  void take_out_locked(window& old, window_list& gone);
  std::string map(window& one);
  void undo(window& one) noexcept;
  void say(const window& of, const std::string& why) noexcept;

  gpu_list& gpus_;
  const gdr_limits limits_;
  gdr_library library_;
  std::mutex making_;      // one thread pins, maps and undoes that; taken before lock_
  bool has_said_ = false;  // under making_
  base::spinlock lock_;    // guards all below
  window_map windows_;
  std::size_t bytes_ = 0;  // mapped, or about to be
  std::uint64_t uses_ = 0;
};

}  // namespace lci::cuda
