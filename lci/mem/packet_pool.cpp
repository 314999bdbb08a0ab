// The path of a packet between its thread's cache, the store and other threads' caches.
// Threads: see the header. base/owned guards the cache of a thread, so that a thread that finds no
// packet anywhere else can empty the caches of others.
#include "lci/mem/packet_pool.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "lci/base/race_point.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/errors.hpp"
#include "lci/mem/packet_hand.hpp"
#include "lci/mem/packet_store.hpp"
#include "lci/mem/payload_pool.hpp"

namespace lci::mem {

namespace {

// How many packets that are still lent get() passes over while it looks for a returned one.
constexpr std::uint32_t SHORT_LOOK = 8;
constexpr std::uint32_t FULL_LOOK = ~std::uint32_t{0};
// How many rights to lend a thread takes at once, and how many it keeps.
constexpr std::uint32_t CREDIT_BATCH = 16;
constexpr std::uint32_t CREDITS_KEPT = 2 * CREDIT_BATCH;
// Other threads search caches that hold nothing but lent packets this often.
constexpr std::uint64_t SWEEP_US = 50;

bool is_returned(const packet& p) noexcept {
  // edge packet.return: partner is return_borrowed() in the borrower.
  return p.state.load(std::memory_order_acquire) == packet_state::returned;
}

}  // namespace

constinit thread_local packet* detail::packet_in_hand = nullptr;

struct packet_pool::shared {
  shared(arena& arena, packet_pool* pool, std::size_t packet_size, std::size_t limit)
      : home(arena), store(arena, pool, packet_size, limit) {}
  ~shared() {
    for (auto& cache : caches) delete cache.load(std::memory_order_relaxed);
    for (unfinished* one = take_recalls(); one != nullptr;) delete std::exchange(one, one->next);
  }

  // Pushes a pooled packet; if both magazines are full, the older one is emptied first.
  void keep(thread_cache& in, packet* p) noexcept {
    if (in.loaded.is_full()) {
      store.drain(in.spare);
      const std::uint32_t count = in.loaded.count();
      in.spare.load(in.loaded.release(), count);
    }
    in.loaded.push(p);
  }

  template <class Want>
  std::uint32_t take_back(thread_cache& in, std::uint32_t look, Want want) noexcept {
    LCI_RACE_POINT("packet_pool.take_back.inside");
    const std::uint32_t found = in.lent.remove(look, want, [&](packet* p) {
      p->state.store(packet_state::pooled, std::memory_order_relaxed);
      keep(in, p);
    });
    in.credits += found;
    if (in.credits > CREDITS_KEPT) {
      store.return_credits(in.credits - CREDIT_BATCH);
      in.credits = CREDIT_BATCH;
    }
    return found;
  }

  // Takes back what has that note; answers how many. is_whole: false if a cache was passed over
  // because its owner is inside. The caller may be inside of `mine`.
  std::size_t take_back_noted(std::uint64_t note, thread_cache* mine, bool is_inside,
                              std::uint64_t wait_us, bool& is_whole) noexcept {
    const auto is_noted = [note](const packet& p) noexcept { return p.note == note; };
    std::size_t found = 0;
    for (auto& slot : caches) {
      thread_cache* const cache = slot.load(std::memory_order_acquire);  // edge pool.cache
      if (cache == nullptr || cache->lent.count() == 0) continue;
      if (is_inside && cache == mine) {
        found += take_back(*cache, FULL_LOOK, is_noted);
        continue;
      }
      const bool is_ours = cache->guard.seize(wait_us);
      if (is_ours && cache->guard.enter()) {
        found += take_back(*cache, FULL_LOOK, is_noted);
        cache->guard.leave();
      } else {
        is_whole = false;
      }
      if (is_ours && cache != mine) cache->guard.disown();
    }
    return found;
  }

  // A recall that passed over a cache, whose packets have no owner: a thread in need repeats it.
  struct unfinished {
    std::uint64_t note;
    unfinished* next = nullptr;
  };
  void add_recall(unfinished* one) noexcept {
    one->next = recalls.load(std::memory_order_relaxed);
    // edge pool.recalls: the note before its address; partner is take_recalls().
    while (!recalls.compare_exchange_weak(one->next, one, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
  unfinished* take_recalls() noexcept {
    // edge pool.recalls: partner is add_recall().
    return recalls.exchange(nullptr, std::memory_order_acquire);
  }
  // The caller is inside of `mine`, unless that is null. A cache that is busy still is for the next
  // time.
  LCI_COLD void repeat_recalls(thread_cache* mine) noexcept {
    if (recalls.load(std::memory_order_relaxed) == nullptr) return;
    for (unfinished* one = take_recalls(); one != nullptr;) {
      unfinished* const next = one->next;
      bool is_whole = true;
      take_back_noted(one->note, mine, true, 0, is_whole);
      if (is_whole)
        delete one;
      else
        add_recall(one);
      one = next;
    }
  }

  arena& home;
  packet_store store;
  cache_table caches = {};
  std::atomic<unfinished*> recalls{nullptr};
  std::atomic<std::uint64_t> last_sweep{0};
  std::atomic<std::size_t> misuses{0};
};

packet_pool::packet_pool(arena& arena, std::size_t packet_size, std::size_t limit)
    : packet_size_(base::align_up(packet_size, base::CACHE_LINE)), limit_(limit) {
  constexpr std::size_t least = 2 * sizeof(packet);
  if (packet_size < least || packet_size > UINT32_MAX / 2) {
    throw argument_error("packet_size is " + std::to_string(packet_size) + "; legal are " +
                         std::to_string(least) + " to " + std::to_string(UINT32_MAX / 2));
  }
  shared_ = std::make_unique<shared>(arena, this, packet_size_, limit);
  caches_ = &shared_->caches;
  arena.add_pool(*this);
}

packet_pool::~packet_pool() {
  shared_->home.remove_pool(*this);
  shared_->repeat_recalls(nullptr);
  // What came back and was not looked for since is home.
  for (auto& at : shared_->caches) {
    if (thread_cache* const cache = at.load(std::memory_order_relaxed))
      shared_->take_back(*cache, FULL_LOOK, is_returned);
  }
  if (outstanding() == 0) shared_->store.free_memory_at_end();
}

LCI_COLD packet_pool::thread_cache* packet_pool::make_cache() noexcept {
  const std::uint32_t id = base::thread_id();
  if (id >= base::MAX_THREADS) return nullptr;
  auto* const made = new (std::nothrow) thread_cache;
  // edge pool.cache: stealing threads find it constructed; partner is my_cache(). Two live threads
  // never have the same number, so no other thread stores here.
  shared_->caches[id].store(made, std::memory_order_release);
  return made;
}

// Null for threads beyond MAX_THREADS, or when memory is short.
packet_pool::thread_cache* packet_pool::my_cache() noexcept {
  base::thread_id();  // a thread's very first visit
  thread_cache* const mine = cache_of(base::detail::thread_record_tls);
  return mine != nullptr ? mine : make_cache();
}

LCI_COLD packet* packet_pool::get_cold() noexcept {
  thread_cache* const mine = my_cache();
  base::detail::thread_record* const me = base::detail::thread_record_tls;
  packet* p = nullptr;
  if (mine != nullptr && mine->guard.enter_brief(me)) {
    p = search(mine);
    base::owned::leave_brief(me);
  } else {
    p = search(nullptr);
  }
  if (p != nullptr) p->state.store(packet_state::out, std::memory_order_relaxed);
  return p;
}

// Looks in both magazines, then for returned packets, then in the store, for more memory, and at
// other threads, in this order.
packet* packet_pool::search(thread_cache* mine) noexcept {
  if (mine == nullptr) {
    magazine few;
    if (!shared_->store.fill(few)) return steal(nullptr);
    packet* const p = few.pop();
    shared_->store.drain(few);
    return p;
  }
  if (!mine->loaded.is_empty()) return mine->loaded.pop();
  if (!mine->spare.is_empty()) {
    const std::uint32_t count = mine->spare.count();
    mine->loaded.load(mine->spare.release(), count);
  } else if (shared_->take_back(*mine, SHORT_LOOK, is_returned) == 0 &&
             !shared_->store.fill(mine->loaded) &&
             shared_->take_back(*mine, FULL_LOOK, is_returned) == 0) {
    return steal(mine);
  }
  return mine->loaded.pop();
}

// Takes one magazine of another thread, or the packets returned to it. A thread that is inside its
// cache right now is passed over: waiting for it from inside our own cache could be mutual.
LCI_COLD packet* packet_pool::steal(thread_cache* mine) noexcept {
  shared_->repeat_recalls(mine);
  if (mine != nullptr && !mine->loaded.is_empty()) return mine->loaded.pop();
  const std::uint64_t now = base::cpu_ticks();
  const std::uint64_t since = now - shared_->last_sweep.load(std::memory_order_relaxed);
  const bool look_at_lent = since > base::ticks_per_ms() * SWEEP_US / 1000;
  if (look_at_lent) shared_->last_sweep.store(now, std::memory_order_relaxed);
  for (auto& slot : shared_->caches) {
    thread_cache* const other = slot.load(std::memory_order_acquire);  // edge pool.cache
    if (other == nullptr || other == mine) continue;
    if (other->pooled() == 0 && (other->lent.count() == 0 || !look_at_lent)) continue;
    if (!other->guard.seize(0)) continue;
    packet* p = nullptr;
    if (other->guard.enter()) {
      if (other->pooled() == 0) shared_->take_back(*other, FULL_LOOK, is_returned);
      magazine& from = other->spare.is_empty() ? other->loaded : other->spare;
      p = from.pop();
      shared_->store.drain(from);
      other->guard.leave();
    }
    other->guard.disown();
    if (p != nullptr) return p;
  }
  return nullptr;
}

LCI_COLD void packet_pool::restock_cold(packet* p) noexcept {
  thread_cache* const mine = my_cache();
  base::detail::thread_record* const me = base::detail::thread_record_tls;
  if (mine != nullptr && mine->guard.enter_brief(me)) {
    shared_->keep(*mine, p);
    base::owned::leave_brief(me);
  } else {
    magazine one;
    one.push(p);
    shared_->store.drain(one);
  }
}

LCI_COLD void packet_pool::put_other(packet& p) noexcept {
  if (p.state.load(std::memory_order_relaxed) == packet_state::posted) {
    p.state.store(packet_state::pooled, std::memory_order_relaxed);
    return restock(&p);
  }
  if (p.state.load(std::memory_order_relaxed) == packet_state::apart) {
    auto& far = static_cast<far_packet&>(p);
    if (home_of(far).put(far)) return;
  }
  refuse(p);
}

LCI_COLD void packet_pool::refuse(const packet& p) noexcept {
  // relaxed: a statistic.
  shared_->misuses.fetch_add(1, std::memory_order_relaxed);
  const auto state = static_cast<unsigned>(p.state.load(std::memory_order_relaxed));
  std::fprintf(stderr, "lci: packet %p was put back in state %u, not %u (out): ignored\n",
               static_cast<const void*>(&p), state, static_cast<unsigned>(packet_state::out));
#ifdef LCI_DEBUG
  std::abort();
#endif
}

bool packet_pool::lend(packet* p) noexcept {
  thread_cache* const mine = my_cache();
  if (mine == nullptr) return false;
  const base::owned_guard inside(mine->guard);
  if (!inside) return false;
  if (mine->credits == 0) [[unlikely]] {
    mine->credits = shared_->store.take_credits(CREDIT_BATCH);
    if (mine->credits == 0) shared_->take_back(*mine, FULL_LOOK, is_returned);
    if (mine->credits == 0) shared_->repeat_recalls(mine);
    if (mine->credits == 0) return false;
  }
  --mine->credits;
  // Relaxed: the borrower learns of the packet by a later release, that of the message.
  p->state.store(packet_state::lent, std::memory_order_relaxed);
  mine->lent.add(p);
  return true;
}

std::size_t packet_pool::reclaim() noexcept {
  thread_cache* const mine = my_cache();
  if (mine == nullptr || mine->lent.count() == 0) return 0;
  const base::owned_guard inside(mine->guard);
  return inside ? shared_->take_back(*mine, FULL_LOOK, is_returned) : 0;
}

std::size_t packet_pool::recall(std::uint64_t note) noexcept {
  bool is_whole = true;
  const std::size_t found =
      shared_->take_back_noted(note, my_cache(), false, base::owned::SEIZE_US, is_whole);
  if (is_whole) return found;
  // Without memory for that they stay away.
  if (auto* const one = new (std::nothrow) shared::unfinished{note}) shared_->add_recall(one);
  return found;
}

namespace {

// The packet header before that address in our arena, if there is one, in whatever state.
packet* header_of(const arena& own, void* payload) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(payload);
  if (address % base::CACHE_LINE != 0 || !own.contains(payload)) return nullptr;
  const std::uint64_t offset = own.offset_of(payload);
  // The header must be backed memory; offset 0 holds no packet.
  if (offset < 2 * sizeof(packet) || offset > own.committed()) return nullptr;
  packet* const p = packet::of_payload(payload);
  return p->magic == packet::MAGIC && p->pool != nullptr ? p : nullptr;
}

}  // namespace

bool packet_pool::is_given_away(const arena& own, void* payload) noexcept {
  if (const packet* const mine = header_of(own, payload); mine != nullptr)
    return mine->state.load(std::memory_order_relaxed) != packet_state::out;
  const auto address = reinterpret_cast<std::uintptr_t>(payload);
  if (address % base::CACHE_LINE != 0 || own.contains(payload)) return false;
  if (const far_packet* const far = find_far(own.payloads(), payload); far != nullptr)
    return far->state.load(std::memory_order_relaxed) != packet_state::apart;
  const packet* const p = packet::of_payload(payload);
  return own.packet_window().is_view(p) && p->magic == packet::MAGIC &&
         p->state.load(std::memory_order_relaxed) != packet_state::lent;
}

packet* packet_pool::checked(const arena& own, void* payload) noexcept {
  packet* const p = header_of(own, payload);
  return p != nullptr && p->state.load(std::memory_order_relaxed) == packet_state::out ? p
                                                                                       : nullptr;
}

LCI_COLD packet* packet_pool::held_near(const arena& own, void* payload) noexcept {
  if (own.contains(payload)) return checked(own, payload);
  const auto address = reinterpret_cast<std::uintptr_t>(payload);
  if (address % base::CACHE_LINE != 0) return nullptr;
  if (far_packet* const far = find_far(own.payloads(), payload); far != nullptr)
    return far->state.load(std::memory_order_relaxed) == packet_state::apart ? far : nullptr;
  if (!own.packet_window().is_view(packet::of_payload(payload))) return nullptr;
  packet* const p = packet::of_payload(payload);
  // Relaxed: the state was `lent` when the message arrived, and only its holder changes it.
  return p->magic == packet::MAGIC && p->state.load(std::memory_order_relaxed) == packet_state::lent
             ? p
             : nullptr;
}

bool packet_pool::owns(const packet* p) const noexcept { return shared_->store.has(p); }

void release_late(arena& own, packet* p) noexcept {
  if (!own.contains(p)) return return_borrowed(*p);
  own.for_each<packet_pool>([p](packet_pool& one) { return one.owns(p) ? one.put(p) : void(); });
}

std::size_t packet_pool::allocated() const noexcept { return shared_->store.allocated(); }

std::size_t packet_pool::outstanding() const noexcept {
  std::size_t pooled = shared_->store.pooled();
  for (const auto& slot : shared_->caches) {
    const thread_cache* const cache = slot.load(std::memory_order_acquire);  // edge pool.cache
    if (cache != nullptr) pooled += cache->pooled();
  }
  const std::size_t all = allocated();
  return all > pooled ? all - pooled : 0;
}

std::size_t packet_pool::lent() const noexcept {
  std::size_t sum = 0;
  for (const auto& slot : shared_->caches) {
    const thread_cache* const cache = slot.load(std::memory_order_acquire);  // edge pool.cache
    if (cache != nullptr) sum += cache->lent.count();
  }
  return sum;
}

std::size_t packet_pool::misuses() const noexcept {
  return shared_->misuses.load(std::memory_order_relaxed);
}

}  // namespace lci::mem
