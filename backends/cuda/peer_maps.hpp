// The peer's side of sharing GPU memory: reads the record that the owner has published, fetches the
// descriptor that VMM memory needs out of the owner's process (pidfd_getfd), and keeps what was
// mapped, for each GPU of this process in an import_cache. Callers: accelerator. Threads: shared.
// Always true: the record is a peer's memory: it is copied once and only the copy is believed,
// after it was checked. CUDA opens no IPC handle in the process that made it: such memory of a peer
// in our own process is used where it lies. What could not be mapped is remembered with its
// sentence, for that identity of the memory, and not tried again for each message, unless what was
// in the way may pass.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/import_cache.hpp"
#include "backends/cuda/share_records.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/accelerator.hpp"

namespace lci::cuda {

// The system calls that fetch a descriptor; tests pass failing ones.
struct descriptor_calls {
  int (*open_process)(int pid) = nullptr;           // a descriptor, or -1 with errno
  int (*fetch)(int process, int number) = nullptr;  // the same
};
const descriptor_calls& system_descriptor_calls() noexcept;

class peer_maps {
 public:
  static constexpr std::size_t REFUSALS = 1024;  // remembered; more of them forget all

  // held: how many may be waiting for us on a GPU; see import_cache.
  explicit peer_maps(gpu_list& gpus, const descriptor_calls& calls = system_descriptor_calls(),
                     const std::atomic<std::size_t>* held = nullptr) noexcept
      : gpus_(gpus), calls_(calls), held_(held) {}
  peer_maps(const peer_maps&) = delete;
  peer_maps& operator=(const peer_maps&) = delete;

  // As mem::accelerator::map().
  mem::mapped_memory map(const mem::peer_range& what, int device, std::string& why_not);
  // As mem::accelerator::has_peer_atomics().
  bool has_atomics(const mem::peer_range& what, int device) noexcept;
  void forget(int rank) noexcept;
  // Closes mappings that are not needed any more; may wait for the GPU. Without it they stay, up to
  // UNCLOSED per GPU, because progress must not wait.
  void tidy() noexcept;

 private:
  static constexpr std::size_t MAPPINGS = 256, UNCLOSED = 256;
  // Why memory could not be mapped.
  struct reason {
    std::string& text;
    bool may_pass = false, has_owner_ended = false;
  };
  struct refusal {
    identity id;
    std::string why;
  };
  // A record that was read and found valid before, by its place and check: what a message needs of
  // it without reading it again.
  struct seen {
    const std::byte* record = nullptr;
    std::uint32_t check = 0;
    int rank = -1;
    std::uint64_t base = 0, size = 0;
    identity id;
    bool is_on_same_gpu = false;
  };
  static constexpr std::size_t SEEN = 64;
  struct view {
    view(gpu& g, const std::atomic<std::size_t>* held) : cache(g, MAPPINGS, UNCLOSED, held) {}
    import_cache cache;
    std::array<seen, SEEN> known{};  // under known_lock
    base::spinlock known_lock;
    std::map<std::pair<int, std::uint64_t>, refusal> refused;  // rank, base there; under mutex_
  };
  view& view_of(int device);
  static imported find_seen(view& on, const mem::peer_range& what, seen& found) noexcept;
  static void note_seen(view& on, const mem::peer_range& what, const share_ticket& ticket,
                        bool is_on_same_gpu) noexcept;
  mem::mapped_memory own(view& on, const mem::peer_range& what, const share_record& record,
                         std::string& why_not);
  imported open(view& on, const mem::peer_range& what, const share_record& record, reason& why);
  imported open_in(view& on, int rank, const share_ticket& ticket, descriptor fd, reason& why);
  template <class Action>
  void for_each_view(Action&& action);
  // The GPU that the record names; null: it is not one of this process.
  gpu* owner_of(const share_record& record);
  descriptor fetch(const mem::peer_range& what, const share_record& record, reason& why);
  bool has_ended(int process) const noexcept;
  std::string known_refusal(const view& on, int rank, const share_ticket& ticket) const;
  void remember_refusal(view& on, int rank, const share_ticket& ticket, const std::string& why);

  gpu_list& gpus_;
  const descriptor_calls calls_;
  const std::atomic<std::size_t>* const held_;
  mutable std::mutex mutex_;                  // guards the list and what views refused
  std::vector<std::unique_ptr<view>> views_;  // by GPU; stay once made
};

}  // namespace lci::cuda
