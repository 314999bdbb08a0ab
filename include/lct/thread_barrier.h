/**
 * @file lct/thread_barrier.h
 * A barrier for the threads of a process, in one step or in two: arrive, then test or wait later.
 */
#ifndef LCT_THREAD_BARRIER_H
#define LCT_THREAD_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Implementation of LCT_tbarrier_t. */
struct LCT_tbarrier_opaque_t;
/** A barrier; can be reused at once. */
typedef struct LCT_tbarrier_opaque_t* LCT_tbarrier_t;

/**
 * Creates a barrier.
 * @param nthreads  arrivals that open it, at least 1
 * @return the barrier; free it with LCT_tbarrier_free()
 * @throws std::runtime_error  the number is less than 1
 * Threads: any.
 */
LCT_API LCT_tbarrier_t LCT_tbarrier_alloc(int nthreads);
/**
 * Frees a barrier for which no thread waits, and sets the pointer to null.
 * @param barrier  the barrier; null is ignored
 * Threads: one.
 */
LCT_API void LCT_tbarrier_free(LCT_tbarrier_t* barrier);
/**
 * Arrives without waiting.
 * @param barrier  the barrier
 * @return a ticket for LCT_tbarrier_test() and LCT_tbarrier_wait()
 * Threads: any, as for all functions below.
 */
LCT_API int64_t LCT_tbarrier_arrive(LCT_tbarrier_t barrier);
/**
 * Whether all arrivals for which a ticket waits have happened. If so, the earlier writes of those
 * threads are visible.
 * @param barrier  the barrier
 * @param ticket   from LCT_tbarrier_arrive()
 * @return true if so; it then stays true
 */
LCT_API bool LCT_tbarrier_test(LCT_tbarrier_t barrier, int64_t ticket);
/**
 * Waits until LCT_tbarrier_test() returns true: spins first, then yields its core.
 * @param barrier  the barrier
 * @param ticket   from LCT_tbarrier_arrive()
 */
LCT_API void LCT_tbarrier_wait(LCT_tbarrier_t barrier, int64_t ticket);
/**
 * Arrives and waits.
 * @param barrier  the barrier
 */
LCT_API void LCT_tbarrier_arrive_and_wait(LCT_tbarrier_t barrier);

#ifdef __cplusplus
}
#endif

#endif /* LCT_THREAD_BARRIER_H */
