// The taker's side of base/owned, and the slow paths of the owner's side.
// Called by threads that want what another thread owns. Threads: any.
#include "lci/base/owned.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lci::base {

namespace detail {
constinit thread_record nobody{NO_THREAD_ID};
constinit std::atomic<bool> plain_fence{false};
}  // namespace detail

namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

std::atomic<bool> forced_locked{false};

std::uint64_t ticks_of_us(std::uint64_t us) noexcept { return ticks_per_ms() * us / 1000; }

// Counters of different cores may differ a little: a negative difference counts as no time.
bool elapsed(std::uint64_t since, std::uint64_t ticks) noexcept {
  return static_cast<std::int64_t>(cpu_ticks() - since) >= static_cast<std::int64_t>(ticks);
}

}  // namespace

bool heavy_fence() noexcept {
  if (LCI_TSAN || forced_locked.load(std::memory_order_relaxed)) return true;
  if (!has_asymmetric_fence()) return true;  // owners use locked exchanges
  return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool has_asymmetric_fence() noexcept {
  static const bool registered = [] {
    const bool ok = !LCI_TSAN && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    detail::plain_fence.store(ok, std::memory_order_relaxed);
    return ok;
  }();
  return registered && !forced_locked.load(std::memory_order_relaxed);
}

void force_locked_fence_for_test(bool on) noexcept {
  has_asymmetric_fence();
  forced_locked.store(on, std::memory_order_relaxed);
  detail::plain_fence.store(has_asymmetric_fence(), std::memory_order_relaxed);
}

LCI_COLD bool owned::enter_slow() noexcept {
  thread_id();  // a thread's very first visit
  record* const me = detail::thread_record_tls;
  if (me == nullptr || me->depth.load(std::memory_order_relaxed) == record::MAX_INSIDE)
    return false;
  // Already inside, while a taker that will find us there has withdrawn the ownership briefly.
  if (me->holds(this)) return enter_nested(me);
  return become_owner(me) && announce(me);
}

LCI_COLD bool owned::enter_brief_slow() noexcept {
  thread_id();
  record* const me = detail::thread_record_tls;
  return me != nullptr && become_owner(me) && announce_brief(me);
}

// Succeeds if there is no owner, or if the owner is idle.
bool owned::become_owner(record* me) noexcept {
  // Look at the clock before the lock: threads that poll what another thread owns come here often.
  const record* const old = owner_.load(std::memory_order_relaxed);
  if (old != &detail::nobody && old != me) {
    const std::uint64_t seen = seen_ticks_.load(std::memory_order_relaxed);
    if (seen != 0 && !elapsed(seen, ticks_of_us(IDLE_US))) return false;
  }
  if (!taking_.try_lock()) return false;
  const bool mine = claim(me);
  taking_.unlock();
  return mine;
}

// Needs no look at owner_: no other thread can take what we are inside of.
bool owned::enter_nested(record* me) noexcept {
  const std::uint32_t depth = me->depth.load(std::memory_order_relaxed);
  me->inside[depth].store(this, std::memory_order_release);  // edge owned.moved: see close_gap()
  me->depth.store(depth + 1, std::memory_order_release);     // edge owned.leave: partner is holds()
  return true;
}

// Under taking_: makes `me` the owner if there is none, or if the owner has been idle since an
// earlier look.
bool owned::claim(record* me) noexcept {
  record* const old = owner_.load(std::memory_order_relaxed);
  if (old == me) return true;
  if (old == &detail::nobody) {
    restart_idle_clock();
    owner_.store(me, std::memory_order_release);  // edge owned.owner: for owner() to read the id
    return true;
  }
  const bool stood_still =
      seen_ticks_.load(std::memory_order_relaxed) != 0 &&
      seen_visits_.load(std::memory_order_relaxed) == visits_.load(std::memory_order_relaxed);
  restart_idle_clock();
  return stood_still && take_from(old, me, 0);
}

// Under taking_: withdraws the ownership of `old` and waits until it is outside.
bool owned::take_from(record* old, record* me, std::uint64_t wait_us) noexcept {
  // Without waiting, a barrier would be wasted on an owner that is plainly inside.
  if (wait_us == 0 && old->holds(this)) return false;
  owner_.store(&detail::nobody, std::memory_order_seq_cst);  // edge owned.enter: see announce()
  // The system may refuse the barrier for want of memory: then nothing is known, and it is tried
  // again.
  bool is_fenced = heavy_fence();
  bool outside = is_fenced && !old->holds(this);
  if (!outside && wait_us != 0) {
    const std::uint64_t start = cpu_ticks();
    const std::uint64_t limit = ticks_of_us(wait_us);
    while (!outside && !elapsed(start, limit)) {
      sched_yield();
      is_fenced = is_fenced || heavy_fence();
      outside = is_fenced && !old->holds(this);
    }
  }
  // edge owned.owner: for owner() to read the id.
  owner_.store(outside ? me : old, std::memory_order_release);
  if (outside) restart_idle_clock();
  return outside;
}

LCI_COLD bool owned::seize(std::uint64_t wait_us) noexcept {
  thread_id();
  record* const me = detail::thread_record_tls;
  if (me == nullptr || me->holds(this)) return false;
  if (wait_us != 0)
    taking_.lock();
  else if (!taking_.try_lock())
    return false;
  record* const old = owner_.load(std::memory_order_relaxed);
  bool mine = old == me || old == &detail::nobody;
  if (!mine)
    mine = take_from(old, me, wait_us);
  else if (old != me)
    owner_.store(me, std::memory_order_release);  // edge owned.owner
  taking_.unlock();
  return mine;
}

LCI_COLD void owned::retire() noexcept {
  taking_.lock();
  record* const old = owner_.load(std::memory_order_relaxed);
  if (old != &detail::nobody) {
    owner_.store(&detail::nobody, std::memory_order_seq_cst);  // edge owned.enter: see announce()
    while (!heavy_fence() || old->holds(this)) sched_yield();
  }
  taking_.unlock();
}

LCI_COLD void owned::disown() noexcept {
  record* const me = detail::thread_record_tls;
  taking_.lock();
  // edge spinlock.held: the next owner claims under taking_, so it sees what was written inside.
  if (me != nullptr && owner_.load(std::memory_order_relaxed) == me && !me->holds(this)) {
    owner_.store(&detail::nobody, std::memory_order_release);  // edge owned.owner
  }
  taking_.unlock();
}

// For visits that end out of order: the last one moves to the place of the one that ends. Places
// change to lower ones only, and a taker looks downwards: it may find the next visit in the place
// that the last one had, but then it finds that one further down (edge owned.moved).
LCI_COLD void owned::close_gap(record* me, std::uint32_t last) noexcept {
  std::uint32_t at = last;
  while (at > 0 && me->inside[at].load(std::memory_order_relaxed) != this) --at;
  // The last one is announced twice until leave() shortens the list.
  const void* const top = me->inside[last].load(std::memory_order_relaxed);
  me->inside[at].store(top, std::memory_order_release);  // edge owned.leave: partner is holds()
}

void owned::restart_idle_clock() noexcept {
  seen_visits_.store(visits_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  seen_ticks_.store(cpu_ticks() | 1, std::memory_order_relaxed);
}

}  // namespace lci::base
