// Cutting, storing and growing. Threads: see the header.
#include "lci/mem/packet_store.hpp"

#include <algorithm>
#include <exception>
#include <new>

namespace lci::mem {

packet_store::packet_store(arena& arena, packet_home* pool, std::size_t packet_size,
                           std::size_t limit)
    : arena_(arena),
      pool_(pool),
      capacity_(packet_size - sizeof(packet)),
      stride_(packet_size),
      limit_(limit),
      chunk_packets_(std::clamp<std::size_t>(CHUNK_BYTES / stride_, 4, 64)),
      credits_(limit / 2) {
  // Growing happens in noexcept code: the list of chunks must not need memory then.
  chunks_.reserve((limit + chunk_packets_ - 1) / chunk_packets_);
}

packet_store::~packet_store() {
  if (!all_home_) return;  // a packet is still being read or written: its memory stays
  for (const chunk& c : chunks_) arena_.free(c.start, c.packets * stride_);
}

bool packet_store::fill(magazine& into) noexcept {
  do {
    {
      const std::lock_guard<base::spinlock> lock(lock_);
      if (packet* const chain = chains_) {
        chains_ = reinterpret_cast<packet*>(static_cast<std::uintptr_t>(chain->note));
        stored_.store(stored_.load(std::memory_order_relaxed) - chain->length,
                      std::memory_order_relaxed);
        into.load(chain, chain->length);
        return true;
      }
    }
    if (cut(into)) return true;
  } while (grow());
  return false;
}

void packet_store::drain(magazine& from) noexcept {
  const std::uint32_t count = from.count();
  if (count == 0) return;
  packet* const chain = from.release();
  chain->length = count;
  const std::lock_guard<base::spinlock> lock(lock_);
  chain->note = reinterpret_cast<std::uintptr_t>(chains_);
  chains_ = chain;
  stored_.store(stored_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

// Cuts a few packets from memory that has not held packets before.
bool packet_store::cut(magazine& into) noexcept {
  std::byte* start = nullptr;
  std::size_t count = 0;
  {
    const std::lock_guard<base::spinlock> lock(lock_);
    count = std::min<std::size_t>(fresh_packets_, CUT);
    start = fresh_;
    fresh_ += count * stride_;
    fresh_packets_ -= count;
    cut_.store(cut_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  // Outside the lock: the first touch of a page goes to the kernel.
  for (std::size_t i = count; i-- > 0;) {
    auto* const p = new (start + i * stride_) packet;
    p->capacity = static_cast<std::uint32_t>(capacity_);
    p->pool = pool_;
    into.push(p);
  }
  return count != 0;
}

// Adds a chunk; false when the limit is reached or the arena is exhausted. Also true when another
// thread has added one meanwhile.
bool packet_store::grow() noexcept {
  const std::lock_guard<std::mutex> growing(growing_);
  {
    const std::lock_guard<base::spinlock> lock(lock_);
    if (fresh_packets_ != 0) return true;
  }
  const std::size_t packets = std::min(chunk_packets_, limit_ - reserved_);
  if (packets == 0) return false;
  try {
    auto* const start = static_cast<std::byte*>(arena_.allocate(packets * stride_));
    chunks_.push_back({start, packets});
    reserved_ += packets;
    const std::lock_guard<base::spinlock> lock(lock_);
    fresh_ = start;
    fresh_packets_ = packets;
    return true;
  } catch (const std::exception&) {
    // Out of memory means "no packet now": the caller retries, and may go on with what is returned.
    return false;
  }
}

bool packet_store::has(const packet* p) noexcept {
  const auto* const at = reinterpret_cast<const std::byte*>(p);
  const std::lock_guard<std::mutex> growing(growing_);
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const chunk& one) {
    return at >= one.start && at < one.start + one.packets * stride_;
  });
}

std::uint32_t packet_store::take_credits(std::uint32_t wanted) noexcept {
  const std::lock_guard<base::spinlock> lock(lock_);
  // While few are left, a thread gets few, so that one thread does not hold all of the last ones.
  const std::size_t fair = std::max<std::size_t>(1, credits_ / 4);
  const std::size_t given = std::min<std::size_t>({wanted, credits_, fair});
  credits_ -= given;
  return static_cast<std::uint32_t>(given);
}

void packet_store::return_credits(std::uint32_t n) noexcept {
  const std::lock_guard<base::spinlock> lock(lock_);
  credits_ += n;
}

}  // namespace lci::mem
