// The engine for many outstanding keys: a hash table of buckets, each with its own short lock.
//
// It works in one of two modes. *Open*: receives without a wildcard and their messages touch one
// bucket under its lock and nothing else. *Ordered*, from the first receive with a wildcard until
// long after the last one: everything happens under the engine's lock, which also guards a list of
// all unmatched messages by arrival, and one of the waiting wildcards. A mode rather than a look at
// a counter, because this way a wildcard can neither miss a message that is being filed nor has to
// search a thousand buckets each time.
//
// Threads: shared. Lock order: the engine's lock, then one bucket's. Under an open table, a bucket
// belongs to the thread that holds its lock; under a closed one everything belongs to the thread
// that holds the engine's lock. To close a table: mark it closed, then take and release every
// bucket's lock once, which waits for all threads that entered before. A table that was replaced by
// a larger one is closed for good and kept, because other threads may still look at it.
//
// While one thread alone uses the engine, it takes no lock on the message path (base/lock_bias);
// all other paths enter the bias and then take the locks. To close a table is then enough, too:
// the thread that closes it is inside, or finds the bias over.
//
// Always true: for one key, only messages or only receives are filed. Of raw keys, the oldest entry
// may lie in its bucket's slot, in an open table; all others of its key are in the bucket's queues.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lci/base/lock_bias.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/rough_clock.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/match/engine.hpp"
#include "lci/match/entry.hpp"
#include "lci/match/raw_slot.hpp"

namespace lci::match {

class map_engine final : public engine {
 public:
  static constexpr std::size_t FIRST_BUCKETS = 1024;
  static constexpr std::size_t MAX_BUCKETS = 1 << 18;
  // More keys than that in a bucket's queues make the table grow: with good hashing this happens at
  // about one key per bucket.
  static constexpr std::size_t CROWDED = 8;
  // After this many operations without a waiting wildcard the table opens again: they cost many
  // times what closing it costs.
  static constexpr std::uint64_t QUIET_OPERATIONS = 16384;

  map_engine();

  void* insert_send(const match_key& key, void* value) override;
  void* take_recv(const match_key& key) noexcept override {
    return take_recv_of(exact_key::of(key));
  }
  // The message path: the same, inlined where it is called.
  void* take_recv_of(const exact_key& wanted) noexcept;
  // Files a receive without a wildcard, if no message waits for it and no wildcard is in use. The
  // caller has set its size. False: nothing happened, insert_recv() finds out.
  bool file_recv(const exact_key& key, entry& mine) noexcept;
  // The same two for the thread that has the bias; they leave rare cases to the functions above.
  // They call nothing, so the functions that they are inlined in save no registers for them. See
  // docs/decisions/0059-only-tail-calls.md.
  struct quick_take {
    bool is_sure;  // false: take_recv_of() has to look
    void* value;   // as there
  };
  quick_take take_recv_alone(const exact_key& wanted) noexcept;
  enum class filing : std::uint8_t {
    done,
    left,          // nothing happened, file_recv() has to try
    message_waits  // nothing happened, and file_recv() would find that too
  };
  // make() gives the entry, or null if there is none at hand; it is called when nothing else is in
  // the way of filing it.
  template <class Make>
  filing file_recv_alone(const exact_key& key, Make&& make) noexcept;
  void* insert_recv(const recv_pattern& pattern, void* value) override;
  void* insert_recv(const recv_pattern& pattern, entry& mine) override;
  void* insert_raw(matching_entry_key_t key, void* value, matching_entry_type_t type) override;
  bool remove_recv(const recv_pattern& pattern, const void* value) override;
  void remove_recvs(const recv_test& takes) override;
  void remove_sends(const send_test& takes) override;
  // Returns false while wildcards are in use.
  bool all_older(const recv_pattern& pattern, const void* value, const value_test& is_it) override;
  void drain_st(const leave_fn& leave) override;
  std::size_t size() override;
  std::size_t look_at(look_fn see, void* with) noexcept override;

  // For tests: which mode the engine is in, and how large it is. edge map_engine.current, reader.
  bool is_ordered() const noexcept { return !current_.load(std::memory_order_acquire)->is_open(); }
  std::size_t bucket_count() const noexcept {
    // edge map_engine.current, reader.
    return current_.load(std::memory_order_acquire)->mask + 1;
  }

 private:
  struct alignas(base::CACHE_LINE) bucket {
    base::spinlock lock;
    entry_queues queues;
    raw_slot slot;
  };
  static_assert(sizeof(bucket) == base::CACHE_LINE);
  class table {
   public:
    explicit table(std::size_t buckets) : mask(buckets - 1), buckets_(new bucket[buckets]) {}
    bucket& of(const exact_key& key) noexcept { return buckets_[key.hash() & mask]; }
    bucket& at(std::size_t i) noexcept { return buckets_[i]; }
    // edge map_engine.open, reader: sees what was done under the engine's lock before the table
    // opened.
    bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }
    // edge map_engine.open, writer.
    void open() noexcept { is_open_.store(true, std::memory_order_release); }
    void close() noexcept;
    template <class Fn>
    void for_each(Fn&& fn);

    const std::size_t mask;
    std::unique_ptr<table> previous;  // the table that this one replaced

   private:
    std::unique_ptr<bucket[]> buckets_;
    std::atomic<bool> is_open_{true};
  };

  // A bucket of the message path: of the thread that the bias is towards, or under its lock.
  static void leave(bucket& b, bool is_alone) noexcept {
    if (is_alone) [[likely]]
      base::lock_bias::leave_brief();
    else
      b.lock.unlock();
  }
  class alone_or_locked {
   public:
    alone_or_locked(base::lock_bias& bias, bucket& of) noexcept
        : of_(of), is_alone_(bias.enter_brief()) {
      if (!is_alone_) of_.lock.lock();
    }
    ~alone_or_locked() { leave(of_, is_alone_); }
    alone_or_locked(const alone_or_locked&) = delete;
    alone_or_locked& operator=(const alone_or_locked&) = delete;

   private:
    bucket& of_;
    const bool is_alone_;
  };
  using visit = base::lock_bias::visit;

  bool is_crowded(const table& t, const bucket& b) const noexcept {
    return b.queues.count() > CROWDED && t.mask + 1 < MAX_BUCKETS;
  }
  static void prepare(entry& mine, const exact_key& key) noexcept;
  struct raw_outcome {
    bool is_over = false;            // false: nothing happened
    void* value = nullptr;           // of the partner; null: filed
    entry* taken = nullptr;          // to give back; null: none
    const table* crowded = nullptr;  // is to grow; null: none
  };
  template <class Make>
  raw_outcome meet_raw(const table& t, bucket& b, const exact_key& key, void* value,
                       matching_entry_type_t type, Make&& make) noexcept;
  void* insert_raw_inside(bucket& b, matching_entry_key_t key, void* value,
                          matching_entry_type_t type, bool is_alone);
  void* insert_raw_waiting(matching_entry_key_t key, void* value, matching_entry_type_t type);
  void* insert_raw_drafted(matching_entry_key_t key, void* value, matching_entry_type_t type);
  void* settle_raw(const raw_outcome& outcome) noexcept;
  void empty_slots_locked();
  bool meet_open(entry* mine, entry** partner);
  void* meet(entry* mine);
  entry* meet_ordered_locked(entry* mine);
  entry* older_wildcard_locked(const entry& message, const entry* exact) const;
  void file_ordered_locked(bucket& b, entry** at, entry* mine);
  entry* meet_wildcard_locked(entry* mine);
  template <class Predicate, class Leave>
  void remove_locked(Predicate&& is_it, Leave&& leave);
  void become_ordered_locked();
  void count_quiet_locked() noexcept;
  LCI_COLD void grow(const table* seen) noexcept;

  entry_pool pool_;
  std::atomic<table*> current_;
  base::lock_bias bias_;
  alignas(base::CACHE_LINE) base::spinlock
      lock_;  // the engine's lock: guards all below, and the tables while they are closed
  std::unique_ptr<table> tables_;  // newest first; the head is *current_
  bool is_ordered_ = false;
  arrival_list messages_;         // ordered: all filed messages but raw ones
  arrival_list wildcards_;        // ordered: all waiting receives with a wildcard
  std::uint64_t next_stamp_ = 0;  // ordered: above every stamp given so far
  std::uint64_t quiet_ = 0;       // ordered: operations since a wildcard last waited
};

inline void map_engine::prepare(entry& mine, const exact_key& key) noexcept {
  mine.key = key;
  mine.type = matching_entry_type_t::recv;
  // Roughly: become_ordered_locked() gives wildcards larger ones than any that is filed; apart from
  // that it is shown to people.
  mine.stamp = base::the_rough_clock.now();
}

inline bool map_engine::file_recv(const exact_key& key, entry& mine) noexcept {
  // edge map_engine.current, reader: pairs with the store in grow().
  table* const t = current_.load(std::memory_order_acquire);
  bucket& b = t->of(key);
  prepare(mine, key);
  LCI_RACE_POINT("map_engine.file_recv.before_lock");
  bool grows;
  {
    const alone_or_locked inside(bias_, b);
    if (!t->is_open()) [[unlikely]]
      return false;
    entry** const at = b.queues.find(key);
    if (*at != nullptr && (*at)->type != matching_entry_type_t::recv) return false;
    b.queues.append(at, &mine);
    grows = is_crowded(*t, b);
  }
  if (grows) [[unlikely]]
    grow(t);
  return true;
}

inline void* map_engine::take_recv_of(const exact_key& wanted) noexcept {
  table* const t = current_.load(std::memory_order_acquire);  // edge map_engine.current
  bucket& b = t->of(wanted);
  LCI_RACE_POINT("map_engine.take_recv.before_lock");
  entry* taken;
  {
    const alone_or_locked inside(bias_, b);
    // Closed tables are left to the slow path: a wildcard may come first.
    if (!t->is_open()) [[unlikely]]
      return nullptr;
    entry** const at = b.queues.find(wanted);
    if (*at == nullptr || (*at)->type != matching_entry_type_t::recv) return nullptr;
    taken = b.queues.take_head(at);
  }
  void* const value = taken->value;
  give_back(pool_, taken);
  return value;
}

template <class Make>
inline map_engine::filing map_engine::file_recv_alone(const exact_key& key, Make&& make) noexcept {
  if (!bias_.enter_brief_at_once()) return filing::left;
  // edge map_engine.current, reader: pairs with the store in grow().
  table* const t = current_.load(std::memory_order_acquire);
  filing answer = filing::left;
  if (t->is_open()) [[likely]] {
    bucket& b = t->of(key);
    entry** const at = b.queues.find(key);
    if (*at != nullptr && (*at)->type != matching_entry_type_t::recv) {
      answer = filing::message_waits;
    } else if (*at != nullptr || b.queues.count() < CROWDED) {
      // A bucket that may become too full is left to file_recv(), which makes the table larger.
      if (entry* const mine = make(); mine != nullptr) [[likely]] {
        prepare(*mine, key);
        b.queues.append(at, mine);
        answer = filing::done;
      }
    }
  }
  base::lock_bias::leave_brief();
  return answer;
}

inline map_engine::quick_take map_engine::take_recv_alone(const exact_key& wanted) noexcept {
  if (!bias_.enter_brief_at_once()) return {false, nullptr};
  table* const t = current_.load(std::memory_order_acquire);  // edge map_engine.current
  quick_take answer{t->is_open(), nullptr};
  if (answer.is_sure) [[likely]] {
    bucket& b = t->of(wanted);
    entry** const at = b.queues.find(wanted);
    if (*at != nullptr && (*at)->type == matching_entry_type_t::recv) {
      // Entries of the pool go back there.
      if ((*at)->is_lent) [[likely]]
        answer.value = b.queues.take_head(at)->value;
      else
        answer.is_sure = false;
    }
  }
  base::lock_bias::leave_brief();
  return answer;
}

}  // namespace lci::match
