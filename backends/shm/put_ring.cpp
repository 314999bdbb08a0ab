#include "backends/shm/put_ring.hpp"

#include <sys/mman.h>

namespace lci::shm {

put_ring::put_ring(mem::arena& from)
    : bytes_(static_cast<std::byte*>(from.allocate(SIZE, LANE_ALIGN))) {}

void put_ring::forget_bytes() noexcept { madvise(bytes_, SIZE, MADV_REMOVE); }

void put_ring::look(const tx_lane& lane, std::uint32_t need) noexcept {
  retire(lane);
  const std::uint32_t start = next_lap();
  looked_ = written_;
  if (first_ == last_) {
    freed_ = written_ = looked_ = start;
    return;
  }
  const bool is_wide = written_ % SIZE >= FEW_BYTES;
  if (need > SMALL || !is_wide || start + FEW_BYTES / 2 - freed_ > SIZE) return;
  written_ = looked_ = start;
}

void put_ring::retire(const tx_lane& lane) noexcept {
  while (first_ != last_) {
    const put& oldest = puts_[first_ % puts_.size()];
    if (!lane.is_consumed(oldest.position)) return;
    freed_ = oldest.end;
    ++first_;
  }
  freed_ = written_;
}

}  // namespace lci::shm
