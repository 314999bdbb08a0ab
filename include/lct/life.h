/**
 * @file lct/life.h
 * Start and end of the companion library, who this process is, and numbers of its threads.
 */
#ifndef LCT_LIFE_H
#define LCT_LIFE_H

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the library that the program runs with.
 * @return such as "2.0.0-dev"; never freed
 * Threads: any.
 */
LCT_API const char* LCT_version(void);

/** Starts the library; counted, so libraries of one program may each call it. Threads: one at a
 * time. */
LCT_API void LCT_init(void);
/**
 * Ends one LCT_init(). What was allocated stays valid; the last one writes out what
 * LCT_log_ctx_default and the counters have to say.
 * @throws std::runtime_error  there was no LCT_init() for it
 * Threads: one at a time.
 */
LCT_API void LCT_fina(void);

/**
 * The rank that log lines begin with and that replaces `%` in names of log files. LCI and
 * LCT_pmi_initialize() set it; who has another bootstrap sets it here.
 * @param rank  of this process; -1 means not known
 * Threads: any.
 */
LCT_API void LCT_set_rank(int rank);
/**
 * The rank of this process.
 * @return what was set last; -1 until then
 * Threads: any.
 */
LCT_API int LCT_get_rank(void);
/** What LCT_get_rank() answers, to be read only. */
extern LCT_API int LCT_rank;
/** Name of this host, at most 255 bytes; there as soon as the library is loaded. */
extern LCT_API char LCT_hostname[256];

/**
 * A number for the calling thread.
 * @return from 0, in the order of first calls; never given to another thread
 * Threads: any.
 */
LCT_API int LCT_get_thread_id(void);
/**
 * How many threads have a number.
 * @return one more than the highest number that LCT_get_thread_id() has answered
 * Threads: any.
 */
LCT_API int LCT_get_nthreads(void);

#ifdef __cplusplus
}
#endif

#endif /* LCT_LIFE_H */
