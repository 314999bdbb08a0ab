/**
 * @file lct/counters.h
 * Performance counters: sums, sums over time, and durations, updated by many threads.
 *
 * Adding costs a few plain loads and stores to a cache line of the calling thread. Variables, read
 * when a context is created: `LCT_PCOUNTER_AUTO_DUMP` (stderr, stdout or a path in which `%`
 * becomes the rank) makes a context write itself there when it is freed, or at the last LCT_fina()
 * if it still exists. `LCT_PCOUNTER_RECORD_INTERVAL` (microseconds) starts a thread that calls
 * LCT_pcounter_record(). `LCT_PCOUNTER_DUMP_ON_THE_FLY` makes it write each sample when it is
 * taken, by default once a second; with `LCT_PCOUNTER_DUMP_ON_THE_FLY_LW` only counters that have
 * changed since the sample that was written before. `LCT_PCOUNTER_MODE=on-the-fly` (or
 * `on-the-fly-lw`) does the same to the file `lct_pcounter.<host>.<rank>.out`.
 */
#ifndef LCT_COUNTERS_H
#define LCT_COUNTERS_H

#include <stdint.h>
#include <stdio.h>

#include "lct/macros.h"
#include "lct/time.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Kind of a counter. */
typedef enum {
  LCT_PCOUNTER_NONE,    /**< nothing: the handle of a counter that was not registered */
  LCT_PCOUNTER_COUNTER, /**< the sum of all values added */
  LCT_PCOUNTER_TREND,   /**< the sum, and its growth between calls of LCT_pcounter_record() */
  LCT_PCOUNTER_TIMER    /**< number, sum, average, minimum and maximum of durations */
} LCT_pcounter_type_t;

/** A context: a group of counters that are written together. */
typedef void* LCT_pcounter_ctx_t;
/** A counter of a context. One that is all zero counts nothing. */
typedef struct {
  LCT_pcounter_type_t type; /**< its kind */
  int idx;                  /**< its number in this process */
} LCT_pcounter_handle_t;

/**
 * Creates a context without counters.
 * @param name  shown with each of its counters; copied
 * @return the context; free it with LCT_pcounter_ctx_free()
 * @throws std::runtime_error  a variable has an invalid value
 * Threads: any.
 */
LCT_API LCT_pcounter_ctx_t LCT_pcounter_ctx_alloc(const char* name);
/**
 * Frees a context with its counters and sets the pointer to null. Writes the context out first if
 * an environment variable requests it.
 * @param ctx  the context; no thread may still add to its counters
 * Threads: one.
 */
LCT_API void LCT_pcounter_ctx_free(LCT_pcounter_ctx_t* ctx);
/**
 * Finds the counter of that name, or creates it.
 * @param ctx   the context
 * @param name  of the counter; copied
 * @param type  its kind
 * @return the handle, the same for the same name
 * @throws std::runtime_error  the name exists with another type, or the type is none
 * Threads: any.
 */
LCT_API LCT_pcounter_handle_t LCT_pcounter_register(LCT_pcounter_ctx_t ctx, const char* name,
                                                    LCT_pcounter_type_t type);

/**
 * Adds to a counter or trend, or one duration to a timer.
 * @param ctx     its context
 * @param handle  the counter
 * @param val     the value to add; nanoseconds for a timer
 * Threads: any, as all that follow.
 */
LCT_API void LCT_pcounter_add(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle, int64_t val);
/**
 * Begins a duration of this thread.
 * @param ctx     its context
 * @param handle  a timer
 */
LCT_API void LCT_pcounter_start(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle);
/**
 * Ends the duration that this thread last began for that timer, and adds it. Without a beginning it
 * does nothing.
 * @param ctx     its context
 * @param handle  a timer
 */
LCT_API void LCT_pcounter_end(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle);
/**
 * Begins a duration of this thread at a time that the caller has read.
 * @param ctx     its context
 * @param handle  a timer
 * @param time    of LCT_now()
 */
LCT_API void LCT_pcounter_startt(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle,
                                 LCT_time_t time);
/**
 * Ends a duration at a time that the caller has read.
 * @param ctx     its context
 * @param handle  a timer
 * @param time    of LCT_now()
 */
LCT_API void LCT_pcounter_endt(LCT_pcounter_ctx_t ctx, LCT_pcounter_handle_t handle,
                               LCT_time_t time);

/**
 * Takes a sample of all counters of a context.
 * @param ctx  the context
 */
LCT_API void LCT_pcounter_record(LCT_pcounter_ctx_t ctx);
/**
 * Writes all counters of a context as text, one per line, and below a trend its samples.
 * @param ctx  the context
 * @param out  the destination
 */
LCT_API void LCT_pcounter_dump(LCT_pcounter_ctx_t ctx, FILE* out);

#ifdef __cplusplus
}
#endif

#endif /* LCT_COUNTERS_H */
