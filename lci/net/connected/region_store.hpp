// What a fabric has registered: regions of programs and protocols, kept beyond their use where that
// is wanted, and the arena span by span. Base of a backend's `regions`, which registers with its
// library and says what peers are told. Threads: shared; what belongs to the arena is found without
// a lock. Always true: a local key is the address of a registration; peers that keep what they were
// told of a name are told when it ends.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lci/base/log.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/undo.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/memory_domain.hpp"
#include "lci/mem/region_cache.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::net::connected {

// Made: what the library gave for one memory, false if it gave nothing.
template <class Made>
struct registration {
  Made own;                          // unless it is kept
  mem::cache_entry* kept = nullptr;  // in the cache, used until this ends
  void* address = nullptr;
  std::size_t size = 0;
  mem::mem_kind kind = mem::mem_kind::host;
  remote_key name;           // under mutex_
  std::vector<int> readers;  // ranks that keep what they were told of it; under mutex_
};

// How a registration went.
struct outcome {
  int error = 0;                // errno; 0: it is made
  bool is_source_only = false;  // memory that cannot be written
  std::string why_not;          // of memory of a GPU
};

// Driver, the backend's class, is derived from this and has (they may be private to it and this):
//   NAME                           of the network, for messages
//   make(address, size, kind, how) registers; answers a Made
//   throw_refused(size, error)     backend_error for host memory
//   prepare(registration)          what comes before, which may have made it already
//   make_span(at, size)            of the arena; answers a Span, or throws
//   begin_of(span)                 its first byte
//   target_in(registration), target_in_arena(address, size)   what peers call it
//   unpublish_locked(registration) peers are not to find it any more
// Registration: derived from registration<Made>, with take(const Made&) and is_registered(). Span:
// a handle with get().
template <class Driver, class Registration, class Made, class Span>
class region_store : private mem::cache_registrar {
 public:
  region_store(const region_store&) = delete;
  region_store& operator=(const region_store&) = delete;

  // Whether registrations outlive their use.
  bool is_keeping() const noexcept { return cache_ != nullptr; }

  // As net::fabric says.
  std::uint64_t add(void* address, std::size_t size, mem::mem_kind kind, std::string& why_not) {
    auto made = std::make_unique<Registration>();
    made->address = address;
    made->size = size;
    made->kind = kind;
    if (size != 0) {
      self().prepare(*made);
      if (!made->is_registered())
        cache_ ? find_kept(*made, why_not) : register_alone(*made, why_not);
      if (!made->is_registered()) return 0;
    }
    base::undo hold([&]() noexcept { let_go(*made); });
    const std::lock_guard lock(mutex_);
    made_.insert(made.get());
    hold.keep();
    return reinterpret_cast<std::uint64_t>(made.release());
  }
  // Answers which ranks keep what they were told of it, if `name` is asked for.
  std::vector<int> remove(std::uint64_t key, remote_key* name = nullptr) noexcept {
    if (key == 0) return {};
    std::unique_ptr<Registration> made(reinterpret_cast<Registration*>(key));
    std::vector<int> readers;
    {
      const std::lock_guard lock(mutex_);
      if (made_.erase(made.get()) == 0) {
        base::log::warn(Driver::NAME, "a registration that does not exist was deregistered");
        (void)made.release();
        return {};
      }
      // The slot may have a new holder already.
      const auto at = published_.find(made->name.slot);
      if (at != published_.end() && at->second == made.get()) published_.erase(at);
      if (made->name.generation != 0) self().unpublish_locked(*made);
      if (name != nullptr) *name = made->name;
      readers = std::move(made->readers);
    }
    let_go(*made);
    return readers;
  }
  // A peer keeps what it was told of that name. False: it has ended, or that cannot be noted.
  bool add_reader(remote_key name, int rank) noexcept {
    const std::lock_guard lock(mutex_);
    Registration* const made = find_locked(name);
    return made != nullptr && add_reader_locked(*made, rank);
  }
  remote_target target_of(remote_key name) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (const Registration* const made = find_locked(name)) return self().target_in(*made);
    }
    const auto region = table_->look_up({name.slot, name.generation});
    if (!region || !arena_.contains(region->address)) return {};
    return self().target_in_arena(region->address, region->size);
  }

 protected:
  using span = const std::remove_pointer_t<decltype(std::declval<Span>().get())>;

  region_store(const fabric_config& config, mem::unmap_source& news)
      : arena_(*config.arena),
        table_(config.regions),
        spans_((config.arena->reserved() + mem::arena::SPAN - 1) / mem::arena::SPAN) {
    if (!config.use_reg_cache) return;
    mem::cache_registrar& network = *this;
    cache_ =
        std::make_unique<mem::region_cache>(network, mem::cache_limits::from_environment(), &news);
    const std::string& why_not = cache_->why_no_news();
    if (why_not.empty()) return;
    base::log::warn(Driver::NAME, "registrations are not kept (use_reg_cache): %s",
                    why_not.c_str());
    cache_.reset();
  }
  ~region_store() = default;
  // The driver's destructor does this, while there is a library to deregister with.
  void close() noexcept {
    if (!made_.empty())
      base::log::warn(Driver::NAME,
                      "%zu registrations were still alive when the network was closed",
                      made_.size());
    for (Registration* const one : made_) {
      let_go(*one);
      delete one;
    }
    cache_.reset();
    span_store_.clear();
    wide_.clear();
  }

  void prepare(Registration&) {}
  void unpublish_locked(Registration&) noexcept {}
  void enter_locked(remote_key name, Registration& made) {
    published_[name.slot] = &made;
    made.name = name;
  }
  Registration* find_locked(remote_key name) const noexcept {
    const auto at = published_.find(name.slot);
    const bool is_it = at != published_.end() && at->second->name.generation == name.generation;
    return is_it ? at->second : nullptr;
  }
  static bool add_reader_locked(Registration& made, int rank) noexcept {
    std::vector<int>& known = made.readers;
    try {
      if (std::find(known.begin(), known.end(), rank) == known.end()) known.push_back(rank);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  // attempt() answers an errno; called again as long as that says full and what is kept and unused
  // can go for it.
  template <class Attempt>
  int evicting(Attempt&& attempt) {
    return cache_ ? cache_->evicting(attempt) : attempt();
  }
  // Memory of the arena; null when it cannot be registered, which is said.
  span* of_arena(std::uint64_t offset, std::size_t size) noexcept {
    const std::uint64_t at = offset / mem::arena::SPAN;
    if ((offset + size - (size != 0)) / mem::arena::SPAN == at) [[likely]] {
      // edge region.span: partner is register_span().
      span* const known = spans_[at].load(std::memory_order_acquire);
      if (known != nullptr) [[likely]]
        return known;
    }
    return register_span(offset, size);
  }

  mem::arena& arena_;
  const mem::region_table* const table_;
  std::mutex mutex_;  // guards what follows; no call into the library under it but for spans

 private:
  Driver& self() noexcept { return static_cast<Driver&>(*this); }

  void let_go(const Registration& one) noexcept {
    if (one.kept != nullptr) cache_->release(*one.kept);
  }
  // For this use alone.
  void register_alone(Registration& made, std::string& why_not) {
    outcome how;
    made.own = self().make(made.address, made.size, made.kind, how);
    if (made.own)
      made.take(made.own);
    else
      refused(made, how.error, std::move(how.why_not), why_not);
  }
  // What the network may reach is more than was asked for: whole pages, and neighbours. Addresses
  // stay those of the program, so a key made here names the same bytes as one of its own would.
  void find_kept(Registration& made, std::string& why_not) {
    const auto begin = reinterpret_cast<std::uintptr_t>(made.address);
    mem::cache_range want{begin, begin + made.size, made.kind, 0};
    if (made.kind == mem::mem_kind::device)
      want.buffer_id = mem::find_place(made.address).buffer_id;
    mem::region_cache::failure why;
    made.kept = cache_->acquire(want, why);
    if (made.kept != nullptr)
      made.take(*reinterpret_cast<const Made*>(made.kept->handle));
    else
      refused(made, why.error, std::move(why.why_not), why_not);
  }
  void refused(const Registration& made, int error, std::string&& reason, std::string& why_not) {
    if (made.kind != mem::mem_kind::device) self().throw_refused(made.size, error);
    why_not = std::move(reason);
  }
  using cached_answer = mem::cache_registrar::answer;
  cached_answer register_range(const mem::cache_range& what) final {
    cached_answer out;
    outcome how;
    auto made = std::make_unique<Made>(
        self().make(reinterpret_cast<void*>(what.begin), what.size(), what.kind, how));
    out.error = how.error;
    out.serves_all = !how.is_source_only;
    out.why_not = std::move(how.why_not);
    if (*made) out.handle = reinterpret_cast<std::uint64_t>(made.release());
    return out;
  }
  void deregister_range(std::uint64_t handle) noexcept final {
    delete reinterpret_cast<Made*>(handle);
  }
  // The span of the range, or for a range over several spans, all of them together.
  LCI_COLD span* register_span(std::uint64_t offset, std::size_t size) noexcept {
    constexpr std::size_t SPAN = mem::arena::SPAN;
    const std::uint64_t first = offset / SPAN;
    const std::uint64_t last = (offset + size - (size != 0)) / SPAN;
    const std::lock_guard lock(mutex_);
    if (first == last) {
      if (span* const known = spans_[first].load(std::memory_order_relaxed)) return known;
    } else if (const auto known = wide_.lower_bound(offset + size); known != wide_.end()) {
      if (arena_.offset_of(Driver::begin_of(*known->second)) <= offset) return known->second.get();
    }
    const std::uint64_t end = std::min<std::uint64_t>((last + 1) * SPAN, arena_.committed());
    try {
      Span made = self().make_span(arena_.at(first * SPAN), end - first * SPAN);
      span* const out = made.get();
      if (first != last) {
        wide_.emplace(end, std::move(made));
      } else {
        span_store_.push_back(std::move(made));
        // edge region.span: the registration before its pointer; partner is of_arena().
        spans_[first].store(out, std::memory_order_release);
      }
      return out;
    } catch (const std::exception& problem) {
      base::log::warn(Driver::NAME, "%s", problem.what());
      return nullptr;
    }
  }

  std::vector<std::atomic<span*>> spans_;
  std::unique_ptr<mem::region_cache> cache_;  // null: every use registers
  // ---- under mutex_ ----
  std::unordered_set<Registration*> made_;
  std::vector<Span> span_store_;
  std::multimap<std::uint64_t, Span> wide_;  // of the arena, across spans; by their end
  std::unordered_map<std::uint32_t, Registration*> published_;  // by slot
};

}  // namespace lci::net::connected
