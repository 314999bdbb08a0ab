/**
 * @file lct/life.h
 * Start and end of the companion library, identity of this process, and numbers of its threads.
 */
#ifndef LCT_LIFE_H
#define LCT_LIFE_H

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the library at run time.
 * @return such as "2.0.0-dev"; never freed
 * Threads: any.
 */
LCT_API const char* LCT_version(void);

/** Initializes the library. Calls are counted, so several libraries of one program may each call
 * it. Threads: one at a time. */
LCT_API void LCT_init(void);
/**
 * Undoes one LCT_init(). Allocated objects stay valid. The last call writes out LCT_log_ctx_default
 * and the counters.
 * @throws std::runtime_error  there was no matching LCT_init()
 * Threads: one at a time.
 */
LCT_API void LCT_fina(void);

/**
 * Sets the rank at the start of log lines, which also replaces `%` in names of log files. LCI and
 * LCT_pmi_initialize() set it; a program with another bootstrap sets it here.
 * @param rank  of this process; -1 means unknown
 * Threads: any.
 */
LCT_API void LCT_set_rank(int rank);
/**
 * The rank of this process.
 * @return the rank set last; -1 until then
 * Threads: any.
 */
LCT_API int LCT_get_rank(void);
/** The result of LCT_get_rank(); read only. */
extern LCT_API int LCT_rank;
/** Name of this host, at most 255 bytes; valid as soon as the library is loaded. */
extern LCT_API char LCT_hostname[256];

/**
 * A number for the calling thread.
 * @return from 0, in the order of first calls; never reused for another thread
 * Threads: any.
 */
LCT_API int LCT_get_thread_id(void);
/**
 * The number of threads that have a number.
 * @return one more than the highest number that LCT_get_thread_id() has returned
 * Threads: any.
 */
LCT_API int LCT_get_nthreads(void);

#ifdef __cplusplus
}
#endif

#endif /* LCT_LIFE_H */
