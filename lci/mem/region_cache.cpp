// The slow paths of a look-up: by address, and by registering.
#include "lci/mem/region_cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/base/log.hpp"
#include "lci/base/race_point.hpp"

namespace lci::mem {

bool region_cache::is_full(int error) noexcept { return error == ENOMEM || error == ENOSPC; }

cache_limits cache_limits::from_environment() {
  cache_limits out;
  const long pages = sysconf(_SC_PHYS_PAGES);
  if (pages > 0)
    out.bytes =
        static_cast<std::size_t>(pages) / 2 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (const auto text = base::env::find("LCI_REG_CACHE_BYTES"))
    out.bytes = base::env::parse_unsigned("LCI_REG_CACHE_BYTES", *text);
  if (const auto text = base::env::find("LCI_REG_CACHE_COUNT"))
    out.count = base::env::parse_unsigned("LCI_REG_CACHE_COUNT", *text);
  // More could not be counted, and those in use are as well.
  out.count = std::min(out.count, cache_thread::ENTRIES / 2);
  return out;
}

region_cache::region_cache(cache_registrar& network, const cache_limits& limits, unmap_source* news)
    : network_(network),
      limits_(limits),
      page_(static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE))),
      news_(news) {
  why_no_news_ =
      news == nullptr ? "no library reports when memory is unmapped" : news->start(*this);
}

region_cache::~region_cache() {
  if (why_no_news_.empty()) news_->stop(*this);
  if (!dead_.empty())
    base::log::warn("mem", "%zu cached registrations were still in use", dead_.size());
  for (cache_entry& e : dead_) network_.deregister_range(e.handle);
  for (cache_entry& e : ages_) network_.deregister_range(e.handle);
  by_address_.clear();
  for (entry_list* list : {&dead_, &ages_, &free_}) list->clear();
}

region_cache::totals region_cache::count() {
  entry_list trash;
  totals out;
  {
    const std::lock_guard lock(mutex_);
    apply_unmaps_locked();
    settle_locked(trash);
    out = {by_address_.size(), bytes_, dead_.size(), made_, evicted_};
  }
  bury(trash);
  return out;
}

bool region_cache::is_keepable(const cache_range& what) const noexcept {
  return what.kind == mem_kind::host ? why_no_news_.empty() : what.buffer_id != 0;
}

// Host memory is mapped by the page. The pages around GPU memory may belong to another allocation.
cache_range region_cache::exact_of(const cache_range& want) const noexcept {
  cache_range out = want;
  if (want.kind != mem_kind::host) return out;
  out.begin = want.begin / page_ * page_;
  out.end = (want.end + page_ - 1) / page_ * page_;
  return out;
}

LCI_COLD cache_entry* region_cache::acquire_slow(const cache_range& want, failure& why) {
  entry_list trash;
  cache_entry* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t epoch = apply_unmaps_locked();
    found = find_locked(want);
    if (found != nullptr) use_locked(*found, want, epoch);
    settle_locked(trash);
  }
  bury(trash);
  return found != nullptr ? found : make(exact_of(want), want, why);
}

cache_entry* region_cache::find_locked(const cache_range& want) noexcept {
  auto after = by_address_.upper_bound(want.begin);
  if (after == by_address_.begin()) return nullptr;
  cache_entry& e = *--after;
  return e.range.contains(want) ? &e : nullptr;
}

// Under mutex_, so no other thread kills it meanwhile.
cache_entry* region_cache::use_locked(cache_entry& e, const cache_range& want,
                                      std::uint64_t epoch) noexcept {
  holds_.change(e, 1);
  if (e.where != cache_entry::place::live) return &e;
  ages_.splice(ages_.begin(), ages_, ages_.iterator_to(e));
  if (cache_thread* const me = holds_.make_mine(); me != nullptr)
    me->remember(want.begin, {e.range.begin, e.range.end, &e,
                              e.generation.load(std::memory_order_relaxed), epoch});
  return &e;
}

// Two threads may want the same range: the second finds what the first has made.
cache_entry* region_cache::make(const cache_range& exact, const cache_range& want, failure& why) {
  const std::lock_guard making(making_);
  entry_list trash;
  cache_range span = exact;
  cache_entry* e = nullptr;
  cache_entry* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    e = take_entry_locked();
    const std::uint64_t epoch = apply_unmaps_locked();
    found = find_locked(want);
    if (found != nullptr) {
      use_locked(*found, want, epoch);
      if (e != nullptr) free_.push_front(*e);
    } else if (e != nullptr) {
      if (is_keepable(exact)) widen_locked(span);
      announce_locked(span);
    }
    settle_locked(trash);
  }
  bury(trash);
  if (found != nullptr) return found;
  if (e == nullptr) {
    why.error = ENOMEM;
    return nullptr;
  }
  answer made;
  try {
    made = register_wide(span, exact);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    log_.unwatch(span.begin, span.size());
    free_.push_back(*e);
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t epoch = apply_unmaps_locked();
    e = insert_locked(span, made, *e);
    if (e != nullptr) use_locked(*e, want, epoch);
    evict_locked(limits_.bytes, limits_.count, 64);
    settle_locked(trash);
  }
  bury(trash);
  if (e == nullptr) why = std::move(made);
  return e;
}

// From here on, unmaps of the range are noticed, even if they hit neighbours whose entries end
// meanwhile.
void region_cache::announce_locked(const cache_range& span) noexcept {
  log_.watch(span.begin, span.size());
  making_now_ = span;
  was_unmapped_meanwhile_ = false;
}

// Registers all of the span, or only what was asked for: neighbours may be unmapped or not
// writable.
region_cache::answer region_cache::register_wide(cache_range& span, const cache_range& exact) {
  LCI_RACE_POINT("region_cache.make.before_registering");
  if (span.begin == exact.begin && span.end == exact.end) return register_evicting(exact);
  answer made = network_.register_range(span);
  if (made.error == 0 && made.serves_all) return made;
  if (made.error == 0) network_.deregister_range(made.handle);
  {
    const std::lock_guard lock(mutex_);
    log_.unwatch(span.begin, span.size());
    span = exact;
    announce_locked(span);
  }
  return register_evicting(exact);
}

region_cache::answer region_cache::register_evicting(const cache_range& what) {
  answer made;
  evicting([&] {
    made = network_.register_range(what);
    return made.error;
  });
  return made;
}

// Null: not registered. An entry that others may not find is born dead, for one use.
cache_entry* region_cache::insert_locked(const cache_range& span, const answer& made,
                                         cache_entry& e) noexcept {
  const bool is_live =
      made.error == 0 && made.serves_all && !was_unmapped_meanwhile_ && is_keepable(span);
  if (!is_live) log_.unwatch(span.begin, span.size());
  making_now_ = {};
  if (made.error != 0) {
    free_.push_back(e);
    return nullptr;
  }
  ++made_;
  e.range = span;
  e.handle = made.handle;
  e.was_hit.store(false, std::memory_order_relaxed);
  if (!is_live) {
    e.where = cache_entry::place::dead;
    dead_.push_back(e);
    return &e;
  }
  kill_overlapping_locked(span.begin, span.end);
  e.where = cache_entry::place::live;
  by_address_.insert(e);
  ages_.push_front(e);
  bytes_ += span.size();
  // edge cache.birth: what was written above is seen by a thread that finds this generation, in
  // try_hit().
  e.generation.store(e.generation.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return &e;
}

void region_cache::widen_locked(cache_range& span) noexcept {
  for (bool grew = true; grew;) {
    grew = false;
    auto right = by_address_.lower_bound(span.begin);
    if (right != by_address_.begin()) grew = join(span, std::prev(right)->range);
    for (; right != by_address_.end() && right->range.begin <= span.end; ++right)
      grew = join(span, right->range) || grew;
  }
}

// True: it grew. Of neighbours that merely touch, only one that is no larger is included, so that
// walking through memory registers each page log n times and not n times.
bool region_cache::join(cache_range& span, const cache_range& other) const noexcept {
  if (!span.is_same_memory(other) || other.end < span.begin || span.end < other.begin) return false;
  const std::uintptr_t begin = std::min(span.begin, other.begin);
  const std::uintptr_t end = std::max(span.end, other.end);
  if (begin == span.begin && end == span.end) return false;
  const bool touches = other.end == span.begin || span.end == other.begin;
  if (touches && (other.size() > span.size() || end - begin > limits_.merged_bytes)) return false;
  if (end - begin > limits_.bytes) return false;
  span.begin = begin;
  span.end = end;
  return true;
}

// An entry for a new registration; null when the counts have no room for more. Throws bad_alloc.
cache_entry* region_cache::take_entry_locked() {
  constexpr std::size_t AT_ONCE = 256;
  if (free_.empty()) {
    const std::size_t first = store_.size() * AT_ONCE;
    if (first >= cache_thread::ENTRIES) return nullptr;
    store_.push_back(std::make_unique<cache_entry[]>(AT_ONCE));
    for (std::size_t i = 0; i < AT_ONCE; ++i) {
      store_.back()[i].index = static_cast<std::uint32_t>(first + i);
      free_.push_back(store_.back()[i]);
    }
  }
  cache_entry& e = free_.front();
  free_.pop_front();
  return &e;
}

}  // namespace lci::mem
