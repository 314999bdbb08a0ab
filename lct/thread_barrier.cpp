// One count of all arrivals: the n-th opens the first round, the 2n-th the second.
// Threads: shared.
#include "lct/thread_barrier.h"

#include <atomic>
#include <string>
#include <utility>

#include "lci/base/spin.hpp"
#include "lci/errors.hpp"

struct LCT_tbarrier_opaque_t {
  explicit LCT_tbarrier_opaque_t(int n) : threads(n) {}
  const std::int64_t threads;
  std::atomic<std::int64_t> arrived{0};
};

extern "C" {

LCT_tbarrier_t LCT_tbarrier_alloc(int nthreads) {
  if (nthreads < 1)
    throw lci::argument_error("LCT_tbarrier_alloc(): " + std::to_string(nthreads) +
                              " threads: expected at least 1");
  return new LCT_tbarrier_opaque_t(nthreads);
}

void LCT_tbarrier_free(LCT_tbarrier_t* barrier) {
  if (barrier != nullptr) delete std::exchange(*barrier, nullptr);
}

int64_t LCT_tbarrier_arrive(LCT_tbarrier_t barrier) {
  // edge tbarrier.arrive: what was done before is visible to a thread that finds the round open.
  // Acquire, because the last thread to arrive makes no later check.
  const std::int64_t before = barrier->arrived.fetch_add(1, std::memory_order_acq_rel);
  return before / barrier->threads;
}

bool LCT_tbarrier_test(LCT_tbarrier_t barrier, int64_t ticket) {
  // edge tbarrier.arrive, reader.
  return barrier->arrived.load(std::memory_order_acquire) >= (ticket + 1) * barrier->threads;
}

void LCT_tbarrier_wait(LCT_tbarrier_t barrier, int64_t ticket) {
  for (lci::base::spin_wait wait; !LCT_tbarrier_test(barrier, ticket);) wait();
}

void LCT_tbarrier_arrive_and_wait(LCT_tbarrier_t barrier) {
  LCT_tbarrier_wait(barrier, LCT_tbarrier_arrive(barrier));
}

}  // extern "C"
