/**
 * @file lct/macros.h
 * Macros of the other headers of LCT, and checks of data placement.
 */
#ifndef LCT_MACROS_H
#define LCT_MACROS_H

#include <stdint.h>

#include "lct_config.h"

/** Marks the symbols that a client may link against. */
#define LCT_API __attribute__((visibility("default")))
/** Marks a function that ends the process or throws. */
#define LCT_NEVER_RETURNS __attribute__((noreturn, cold))

/** Whether `x` is true, as 0 or 1; tells the compiler that it usually is. */
#define LCT_likely(x) __builtin_expect(!!(x), 1)
/** Likewise; usually false. */
#define LCT_unlikely(x) __builtin_expect(!!(x), 0)

/** Fails like LCT_Assert unless both addresses are in the same cache line of LCT_CACHE_LINE bytes;
 * needs `lct.h`. */
#define LCT_ASSERT_SAME_CACHE_LINE(a, b)                                         \
  LCT_Assert(LCT_log_ctx_default,                                                \
             (uintptr_t)(a) / LCT_CACHE_LINE == (uintptr_t)(b) / LCT_CACHE_LINE, \
             "%s and %s are in different cache lines", #a, #b)
/** Fails like LCT_Assert unless the addresses are in different cache lines; needs `lct.h`. */
#define LCT_ASSERT_DIFF_CACHE_LINE(a, b)                                         \
  LCT_Assert(LCT_log_ctx_default,                                                \
             (uintptr_t)(a) / LCT_CACHE_LINE != (uintptr_t)(b) / LCT_CACHE_LINE, \
             "%s and %s are in the same cache line", #a, #b)

#endif /* LCT_MACROS_H */
