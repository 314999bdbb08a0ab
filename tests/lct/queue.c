/* Queues of every type named. */
#include <pthread.h>

#include "rows.h"

#define PRODUCERS 2
#define EACH 2000

static LCT_queue_t shared;

static void* produce(void* numbers) {
  int i;
  for (i = 0; i < EACH; ++i) LCT_queue_push(shared, (int*)numbers + i);
  return NULL;
}

/* Elements of each producer come out in order, each once. */
static void in_threads(LCT_queue_type_t type) {
  static int numbers[PRODUCERS][EACH];
  pthread_t threads[PRODUCERS];
  int next[PRODUCERS] = {0, 0};
  int i, taken = 0;
  shared = LCT_queue_alloc(type, 16);
  for (i = 0; i < PRODUCERS; ++i)
    CHECK(pthread_create(&threads[i], NULL, produce, numbers[i]) == 0);
  while (taken < PRODUCERS * EACH) {
    const int* const one = (const int*)LCT_queue_pop(shared);
    if (one == NULL) continue;
    i = (int)((one - &numbers[0][0]) / EACH);
    CHECK(one == &numbers[i][next[i]]);
    ++next[i];
    ++taken;
  }
  for (i = 0; i < PRODUCERS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(LCT_queue_pop(shared) == NULL);
  LCT_queue_free(&shared);
}

static void in_one_thread(LCT_queue_type_t type, size_t length) {
  static int numbers[3000];
  int i;
  LCT_queue_t queue = LCT_queue_alloc(type, length);
  CHECK(LCT_queue_pop(queue) == NULL);
  for (i = 0; i < 3000; ++i) LCT_queue_push(queue, &numbers[i]); /* beyond any length */
  for (i = 0; i < 3000; ++i) CHECK(LCT_queue_pop(queue) == &numbers[i]);
  CHECK(LCT_queue_pop(queue) == NULL);
  CHECK_THROWS((LCT_queue_push(queue, NULL), 0), "null means an empty queue");
  LCT_queue_push(queue, &numbers[0]); /* stays inside */
  LCT_queue_free(&queue);
  CHECK(queue == NULL);
  LCT_queue_free(&queue);
}

void row_queues(void) {
  static const LCT_queue_type_t TYPES[] = {LCT_QUEUE_ARRAY_ATOMIC_FAA,
                                           LCT_QUEUE_ARRAY_ATOMIC_CAS,
                                           LCT_QUEUE_ARRAY_ATOMIC_BASIC,
                                           LCT_QUEUE_ARRAY_ST,
                                           LCT_QUEUE_ARRAY_MUTEX,
                                           LCT_QUEUE_STD,
                                           LCT_QUEUE_STD_MUTEX,
                                           LCT_QUEUE_MS,
                                           LCT_QUEUE_LCRQ,
                                           LCT_QUEUE_LPRQ,
                                           LCT_QUEUE_FAAARRAY,
                                           LCT_QUEUE_LAZY_INDEX};
  size_t i;
  for (i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); ++i) {
    CHECK((size_t)TYPES[i] == i); /* programs have the numbers in their binaries */
    in_one_thread(TYPES[i], 0);
    in_one_thread(TYPES[i], 1000);
    if (TYPES[i] != LCT_QUEUE_ARRAY_ST && TYPES[i] != LCT_QUEUE_STD) in_threads(TYPES[i]);
  }
  CHECK_THROWS(LCT_queue_alloc((LCT_queue_type_t)12, 1), "type 12: expected 0 to 11");
}
