#include "lci/base/waiting_calls.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "lci/base/platform.hpp"
#include "lci/base/race_point.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::base {
namespace {

struct alignas(CACHE_LINE) row {
  spinlock lock;  // guards what follows
  unsigned depth = 0;
  // All zeros, so that the table takes no room in the library's file: waiting_call has other
  // defaults.
  struct {
    const char* what;
    const void* object;
    std::int32_t rank, thread;
    std::uint64_t tag, size;
    std::uint8_t refusal;
    std::int64_t since_ms;
  } calls[MOST_WAITING];
};
constinit row rows[MAX_THREADS] = {};  // by thread number

row* mine() noexcept {
  const std::uint32_t id = thread_id();
  return id < MAX_THREADS ? &rows[id] : nullptr;
}

}  // namespace

void enter_waiting(const waiting_call& call) noexcept {
  row* const r = mine();
  if (r == nullptr) return;
  const auto thread = static_cast<std::int32_t>(::syscall(SYS_gettid));
  const std::lock_guard guard(r->lock);
  if (r->depth < MOST_WAITING) {
    r->calls[r->depth] = {call.what, call.object, call.rank,    thread,
                          call.tag,  call.size,   call.refusal, report::moment::now_ms()};
  }
  LCI_RACE_POINT("waiting_calls.enter.in_row");
  ++r->depth;
}

void leave_waiting() noexcept {
  row* const r = mine();
  if (r == nullptr) return;
  const std::lock_guard guard(r->lock);
  --r->depth;
}

void report_waiting(report::sheet& to) noexcept {
  for (row& r : rows) {
    // A lock that is held may be held by this very thread, interrupted inside.
    const std::unique_lock guard(r.lock, std::try_to_lock);
    if (!guard.owns_lock()) {
      to.add(report::kind::busy, "a blocking call");
      continue;
    }
    for (unsigned i = 0; i < r.depth && i < MOST_WAITING; ++i) {
      const auto& call = r.calls[i];
      report::record* const out = to.add(report::kind::call, call.what);
      if (out == nullptr) return;
      out->thread = call.thread;
      out->object = reinterpret_cast<std::uintptr_t>(call.object);
      out->rank = call.rank;
      out->tag = call.tag;
      out->size = call.size;
      out->how = call.refusal;
      out->age_ms = to.now_ms() - call.since_ms;
    }
  }
}

}  // namespace lci::base
