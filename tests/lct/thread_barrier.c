/* The barrier of threads. */
#include <pthread.h>

#include "rows.h"

#define THREADS 4
#define ROUNDS 500

static LCT_tbarrier_t barrier;
static int written[THREADS];

/* What each wrote before it arrived is there for all behind the barrier. */
static void* meet(void* me) {
  int round, i;
  int64_t ticket;
  for (round = 1; round <= ROUNDS; ++round) {
    *(int*)me = round;
    LCT_tbarrier_arrive_and_wait(barrier);
    for (i = 0; i < THREADS; ++i) CHECK(written[i] == round);
    ticket = LCT_tbarrier_arrive(barrier);
    LCT_tbarrier_wait(barrier, ticket);
    CHECK(LCT_tbarrier_test(barrier, ticket));
  }
  return NULL;
}

void row_thread_barrier(void) {
  pthread_t threads[THREADS];
  int i;
  int64_t first, second;
  barrier = LCT_tbarrier_alloc(2);
  first = LCT_tbarrier_arrive(barrier);
  CHECK(!LCT_tbarrier_test(barrier, first));
  second = LCT_tbarrier_arrive(barrier);
  CHECK(LCT_tbarrier_test(barrier, first) && LCT_tbarrier_test(barrier, second));
  first = LCT_tbarrier_arrive(barrier); /* the next round */
  CHECK(!LCT_tbarrier_test(barrier, first) && LCT_tbarrier_test(barrier, second));
  LCT_tbarrier_free(&barrier);
  CHECK(barrier == NULL);
  LCT_tbarrier_free(&barrier);
  CHECK_THROWS(LCT_tbarrier_alloc(0), "0 threads: expected at least 1");

  barrier = LCT_tbarrier_alloc(THREADS);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, meet, &written[i]) == 0);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  LCT_tbarrier_free(&barrier);
}
