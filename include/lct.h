/**
 * @file lct.h
 * The companion C library: what programs around a message library need and C does not have, as C99
 * and as C++11.
 *
 * Nothing here needs LCI, and LCI needs nothing of it, but both know of each other: a process is a
 * member of its job once, whichever of the two joined first, and has one rank.
 *
 * Errors: a call that is used wrongly, or that the system refuses, throws a `std::runtime_error`. A
 * C++ caller can catch it; in a C program it ends the process and its text is printed.
 */
#ifndef LCT_H
#define LCT_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "lct/arguments.h"
#include "lct/counters.h"
#include "lct/life.h"
#include "lct/log.h"
#include "lct/macros.h"
#include "lct/pmi.h"
#include "lct/queue.h"
#include "lct/text.h"
#include "lct/thread_barrier.h"
#include "lct/time.h"
#include "lct_config.h"

#endif /* LCT_H */
