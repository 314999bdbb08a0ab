// The parts that a registration cache is made of: an entry, the counts of its users, and what each
// thread remembers. Used by region_cache only.
//
// The number of users of an entry is the sum, over all threads, of what each has counted for it. A
// use may begin in one thread and end in another, so a single count may be negative (modulo 2^32).
// Only the sum means something, and only for an entry that was killed: no use begins afterwards, so
// a sum of 0 is final. To kill an entry: make its generation even, then call base::heavy_fence().
// To begin a use: count, then look at the generation. Either the killer sees the count or the user
// sees the kill. The same holds for the end of a use, so the last user to release a dead entry
// notices that it is dead.
//
// Threads: as each function says. Always true: entries and counts are never freed before the cache
// is, so a thread that counts too late, for an entry that has ended or has a successor, does no
// harm: it takes the count back.
#pragma once

#include <array>
#include <atomic>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lci/base/owned.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/mem/memory_kind.hpp"

namespace lci::mem {

// A range that is requested, or that an entry covers.
struct cache_range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  mem_kind kind = mem_kind::host;
  std::uint64_t buffer_id = 0;  // of device memory: memory_place::buffer_id; host: 0

  std::size_t size() const noexcept { return end - begin; }
  bool contains(const cache_range& other) const noexcept {
    return begin <= other.begin && other.end <= end && is_same_memory(other);
  }
  bool is_same_memory(const cache_range& other) const noexcept {
    return kind == other.kind && buffer_id == other.buffer_id;
  }
};

// One registration: a line that hits read, and one for the rest.
struct alignas(base::CACHE_LINE) cache_entry {
  std::atomic<std::uint64_t> generation{0};  // odd: can be found; even: dead or free
  std::uint64_t handle = 0;                  // belongs to the network
  std::uint32_t index = 0;                   // in the tables of counts
  std::atomic<bool> was_hit{false};          // since eviction last passed it
  cache_range range;

  // Under the cache's mutex_.
  enum class place : std::uint8_t { free, live, dead } where = place::free;
  boost::intrusive::set_member_hook<> by_address;
  boost::intrusive::list_member_hook<> in_list;  // by age, dead, or free
  // Uses counted by threads that have no counts of their own.
  alignas(base::CACHE_LINE) std::atomic<std::uint32_t> shared{0};

  bool is_dead() const noexcept {
    // edge cache.kill: sequentially consistent for the locked form; partner is
    // region_cache::kill_locked().
    return generation.load(std::memory_order_seq_cst) % 2 == 0;
  }
};

// What one thread has counted and remembered; passes to the next thread of that number.
class cache_thread {
 public:
  static constexpr std::uint32_t CHUNK = 1024;   // counts that are allocated together
  static constexpr std::uint32_t CHUNKS = 1024;  // this many chunks
  static constexpr std::size_t ENTRIES = std::size_t{CHUNK} * CHUNKS;  // that can be alive
  using count = std::atomic<std::uint32_t>;

  ~cache_thread() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  // Null: call add_counts() first. For threads other than the owner: nothing was counted.
  count* count_of(const cache_entry& e) const noexcept {
    // edge cache.counts: partner is add_counts().
    count* const chunk = chunks_[e.index / CHUNK].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + e.index % CHUNK : nullptr;
  }
  // For the owner only. Null: no memory.
  count* add_counts(const cache_entry& e) noexcept;

  // For the owner only. Sequentially consistent: the first of the two steps described at the top of
  // this file.
  static void change(count& where, std::uint32_t by) noexcept {
    if (!LCI_TSAN && base::detail::plain_fence.load(std::memory_order_relaxed)) [[likely]] {
      // edge cache.hold: the killer's membarrier stands for the barrier missing between this store
      // and the look at the generation.
      where.store(where.load(std::memory_order_relaxed) + by, std::memory_order_release);
      base::compiler_fence();
    } else {
      where.fetch_add(by, std::memory_order_seq_cst);  // edge cache.hold, locked form
    }
  }

  // What was found for which address: a hit needs no lock while nothing was unmapped since.
  struct memory {
    std::uintptr_t begin = 0, end = 0;
    cache_entry* entry = nullptr;
    std::uint64_t generation = 0;
    std::uint64_t epoch = 0;
  };
  static constexpr std::size_t WAYS = 4;
  static constexpr std::size_t SETS = 64;
  using set = std::array<memory, WAYS>;

  // Chosen by the page in which a buffer starts; a registration may be remembered for several
  // pages.
  set& set_of(std::uintptr_t address) noexcept {
    // The high bits of a product depend on all bits of the page's number.
    return sets_[((address >> 12) * 0x9e3779b97f4a7c15u) >> 58];
  }
  static_assert(SETS == 1 << (64 - 58));
  void remember(std::uintptr_t address, const memory& what) noexcept;

 private:
  std::array<set, SETS> sets_{};
  std::uint32_t next_way_ = 0;
  std::array<std::atomic<count*>, CHUNKS> chunks_{};
};

// The counts of all threads.
class cache_holds {
 public:
  ~cache_holds();

  // The caller's own counts; null before its first slow look-up, and for threads beyond the number
  // that thread_id supports.
  cache_thread* mine() noexcept {
    const std::uint32_t id = base::thread_id();
    if (id == base::OVERFLOW_THREAD) [[unlikely]]
      return nullptr;
    return threads_[id].load(std::memory_order_relaxed);
  }
  // The same, made if need be. Null: no memory, or one thread too many.
  cache_thread* make_mine() noexcept;

  // A use begins (by 1) or ends (by -1); the caller must look at the generation afterwards.
  void change(cache_entry& e, std::uint32_t by) noexcept {
    cache_thread* const me = mine();
    if (me != nullptr) [[likely]] {
      if (cache_thread::count* const own = me->count_of(e); own != nullptr) [[likely]]
        return cache_thread::change(*own, by);
    }
    change_slow(e, by);
  }
  // The number of uses: exact for an entry that was killed, else a guess.
  std::uint32_t sum(const cache_entry& e) const noexcept;

 private:
  void change_slow(cache_entry& e, std::uint32_t by) noexcept;

  std::array<std::atomic<cache_thread*>, base::MAX_THREADS> threads_{};
};

}  // namespace lci::mem
