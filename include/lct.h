/**
 * @file lct.h
 * The companion C library: utilities that programs around a message library need and C lacks, as
 * C99 and as C++11.
 *
 * This library does not need LCI, and LCI does not need it, but they cooperate: a process is a
 * member of its job only once, whichever of the two joined first, and has one rank.
 *
 * Errors: a wrong call, or one that the system refuses, throws a `std::runtime_error`. A C++ caller
 * can catch it; in a C program it ends the process and its text is printed.
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
