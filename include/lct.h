/**
 * @file lct.h
 * The companion C library. It will carry logging, bootstrap, counters, queues and argument parsing
 * for C programs; so far it only says which version it is.
 */
#ifndef LCT_H
#define LCT_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what a client may link against. */
#define LCT_API __attribute__((visibility("default")))

/** Version of the library that the program runs with, such as "2.0.0-dev". Threads: any. */
LCT_API const char* LCT_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LCT_H */
