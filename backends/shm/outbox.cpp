#include "backends/shm/outbox.hpp"

#include <sys/mman.h>

#include <new>

#include "backends/shm/connections.hpp"

namespace lci::shm {

outbox::outbox(connections& peers, int index)
    : peers_(peers),
      index_(index),
      shared_locks_(std::make_unique<base::spinlock[]>(peers.size())),
      put_guards_(std::make_unique<put_guard[]>(peers.size())),
      put_rings_(std::make_unique<std::atomic<put_ring*>[]>(peers.size())) {
  base::has_asymmetric_fence();  // settled before begin_put() asks which half is its own
}

outbox::~outbox() {
  for (int rank = 0; rank < peers_.size(); ++rank)
    delete put_rings_[rank].load(std::memory_order_relaxed);
  for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
  delete[] shared_.load(std::memory_order_relaxed);
  delete[] poller_.load(std::memory_order_relaxed);
}

std::atomic<tx_lane*>& outbox::block_of(std::uint32_t lane) noexcept {
  return lane == POLLER_LANE ? poller_ : lane == SHARED_LANE ? shared_ : blocks_[lane];
}

tx_lane* outbox::entry_locked(int rank, std::uint32_t lane) noexcept {
  std::atomic<tx_lane*>& where = block_of(lane);
  tx_lane* block = where.load(std::memory_order_relaxed);
  if (block == nullptr) {
    block = new (std::nothrow) tx_lane[static_cast<std::size_t>(peers_.size())];
    if (block == nullptr) return nullptr;
    // edge outbox.block: entries before the pointer; partner is the acquire load in acquire(), by
    // another thread that shares the lane. An owner finds what it stored itself.
    where.store(block, std::memory_order_release);
  }
  return block + rank;
}

void outbox::close_locked(int rank) noexcept {
  for (std::uint32_t i = 0; i < LANES; ++i) {
    tx_lane* block = block_of(i).load(std::memory_order_relaxed);
    if (block == nullptr || block[rank].slots == nullptr) continue;
    // Relaxed: a post that comes too early to see this writes into a lane that is not read.
    block[rank].is_closed.store(1, std::memory_order_relaxed);
    // Gives the memory back but not the addresses, so such a post does no harm either.
    madvise(block[rank].slots, LANE_SIZE, MADV_REMOVE);
  }
  // edge outbox.ring: partner is make_ring().
  if (put_ring* const ring = put_rings_[rank].load(std::memory_order_acquire); ring != nullptr)
    ring->forget_bytes();
}

outbox::mark outbox::mark_locked(int rank) noexcept {
  mark out;
  for (std::uint32_t i = 0; i < LANES; ++i) {
    const tx_lane* block = block_of(i).load(std::memory_order_relaxed);
    if (block == nullptr || block[rank].slots == nullptr) continue;
    const std::uint32_t tail = block[rank].position();
    out.used |= 1u << i;
    out.tail[i] = tail;
  }
  return out;
}

bool outbox::is_past(int rank, const mark& m) noexcept {
  for (std::uint32_t i = 0; i < LANES; ++i) {
    if ((m.used & 1u << i) == 0) continue;
    // Relaxed: mark_locked() has seen this block.
    const tx_lane* block = block_of(i).load(std::memory_order_relaxed);
    if (!block[rank].is_consumed(m.tail[i] - 1)) return false;
  }
  return true;
}

LCI_COLD put_ring* outbox::make_ring(int rank) noexcept {
  try {
    auto made = std::make_unique<put_ring>(peers_.arena());
    // edge outbox.ring: the ring before its address; partner is close_locked().
    put_rings_[rank].store(made.get(), std::memory_order_release);
    return made.release();
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool outbox::begin_put(int rank, const tx_lane& lane) noexcept {
  if (put_guards_[rank].begin(lane)) [[likely]]
    return true;
  cancel_put(rank, lane);
  return false;
}

bool outbox::find_open_puts(int rank, mark& out) noexcept {
  const put_guard& guard = put_guards_[rank];
  const std::uint32_t first = guard.first();
  if (first == put_guard::NO_LANE) return false;
  // edge outbox.block: partner is entry_locked().
  const tx_lane& lane = block_of(first).load(std::memory_order_acquire)[rank];
  if (!guard.has_open(lane)) return false;
  out.used = 1u << first;
  out.tail[first] = guard.end_of_open(lane);
  return true;
}

bool outbox::may_open_locked(int rank, std::uint32_t lane) noexcept {
  // The poller's messages wait one by one, see bulk_stream.
  if (lane == POLLER_LANE) return true;
  put_guard& guard = put_guards_[rank];
  const std::uint32_t first = guard.first();
  // edge outbox.block: partner is entry_locked().
  return first == put_guard::NO_LANE ||
         guard.may_open(block_of(first).load(std::memory_order_acquire)[rank]);
}

void outbox::opened_locked(int rank, std::uint32_t lane) noexcept {
  if (lane != POLLER_LANE) put_guards_[rank].opened(lane);
}

std::uint64_t outbox::unconsumed(int rank) const noexcept {
  const std::uint64_t id = base::thread_id();
  if (id >= OWN_LANES) return net::endpoint::UNKNOWN;
  const tx_lane* const lane = own(rank);
  if (lane == nullptr || lane->is_consumed(lane->position() - 1)) return 0;
  return (id + 1) << 32 | lane->position();
}

errorcode_t outbox::acquire(int rank, hold& out) noexcept {
  const std::uint32_t id = base::thread_id();
  tx_lane* lane = nullptr;
  if (id < OWN_LANES) {
    lane = own(rank);
    if (lane == nullptr) {
      if (const errorcode_t rc = peers_.make_lane(rank, *this, id, lane); rc != errorcode_t::done) {
        return rc;
      }
    }
  } else {
    base::spinlock& lock = shared_locks_[rank];
    if (!lock.try_lock()) return errorcode_t::retry_lock;
    out.lock_ = &lock;
    // edge outbox.block: partner of entry_locked().
    tx_lane* block = shared_.load(std::memory_order_acquire);
    lane = block != nullptr && block[rank].slots != nullptr ? block + rank : nullptr;
    if (lane == nullptr) {
      const errorcode_t rc = peers_.make_lane(rank, *this, SHARED_LANE, lane);
      if (rc != errorcode_t::done) return rc;
    }
  }
  out.lane_ = lane;
  if (lane->seems_closed()) return errorcode_t::fatal;
  return lane->is_full() ? errorcode_t::retry_nomem : errorcode_t::done;
}

errorcode_t outbox::acquire_for_put(int rank, hold& out) noexcept {
  if (const errorcode_t rc = acquire(rank, out); rc != errorcode_t::done) return rc;
  // A lane that was opened just now may not be the only one. Then it has no say in put_guard, which
  // counts positions of the first.
  return may_put(rank) && begin_put(rank, *out) ? errorcode_t::done : errorcode_t::retry_lock;
}

errorcode_t outbox::acquire_poller(int rank, tx_lane*& out) noexcept {
  // Relaxed: ownership of polling brought the predecessor's stores along.
  tx_lane* block = poller_.load(std::memory_order_relaxed);
  out = block != nullptr ? block + rank : nullptr;
  if (out == nullptr || out->slots == nullptr) {
    const errorcode_t rc = peers_.make_lane(rank, *this, POLLER_LANE, out);
    if (rc != errorcode_t::done) return rc;
  }
  if (out->seems_closed()) return errorcode_t::fatal;
  return out->is_full() ? errorcode_t::retry_nomem : errorcode_t::done;
}

bool outbox::lend(int rank, mem::packet* p) noexcept {
  p->note = peers_.note_of_loan(rank);
  return mem::pool_of(*p).lend(p);
}

void outbox::recall(int rank) noexcept {
  peers_.arena().for_each<mem::packet_pool>(
      [note = peers_.note_of_loan(rank)](mem::packet_pool& pool) { pool.recall(note); });
}

}  // namespace lci::shm
