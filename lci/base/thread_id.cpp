// Hands out thread numbers and records, and takes them back when threads end.
// Called by every thread once. Threads: any; one mutex guards the free numbers.
#include "lci/base/thread_id.hpp"

#include <pthread.h>

#include <bit>
#include <mutex>
#include <new>

#include "lci/base/owned.hpp"

namespace lci::base::detail {

constinit thread_local std::uint32_t thread_id_tls = NO_THREAD_ID;
constinit thread_local thread_record* thread_record_tls = nullptr;
constinit thread_local std::uint64_t thread_serial_tls = 0;

namespace {

constexpr std::uint32_t WORD_BITS = 64;
constexpr std::uint32_t WORDS = MAX_THREADS / WORD_BITS;

// Trivially destructible, so that threads that outlive static destruction still find it intact.
struct registry {
  // edge thread.handover, both sides: what the last holder of a number wrote is seen by the next
  // one, because one unlocks and the other locks this mutex.
  std::mutex mutex;
  std::uint64_t taken[WORDS] = {};
  thread_record records[MAX_THREADS];
  thread_record* spare = nullptr;
  std::uint32_t alive = 0;    // threads with a record, and so with an end that is noticed
  bool has_left_out = false;  // threads without one
};
constinit registry all;

// The lowest first: dense numbers keep per-thread tables short, and the next thread inherits.
std::uint32_t take_number() noexcept {
  for (std::uint32_t word = 0; word < WORDS; ++word) {
    const auto bit = static_cast<std::uint32_t>(std::countr_one(all.taken[word]));
    if (bit == WORD_BITS) continue;
    all.taken[word] |= std::uint64_t{1} << bit;
    return word * WORD_BITS + bit;
  }
  return OVERFLOW_THREAD;
}

// Records of overflow threads are kept for reuse and never freed: others may still look at them.
thread_record* take_spare() noexcept {
  if (thread_record* record = all.spare) {
    all.spare = record->next_free;
    return record;
  }
  // Null is harmless: such a thread never owns anything.
  return new (std::nothrow) thread_record;
}

// Under the mutex.
void put_back(thread_record* record) noexcept {
  if (record->id < MAX_THREADS) {
    all.taken[record->id / WORD_BITS] &= ~(std::uint64_t{1} << (record->id % WORD_BITS));
  } else {
    record->next_free = all.spare;
    all.spare = record;
  }
}

void release(void* value) noexcept {
  auto* const record = static_cast<thread_record*>(value);
  thread_id_tls = NO_THREAD_ID;
  thread_record_tls = nullptr;
  record->depth.store(0, std::memory_order_release);        // edge owned.leave: see holds()
  record->brief.store(nullptr, std::memory_order_release);  // likewise
  const std::lock_guard<std::mutex> lock(all.mutex);
  put_back(record);
  --all.alive;
}

// A key of the thread library, not a thread_local object: its destructor runs after those of all
// thread_local objects, and runs again if another key's destructor asked for a number once more.
// False: the program has taken all keys, or there is no memory.
bool release_at_exit(thread_record* record) noexcept {
  static pthread_key_t key;
  static const bool is_made = pthread_key_create(&key, release) == 0;
  return is_made && pthread_setspecific(key, record) == 0;
}

}  // namespace

LCI_COLD std::uint32_t assign_thread_id() noexcept {
  has_asymmetric_fence();  // registers before this thread can become an owner
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::uint32_t id = take_number();
  thread_record* record = id < MAX_THREADS ? &all.records[id] : take_spare();
  if (record != nullptr) {
    record->id = id;
    if (!release_at_exit(record)) {
      // What the thread had would never be given back: it gets what threads beyond the limit share.
      put_back(record);
      record = nullptr;
      id = OVERFLOW_THREAD;
    }
  }
  if (record != nullptr)
    ++all.alive;
  else
    all.has_left_out = true;
  thread_record_tls = record;
  thread_id_tls = id;
  return id;
}

LCI_COLD std::uint64_t assign_thread_serial() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  thread_serial_tls = last.fetch_add(1, std::memory_order_relaxed) + 1;  // only a number
  return thread_serial_tls;
}

}  // namespace lci::base::detail

bool lci::base::is_only_thread() noexcept {
  thread_id();
  const std::lock_guard<std::mutex> lock(detail::all.mutex);
  return detail::all.alive == 1 && !detail::all.has_left_out;
}
