// The lanes of one device to its peers: finds the calling thread's lane, makes it at first use, and
// lets go of peers that have ended. Callers: endpoint, bulk_stream. Threads: shared. A thread with
// a small number owns its lanes (the number is its own while it lives, and what it owned passes to
// the next thread with that number); all others share one lane per peer behind a try-lock. Always
// true: a lane has one producer at a time; a lane, once made, stays where it is until the arena
// goes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "backends/shm/lane.hpp"
#include "backends/shm/put_guard.hpp"
#include "backends/shm/put_ring.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/types.hpp"

namespace lci::shm {

class connections;

class outbox {
 public:
  outbox(connections& peers, int index);
  ~outbox();

  // The calling thread's own lane, or null if it has none (yet).
  tx_lane* own(int rank) const noexcept {
    tx_lane* const lane = own_or_unmade(rank);
    return lane != nullptr && lane->slots != nullptr ? lane : nullptr;
  }
  // The same, or one without slots, which seems full.
  tx_lane* own_or_unmade(int rank) const noexcept {
    // Relaxed: a thread sees what it stored itself; a predecessor's stores came with its number.
    const std::uint32_t id = base::detail::thread_id_tls;
    if (id == base::detail::NO_THREAD_ID) [[unlikely]]
      return nullptr;
    tx_lane* block = blocks_[id].load(std::memory_order_relaxed);
    return block != nullptr ? block + rank : nullptr;
  }

  // endpoint::unconsumed()
  std::uint64_t unconsumed(int rank) const noexcept;

  // A lane that the caller may write to until this goes out of scope.
  class hold {
   public:
    hold() = default;
    ~hold() {
      if (lock_ != nullptr) lock_->unlock();
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;
    tx_lane* operator->() const noexcept { return lane_; }
    tx_lane& operator*() const noexcept { return *lane_; }

   private:
    friend class outbox;
    tx_lane* lane_ = nullptr;
    base::spinlock* lock_ = nullptr;  // of a shared lane
  };
  // Own lane or shared one, made if need be, with a free slot. Answers done, retry_* or fatal.
  errorcode_t acquire(int rank, hold& out) noexcept;
  // The same for the lane that belongs to the poller, which must be inside.
  errorcode_t acquire_poller(int rank, tx_lane*& out) noexcept;

  int index() const noexcept { return index_; }

  // A put that is to leave by a lane and be in order at once. Lanes know no order between them, so
  // this is granted only while one lane is all that leads to `rank`; a second one is opened when
  // the puts of the first have been consumed (put_guard).
  bool may_put(int rank) const noexcept { return put_guards_[rank].may_put(); }
  // The next message of this lane, which the caller holds, is such a put. False: not any more,
  // nothing has happened; else it is to be published now.
  bool begin_put(int rank, const tx_lane& lane) noexcept;
  // acquire() and begin_put() in one. retry_lock: lanes are being opened.
  errorcode_t acquire_for_put(int rank, hold& out) noexcept;
  // Takes begin_put() back: no put follows.
  void cancel_put(int rank, const tx_lane& lane) noexcept { put_guards_[rank].cancel(lane); }
  // Where puts to that rank that fit no slot leave their bytes; for the one to which one
  // has been granted. Null: no memory for now.
  put_ring* ring_of(int rank) noexcept {
    // Relaxed: who holds the lane finds what it stored itself, or what came with the lane.
    put_ring* const ring = put_rings_[rank].load(std::memory_order_relaxed);
    return ring != nullptr ? ring : make_ring(rank);
  }
  // Are there puts on their way that a lane put in order? Then `out` says which.
  struct mark {
    std::array<std::uint32_t, LANES> tail{};  // how far a lane has been written
    std::uint32_t used = 0;                   // bit per lane
  };
  bool find_open_puts(int rank, mark& out) noexcept;

  // Lends a packet to `rank`; false: over the pool's cap. What a peer that has died does not return
  // comes home by recall(). A thread that has not seen the end yet may lend to it even later: that
  // is for the recall at the device's end.
  bool lend(int rank, mem::packet* p) noexcept;
  void recall(int rank) noexcept;

  // The rest is called under the connections' lock, except is_past().
  // May that lane, which is not there yet, be opened? False: not now.
  bool may_open_locked(int rank, std::uint32_t lane) noexcept;
  void opened_locked(int rank, std::uint32_t lane) noexcept;  // it has its slots
  // The place of a lane, null when memory is short. Its slots are for the fabric to set.
  tx_lane* entry_locked(int rank, std::uint32_t lane) noexcept;
  // Posts to `rank` answer fatal from now on, and its lanes' memory goes back to the system.
  void close_locked(int rank) noexcept;
  // How far each lane to `rank` has been written; for fences.
  mark mark_locked(int rank) noexcept;
  // Has all of that been consumed?
  bool is_past(int rank, const mark& m) noexcept;

 private:
  std::atomic<tx_lane*>& block_of(std::uint32_t lane) noexcept;
  put_ring* make_ring(int rank) noexcept;

  connections& peers_;
  const int index_;
  // By lane number: an array with an entry per rank. Threads beyond OWN_LANES find null here.
  std::array<std::atomic<tx_lane*>, base::MAX_THREADS + 1> blocks_{};
  std::atomic<tx_lane*> shared_{nullptr}, poller_{nullptr};
  std::unique_ptr<base::spinlock[]> shared_locks_;       // by rank
  std::unique_ptr<put_guard[]> put_guards_;              // by rank
  std::unique_ptr<std::atomic<put_ring*>[]> put_rings_;  // by rank
};

}  // namespace lci::shm
