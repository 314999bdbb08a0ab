// Memory of peers' GPUs that is mapped here. Opening a handle costs 35 us to 9 ms, so mappings are
// kept: found by peer and the owner's address, valid only for the owner's identity of it. Callers:
// the GPU paths between processes. Threads: shared; open() may take milliseconds under the lock.
// Always true: a mapping in use (`imported` alive) is never unmapped. It is dropped at its next use
// with another identity, when the owner has other memory at some of its addresses, when the peer
// goes, or as the one not used for longest when there are too many. Nothing tells us that its owner
// has deregistered or freed it: until then the peer's memory stays resident.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/share.hpp"
#include "backends/cuda/vmm_mapping.hpp"

namespace lci::cuda {

class import_cache;

// Keeps a mapping alive; empty after a failure. Threads: single.
class imported {
 public:
  imported() = default;
  imported(imported&& other) noexcept;
  imported& operator=(imported&& other) noexcept;
  ~imported();
  explicit operator bool() const noexcept { return entry_ != nullptr; }
  abi::device_ptr base() const noexcept;  // of the whole allocation, here
  std::size_t size() const noexcept;
  // Where a part of it lies here; 0 if it is not wholly inside.
  abi::device_ptr at(std::uint64_t offset, std::size_t bytes) const noexcept;
  // To an owner that knows a pointer and a function to end its use.
  void* detach() noexcept { return std::exchange(entry_, nullptr); }
  static void release(void* detached) noexcept;

 private:
  friend class import_cache;
  struct entry;
  entry* entry_ = nullptr;
};

class import_cache {
 public:
  static constexpr std::size_t PATIENCE = 16;

  // Mappings are made for GPU `g`: its copies use them.
  // Up to `unclosed` CUDA IPC mappings that are not needed any more wait for tidy(), and while
  // *held is not 0 (streams or kernels may wait for us, and closing would wait for them) up to
  // PATIENCE times as many; then open() refuses. `who` may access VMM memory that is mapped.
  explicit import_cache(gpu& g, std::size_t limit = 256, std::size_t unclosed = 0,
                        const std::atomic<std::size_t>* held = nullptr,
                        vmm_access who = vmm_access::one_gpu);
  ~import_cache();  // wants no `imported` alive
  import_cache(const import_cache&) = delete;
  import_cache& operator=(const import_cache&) = delete;

  // The mapping if it is there and still the one meant; drops another one. Costs a look-up.
  imported find(int peer, std::uint64_t base, const identity& id) noexcept;
  // Maps what the ticket names, or finds it. Takes the descriptor in any case. On failure the
  // result is empty and `why_not` a sentence; may_pass: the same may work later, as after a want of
  // memory, or once the caches of this process's other GPUs have made way.
  imported open(int peer, const share_ticket& ticket, descriptor fd, std::string& why_not,
                bool* may_pass = nullptr);

  // For users that keep nothing: unmapped now if it is not in use.
  void drop_unused(int peer, std::uint64_t base) noexcept;
  void drop_peer(int peer) noexcept;  // died or left
  // For another cache's open(), since the driver has one address space for all GPUs of a process:
  // lets go of what overlaps the ticket's memory of that peer; all: of whatever of it is not used.
  void make_way(int peer, const share_ticket& ticket, bool all) noexcept;
  // Closes what waits for it; may wait for the GPU.
  void tidy() noexcept;
  std::size_t size() const noexcept;  // mappings, those in use included, not those that wait
  // Mappings may be closed. While not, what open() refuses may work later.
  bool may_close() const noexcept {
    return held_ == nullptr || held_->load(std::memory_order_relaxed) == 0;
  }
  gpu& device() noexcept { return gpu_; }

 private:
  friend class imported;
  using entry = imported::entry;
  using key = std::pair<int, std::uint64_t>;  // peer, base at the owner
  void release(entry* used) noexcept;
  imported find_locked(int peer, std::uint64_t base, const identity& id) noexcept;
  imported use_locked(entry& found) noexcept;
  void retire_locked(entry& old) noexcept;
  void make_room_locked() noexcept;
  void close_overlapped_locked(int peer, const share_ticket& ticket) noexcept;
  void close_unused_locked(int peer) noexcept;
  failure map_locked(const share_ticket& ticket, const descriptor& fd, entry& to);
  failure map_legacy(const share_ticket& ticket, entry& to) noexcept;
  failure map_vmm(const share_ticket& ticket, const descriptor& fd, entry& to) noexcept;
  void drop_locked(std::unique_ptr<entry> old) noexcept;
  void unmap(entry& old) noexcept;

  gpu& gpu_;
  const std::size_t limit_, unclosed_limit_;
  const std::atomic<std::size_t>* const held_;
  const vmm_access who_;
  mutable std::mutex mutex_;  // guards all below
  std::map<key, std::unique_ptr<entry>> entries_;
  // Replaced while in use: unmapped by the last user. Their keys may be in entries_ again.
  std::multimap<key, std::unique_ptr<entry>> retired_;
  std::vector<std::unique_ptr<entry>> unclosed_;
  std::uint64_t clock_ = 0;  // counts uses, for the order of the least recently used
};

}  // namespace lci::cuda
