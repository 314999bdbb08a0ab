/**
 * @file lct/thread_barrier.h
 * A barrier for the threads of a process, in one step or in two: arrive, and ask or wait later.
 */
#ifndef LCT_THREAD_BARRIER_H
#define LCT_THREAD_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What is behind LCT_tbarrier_t. */
struct LCT_tbarrier_opaque_t;
/** A barrier; may be used again at once. */
typedef struct LCT_tbarrier_opaque_t* LCT_tbarrier_t;

/**
 * Makes a barrier.
 * @param nthreads  arrivals that open it, at least 1
 * @return the barrier, to be freed by LCT_tbarrier_free()
 * @throws std::runtime_error  the number is less than 1
 * Threads: any.
 */
LCT_API LCT_tbarrier_t LCT_tbarrier_alloc(int nthreads);
/**
 * Frees a barrier that nobody waits for, and sets the variable to null.
 * @param barrier  the barrier; null is left alone
 * Threads: one.
 */
LCT_API void LCT_tbarrier_free(LCT_tbarrier_t* barrier);
/**
 * Arrives, and does not wait.
 * @param barrier  the barrier
 * @return a ticket for LCT_tbarrier_test() and LCT_tbarrier_wait()
 * Threads: any, as for all that follow.
 */
LCT_API int64_t LCT_tbarrier_arrive(LCT_tbarrier_t barrier);
/**
 * Whether all have arrived whom a ticket waits for. If so, what they did before is visible.
 * @param barrier  the barrier
 * @param ticket   of LCT_tbarrier_arrive()
 * @return true when they have; it stays so
 */
LCT_API bool LCT_tbarrier_test(LCT_tbarrier_t barrier, int64_t ticket);
/**
 * Waits until LCT_tbarrier_test() is true: first it spins, then it lends its core to others.
 * @param barrier  the barrier
 * @param ticket   of LCT_tbarrier_arrive()
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
