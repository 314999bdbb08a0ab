/**
 * @file lct/time.h
 * A clock, and conversion of its time to other units.
 */
#ifndef LCT_TIME_H
#define LCT_TIME_H

#include <stdint.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Nanoseconds: a point in time or a duration. */
typedef int64_t LCT_time_t;

/**
 * Reads a clock that never runs backwards and is the same for the whole host.
 * @return nanoseconds since an unspecified point
 * Threads: any.
 */
LCT_API LCT_time_t LCT_now(void);
/**
 * A time in nanoseconds.
 * @param time  as LCT_now() counts
 * @return nanoseconds
 * Threads: any, as for all four functions.
 */
LCT_API double LCT_time_to_ns(LCT_time_t time);
/**
 * A time in microseconds.
 * @param time  as LCT_now() counts
 * @return microseconds
 */
LCT_API double LCT_time_to_us(LCT_time_t time);
/**
 * A time in milliseconds.
 * @param time  as LCT_now() counts
 * @return milliseconds
 */
LCT_API double LCT_time_to_ms(LCT_time_t time);
/**
 * A time in seconds.
 * @param time  as LCT_now() counts
 * @return seconds
 */
LCT_API double LCT_time_to_s(LCT_time_t time);

#ifdef __cplusplus
}
#endif

#endif /* LCT_TIME_H */
