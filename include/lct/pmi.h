/**
 * @file lct/pmi.h
 * How the processes of a job find each other: put, fence, get, over whatever started them
 * (`LCT_PMI_BACKEND`, see docs/starting.md).
 *
 * A process is a member of its job once. LCI and this interface share that membership: whoever
 * comes first joins, and who goes last leaves.
 */
#ifndef LCT_PMI_H
#define LCT_PMI_H

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes of a key or a value, without the zero byte behind them. */
#define LCT_PMI_STRING_LIMIT 255

/**
 * Joins the job; counted.
 * @throws std::runtime_error  no bootstrap is available, or the one that is cannot join
 * Threads: one at a time, as all of these.
 */
LCT_API void LCT_pmi_initialize(void);
/**
 * Ends one LCT_pmi_initialize().
 * @throws std::runtime_error  there was none for it
 */
LCT_API void LCT_pmi_finalize(void);
/**
 * Whether this process is a member of its job now, by this interface or by LCI.
 * @return 1 or 0
 */
LCT_API int LCT_pmi_initialized(void);
/**
 * The rank of this process.
 * @return from 0
 * @throws std::runtime_error  this process is no member
 */
LCT_API int LCT_pmi_get_rank(void);
/**
 * The number of ranks.
 * @return from 1
 * @throws std::runtime_error  this process is no member
 */
LCT_API int LCT_pmi_get_size(void);
/**
 * Offers a value to all ranks from the next LCT_pmi_barrier() on. A second value of the same key
 * replaces the first.
 * @param key    name of the value, at most LCT_PMI_STRING_LIMIT bytes; names that LCI uses are
 * others
 * @param value  any string of at most LCT_PMI_STRING_LIMIT bytes
 * @throws std::runtime_error  an empty key, one that is too long, or this process is no member
 */
LCT_API void LCT_pmi_publish(const char* key, const char* value);
/**
 * What a rank has published before the last barrier.
 * @param rank   whose
 * @param key    name of the value
 * @param value  gets it with a zero byte: room for LCT_PMI_STRING_LIMIT + 1 bytes
 * @throws std::runtime_error  a rank out of range, a key that it did not publish, or this process
 * is no member
 */
LCT_API void LCT_pmi_getname(int rank, const char* key, char* value);
/**
 * Waits until every rank has called it.
 * @throws std::runtime_error  a rank is gone or time is up, or this process is no member
 */
LCT_API void LCT_pmi_barrier(void);

#ifdef __cplusplus
}
#endif

#endif /* LCT_PMI_H */
