/* What the rows are written with: they are C99 and C++11 at once, and each is compiled as both. */
#ifndef LCI_TESTS_LCT_ROWS_H
#define LCI_TESTS_LCT_ROWS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lct.h"

/* Ends the test unless it holds. */
#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* Only C++ can catch what a call throws. */
#ifdef __cplusplus
#include <stdexcept>
#include <string>
#define CHECK_THROWS(call, part)                                                   \
  do {                                                                             \
    std::string said = "nothing was thrown";                                       \
    try {                                                                          \
      (void)(call);                                                                \
    } catch (const std::runtime_error& error) {                                    \
      said = error.what();                                                         \
    }                                                                              \
    if (said.find(part) == std::string::npos) {                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, said.c_str()); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)
#else
#define CHECK_THROWS(call, part) ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif
void row_life(void);
void row_time(void);
void row_dictionaries(void);
void row_strings(void);
void row_threads(void);
void row_log(void);
void row_log_variables(void);
void row_log_first_use(void);
void row_assert_aborts(void);
void row_counters(void);
void row_counter_variables(void);
void row_counter_samples(void);
void row_counter_samples_late(void);
void row_queues(void);
void row_bootstrap(void);
void row_arguments(void);
void row_thread_barrier(void);
void row_macros(void);
#ifdef __cplusplus
}
#endif

/* All of a file, freed by the next call. */
const char* text_of_file(const char* name);

#endif
