// Keeps registrations of memory after their use, so that the next use of a buffer finds one. Owned
// by a network's fabric, which supplies the calls that register. A key that the cache hands out
// covers whole pages around a buffer, or several merged buffers, at unchanged addresses.
//
// Threads: shared; a use may end in another thread than it began in. A thread that finds a buffer
// it used before, of which nothing was unmapped since, takes no lock and executes no locked
// instruction (see region_holds.hpp). Others take mutex_ for the time of a look-up; a thread that
// registers also holds making_, so that one range is registered once. Lock order: making_, mutex_;
// nothing calls out under mutex_. on_unmap() is called inside munmap() and takes no lock.
//
// Always true: live entries do not overlap; a registration in use is not deregistered, and once
// on_unmap() has returned, what was unmapped is not found again. The entries hit by an unmap are
// deregistered at the next slow look-up, or when their last user releases them. Without a source of
// unmap events, host memory is registered for one use only. GPU memory needs no such source: the
// caller asks for its allocation's buffer id, and it is compared.
// Why: docs/decisions/0015-registration-cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lci/mem/region_holds.hpp"
#include "lci/mem/unmap_log.hpp"
#include "lci/mem/unmap_source.hpp"

namespace lci::mem {

// What a network supplies. Called without any lock that others wait for in a hit.
class cache_registrar {
 public:
  struct answer {
    std::uint64_t handle = 0;
    int error = 0;           // errno; 0: registered. ENOMEM and ENOSPC: tried again with fewer
    bool serves_all = true;  // false: registered with less than every access; never kept
    std::string why_not;     // with an error, if there is more to say
  };
  virtual answer register_range(const cache_range& what) = 0;
  virtual void deregister_range(std::uint64_t handle) noexcept = 0;

 protected:
  ~cache_registrar() = default;
};

struct cache_limits {
  // What is kept while unused. Those in use count, too; what is too much ends at the next
  // registration.
  std::size_t bytes = std::size_t{1} << 34;
  std::size_t count = 1 << 17;
  // Buffers that touch are merged up to this size; those that overlap are always merged, up to
  // `bytes`.
  std::size_t merged_bytes = std::size_t{64} << 20;

  // Half of this machine's memory, unless LCI_REG_CACHE_BYTES and LCI_REG_CACHE_COUNT say
  // otherwise. Throws argument_error for nonsense.
  static cache_limits from_environment();
};

class region_cache final : private unmap_listener {
 public:
  using failure = cache_registrar::answer;  // error and why_not

  // news: may be null. Then, and when it cannot be started, why_no_news() says why.
  region_cache(cache_registrar& network, const cache_limits& limits, unmap_source* news);
  // No thread may be inside and nothing in use; anything that still is gets deregistered all the
  // same.
  ~region_cache();
  region_cache(const region_cache&) = delete;
  region_cache& operator=(const region_cache&) = delete;

  // Empty: host memory is kept.
  const std::string& why_no_news() const noexcept { return why_no_news_; }

  // A registration that covers `want`, at least one byte, valid until release(). Null: `why` holds
  // the network's answer.
  cache_entry* acquire(const cache_range& want, failure& why) {
    if (cache_entry* const known = try_hit(want); known != nullptr) [[likely]]
      return known;
    return acquire_slow(want, why);
  }
  void release(cache_entry& e) noexcept {
    holds_.change(e, ~0u);
    if (e.is_dead()) [[unlikely]]
      reap(e);
  }
  // What a card, or the limit of locked memory, refuses may fit once other registrations have
  // ended. attempt() returns an errno, and is called again as long as that means "full" and
  // something unused could be deregistered. Also for registrations made beside the cache on the
  // same network. Returns the last errno.
  template <class Attempt>
  int evicting(Attempt&& attempt) {
    int error = attempt();
    for (std::size_t n = 1; is_full(error) && evict_some(n) != 0; n *= 2) error = attempt();
    return error;
  }
  // acquire() without its slow part; for tests of its cost.
  cache_entry* try_hit(const cache_range& want) noexcept {
    cache_thread* const me = holds_.mine();
    if (me == nullptr) [[unlikely]]
      return nullptr;
    for (cache_thread::memory& one : me->set_of(want.begin)) {
      if (want.begin < one.begin || want.end > one.end) continue;
      cache_entry& e = *one.entry;
      cache_thread::count* const own = me->count_of(e);
      if (own == nullptr) [[unlikely]]
        return nullptr;
      cache_thread::change(*own, 1);
      // edge cache.kill: sequentially consistent for the locked form; partner is kill_locked().
      // edge cache.birth: partner is insert_locked().
      if (e.generation.load(std::memory_order_seq_cst) == one.generation &&
          log_.epoch() == one.epoch && e.range.is_same_memory(want)) [[likely]] {
        // A hint for eviction; read before it is written, since all users share the line.
        if (!e.was_hit.load(std::memory_order_relaxed))
          e.was_hit.store(true, std::memory_order_relaxed);
        return &e;
      }
      one = {};
      release(e);
      return nullptr;
    }
    return nullptr;
  }

  // For tests and reports; a snapshot.
  struct totals {
    std::size_t live = 0;   // that can be found
    std::size_t bytes = 0;  // of those
    std::size_t dead = 0;   // in use, cannot be found
    std::uint64_t made = 0;
    std::uint64_t evicted = 0;
  };
  totals count();

 private:
  struct by_begin {
    using type = std::uintptr_t;
    type operator()(const cache_entry& e) const noexcept { return e.range.begin; }
  };
  using address_set = boost::intrusive::set<
      cache_entry,
      boost::intrusive::member_hook<cache_entry, boost::intrusive::set_member_hook<>,
                                    &cache_entry::by_address>,
      boost::intrusive::key_of_value<by_begin>>;
  using entry_list = boost::intrusive::list<
      cache_entry, boost::intrusive::member_hook<cache_entry, boost::intrusive::list_member_hook<>,
                                                 &cache_entry::in_list>>;
  using answer = cache_registrar::answer;

  void on_unmap(std::uintptr_t begin, std::size_t size) noexcept override { log_.add(begin, size); }

  cache_entry* acquire_slow(const cache_range& want, failure& why);
  cache_entry* make(const cache_range& exact, const cache_range& want, failure& why);
  answer register_wide(cache_range& span, const cache_range& exact);
  answer register_evicting(const cache_range& what);
  void announce_locked(const cache_range& span) noexcept;
  cache_entry* use_locked(cache_entry& e, const cache_range& want, std::uint64_t epoch) noexcept;
  cache_entry* insert_locked(const cache_range& span, const answer& made, cache_entry& e) noexcept;
  bool is_keepable(const cache_range& what) const noexcept;
  cache_range exact_of(const cache_range& want) const noexcept;

  cache_entry* find_locked(const cache_range& want) noexcept;
  void widen_locked(cache_range& span) noexcept;
  bool join(cache_range& span, const cache_range& other) const noexcept;
  std::uint64_t apply_unmaps_locked() noexcept;
  void kill_overlapping_locked(std::uintptr_t begin, std::uintptr_t end) noexcept;

  void kill_locked(cache_entry& e) noexcept;
  void settle_locked(entry_list& trash) noexcept;
  void evict_locked(std::size_t bytes, std::size_t count, std::size_t looks) noexcept;
  std::size_t evict_some(std::size_t wanted) noexcept;
  static bool is_full(int error) noexcept;
  void reap(cache_entry& e) noexcept;
  void bury(entry_list& trash) noexcept;
  cache_entry* take_entry_locked();

  cache_registrar& network_;
  const cache_limits limits_;
  const std::uintptr_t page_;
  unmap_source* const news_;
  std::string why_no_news_;
  unmap_log log_;  // its reading side is under mutex_
  cache_holds holds_;

  std::mutex making_;  // held by a thread that registers something new
  std::mutex mutex_;   // guards everything below
  address_set by_address_;
  entry_list ages_;                      // of by_address_, the latest looked up in front
  entry_list dying_;                     // killed; only between kill_locked() and settle_locked()
  entry_list dead_;                      // killed, and used
  entry_list free_;                      // entries for new registrations
  std::size_t bytes_ = 0;                // of by_address_
  cache_range making_now_;               // watched, while making_ is held
  bool was_unmapped_meanwhile_ = false;  // a part of making_now_ was
  std::vector<std::unique_ptr<cache_entry[]>> store_;
  std::uint64_t made_ = 0, evicted_ = 0;
};

}  // namespace lci::mem
