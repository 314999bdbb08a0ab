/* Life, time, threads, macros. */
#include <pthread.h>

#include "rows.h"

void row_life(void) {
  CHECK(strcmp(LCT_version(), LCT_VERSION_STRING) == 0);
  CHECK(LCT_rank == -1 && LCT_get_rank() == -1);
  CHECK(LCT_hostname[0] != '\0' && LCT_hostname[0] != '?');
  LCT_init();
  LCT_init();
  LCT_fina();
  LCT_set_rank(7);
  CHECK(LCT_rank == 7 && LCT_get_rank() == 7);
  LCT_fina();
  CHECK_THROWS(LCT_fina(), "without LCT_init()");
  LCT_init(); /* once more */
  LCT_fina();
}

void row_time(void) {
  const LCT_time_t before = LCT_now();
  LCT_time_t after = LCT_now();
  while (after == before) after = LCT_now();
  CHECK(after > before);
  CHECK(LCT_time_to_ns(1500000000) == 1500000000.0);
  CHECK(LCT_time_to_us(1500000000) == 1500000.0);
  CHECK(LCT_time_to_ms(1500000000) == 1500.0);
  CHECK(LCT_time_to_s(1500000000) == 1.5);
}

#define MANY 400 /* more than any table of ours has */

static void* note_number(void* place) {
  *(int*)place = LCT_get_thread_id();
  CHECK(*(int*)place == LCT_get_thread_id());
  return NULL;
}

void row_threads(void) {
  int numbers[MANY];
  char seen[MANY + 1];
  int i;
  pthread_t threads[MANY];
  CHECK(LCT_get_nthreads() == 0);
  CHECK(LCT_get_thread_id() == 0 && LCT_get_nthreads() == 1);
  for (i = 0; i < MANY; ++i)
    CHECK(pthread_create(&threads[i], NULL, note_number, &numbers[i]) == 0);
  for (i = 0; i < MANY; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  memset(seen, 0, sizeof(seen));
  for (i = 0; i < MANY; ++i) {
    CHECK(numbers[i] >= 1 && numbers[i] <= MANY && !seen[numbers[i]]);
    seen[numbers[i]] = 1;
  }
  CHECK(LCT_get_nthreads() == MANY + 1);
}

void row_macros(void) {
  union {
    char bytes[4 * LCT_CACHE_LINE];
    double align;
  } room;
  char* line = room.bytes + LCT_CACHE_LINE - (uintptr_t)room.bytes % LCT_CACHE_LINE;
  if (LCT_likely(line != NULL) && LCT_unlikely(line == NULL)) exit(1);
  CHECK(LCT_likely(2) == 1 && LCT_unlikely(0) == 0);
  LCT_ASSERT_SAME_CACHE_LINE(line, line + LCT_CACHE_LINE - 1);
  LCT_ASSERT_DIFF_CACHE_LINE(line, line + LCT_CACHE_LINE);
#ifdef __cplusplus
  auto same = [&] { LCT_ASSERT_SAME_CACHE_LINE(line, line + LCT_CACHE_LINE); };
  auto different = [&] { LCT_ASSERT_DIFF_CACHE_LINE(line, line + 1); };
  CHECK_THROWS((same(), 0), "different cache lines");
  CHECK_THROWS((different(), 0), "the same cache line");
#endif
}
