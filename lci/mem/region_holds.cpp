#include "lci/mem/region_holds.hpp"

#include <new>

namespace lci::mem {

LCI_COLD cache_thread::count* cache_thread::add_counts(const cache_entry& e) noexcept {
  if (count* const there = count_of(e)) return there;
  auto* const chunk = new (std::nothrow) count[CHUNK]();
  if (chunk == nullptr) return nullptr;
  // edge cache.counts: the zeros before the pointer; partner is count_of().
  chunks_[e.index / CHUNK].store(chunk, std::memory_order_release);
  return chunk + e.index % CHUNK;
}

void cache_thread::remember(std::uintptr_t address, const memory& what) noexcept {
  set& all = set_of(address);
  memory* where = nullptr;
  for (memory& one : all) {
    if (one.entry == nullptr || one.entry == what.entry || one.epoch != what.epoch) where = &one;
    if (one.entry == what.entry) break;
  }
  if (where == nullptr) where = &all[next_way_++ % WAYS];
  *where = what;
}

cache_holds::~cache_holds() {
  for (auto& one : threads_) delete one.load(std::memory_order_relaxed);
}

LCI_COLD cache_thread* cache_holds::make_mine() noexcept {
  const std::uint32_t id = base::thread_id();
  if (id == base::OVERFLOW_THREAD) return nullptr;
  if (cache_thread* const there = threads_[id].load(std::memory_order_relaxed)) return there;
  auto* const made = new (std::nothrow) cache_thread;
  // edge cache.thread: its contents before the pointer; partner is sum().
  threads_[id].store(made, std::memory_order_release);
  return made;
}

LCI_COLD void cache_holds::change_slow(cache_entry& e, std::uint32_t by) noexcept {
  cache_thread* const me = make_mine();
  cache_thread::count* const own = me != nullptr ? me->add_counts(e) : nullptr;
  if (own != nullptr)
    cache_thread::change(*own, by);
  else
    e.shared.fetch_add(by, std::memory_order_seq_cst);  // edge cache.hold, locked form
}

std::uint32_t cache_holds::sum(const cache_entry& e) const noexcept {
  // edge cache.hold: what was done with the registration comes before its end; partners are
  // change() and change_slow(). Sequentially consistent for their locked form.
  std::uint32_t total = e.shared.load(std::memory_order_seq_cst);
  for (const auto& one : threads_) {
    // edge cache.thread: partner is make_mine().
    const cache_thread* const thread = one.load(std::memory_order_acquire);
    if (thread == nullptr) continue;
    const cache_thread::count* const own = thread->count_of(e);
    if (own != nullptr) total += own->load(std::memory_order_seq_cst);
  }
  return total;
}

}  // namespace lci::mem
