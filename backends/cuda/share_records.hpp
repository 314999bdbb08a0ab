// What peers of this machine read to map GPU memory of this process: one record of 128 bytes in the
// arena per allocation, made at its first use and found again by its base. VMM memory needs a
// descriptor besides: the record tells its number, and the peer fetches it out of this process
// while it is open. Callers: accelerator (share_records), peer_maps (share_record). Threads:
// shared; an export takes the lock along for microseconds to milliseconds.
// Always true: a record is used for the owner's identity of the memory only. One that is written
// anew has another check, and a descriptor is closed after its record was rewritten, so that a peer
// that finds the record unchanged after it has fetched a number has fetched the right descriptor.
// Descriptors keep the memory behind them: those of freed memory are closed at the next export.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/cuda/pointer_cache.hpp"
#include "backends/cuda/share.hpp"
#include "lci/mem/accelerator.hpp"
#include "lci/mem/arena.hpp"

namespace lci::cuda {

struct share_record {
  using bytes = std::array<std::byte, mem::SHARE_RECORD_BYTES>;
  using pci_text = std::array<char, 16>;

  share_ticket ticket;
  std::int32_t descriptor = -1;  // the owner's number of it; -1: needs none
  pci_text pci{};                // bus id of the GPU, which names it in every process

  bytes encode() const noexcept;
  // Nothing when it is not one, or a descriptor is missing or too much.
  static std::optional<share_record> decode(const bytes& from) noexcept;
  // Never 0. Tells records apart; any process can make one that fits.
  static std::uint32_t check_of(const bytes& what) noexcept;
  // To and from memory that another process has mapped, word by word; `shared` is a multiple of 8.
  static void write(std::byte* shared, const bytes& what) noexcept;
  static bytes read(const std::byte* shared) noexcept;
};

class share_records {
 public:
  static constexpr std::size_t RECORDS = 1024;
  static constexpr std::size_t DESCRIPTORS = 128;  // of those; a process has 1024 as a rule

  share_records(gpu_list& gpus, pointer_cache& pointers, mem::arena& place,
                std::size_t limit = RECORDS, std::size_t descriptor_limit = DESCRIPTORS);
  ~share_records();  // peers find nothing any more
  share_records(const share_records&) = delete;
  share_records& operator=(const share_records&) = delete;

  // The record of the allocation that holds [at, at + size): two look-ups where it was asked for
  // before. record 0: `why_not` is a sentence.
  mem::share_place share(const void* at, std::size_t size, std::string& why_not);
  // As mem::accelerator::hold_share(). The place of what was written anew meanwhile is ignored.
  void hold(const mem::share_place& place, int change) noexcept;
  std::size_t size() const;

 private:
  struct entry {
    identity id;
    std::size_t size = 0;  // of the allocation
    std::byte* shared = nullptr;
    std::uint32_t check = 0;
    descriptor fd;
    std::uint64_t last_use = 0;
    std::size_t holds = 0;  // of those that go on naming it
  };
  using map = std::unordered_map<abi::device_ptr, entry>;

  mem::share_place place_of(const entry& known) const noexcept;
  mem::share_place publish_locked(const allocation& what, exported out);
  entry& room_locked(abi::device_ptr base, bool with_descriptor);
  map::iterator oldest_locked(bool with_descriptor) noexcept;
  std::size_t descriptors_locked() const noexcept;
  void close_stale_locked() noexcept;
  void drop_locked(map::iterator gone) noexcept;

  gpu_list& gpus_;
  pointer_cache& pointers_;
  mem::arena& arena_;
  const std::size_t limit_, descriptor_limit_;
  mutable std::mutex mutex_;  // guards all below
  map entries_;               // by base
  std::uint64_t clock_ = 0;   // counts uses, for the order of the least recently used
};

}  // namespace lci::cuda
