/**
 * @file lct/pmi.h
 * How the processes of a job exchange addresses: put, fence, get, through the launcher
 * (`LCT_PMI_BACKEND`, see docs/starting.md).
 *
 * A process is a member of its job only once. LCI and this interface share that membership: the
 * first one to start joins the job, and the last one to end leaves it.
 */
#ifndef LCT_PMI_H
#define LCT_PMI_H

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maximum length of a key or a value in bytes, without the terminating zero. */
#define LCT_PMI_STRING_LIMIT 255

/**
 * Joins the job. Calls are counted.
 * @throws std::runtime_error  no bootstrap is available, or the available one cannot join
 * Threads: one at a time, as for all functions of this file.
 */
LCT_API void LCT_pmi_initialize(void);
/**
 * Undoes one LCT_pmi_initialize().
 * @throws std::runtime_error  there was no matching call
 */
LCT_API void LCT_pmi_finalize(void);
/**
 * Whether this process is currently a member of its job, through this interface or through LCI.
 * @return 1 or 0
 */
LCT_API int LCT_pmi_initialized(void);
/**
 * The rank of this process.
 * @return from 0
 * @throws std::runtime_error  this process is not a member
 */
LCT_API int LCT_pmi_get_rank(void);
/**
 * The number of ranks.
 * @return from 1
 * @throws std::runtime_error  this process is not a member
 */
LCT_API int LCT_pmi_get_size(void);
/**
 * Publishes a value to all ranks, from the next LCT_pmi_barrier() on. A second value of the same
 * key replaces the first.
 * @param key    name of the value, at most LCT_PMI_STRING_LIMIT bytes; it cannot collide with names
 * of LCI
 * @param value  any string of at most LCT_PMI_STRING_LIMIT bytes
 * @throws std::runtime_error  an empty key, a string that is too long, or this process is not a
 * member
 */
LCT_API void LCT_pmi_publish(const char* key, const char* value);
/**
 * Returns a value that a rank published before the last barrier.
 * @param rank   the publishing rank
 * @param key    name of the value
 * @param value  receives it with a terminating zero; must have LCT_PMI_STRING_LIMIT + 1 bytes
 * @throws std::runtime_error  a rank out of range, a key that it did not publish, or this process
 * is not a member
 */
LCT_API void LCT_pmi_getname(int rank, const char* key, char* value);
/**
 * Waits until every rank has called it.
 * @throws std::runtime_error  a rank has failed or the time limit has expired, or this process is
 * not a member
 */
LCT_API void LCT_pmi_barrier(void);

#ifdef __cplusplus
}
#endif

#endif /* LCT_PMI_H */
