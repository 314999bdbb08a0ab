/* Performance counters. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rows.h"

#define THREADS 4
#define ROUNDS 1000

typedef struct {
  LCT_pcounter_ctx_t ctx;
  LCT_pcounter_handle_t sum, trend, timer;
} counters_t;

static void* count(void* counters) {
  const counters_t* const c = (const counters_t*)counters;
  int i;
  for (i = 0; i < ROUNDS; ++i) {
    LCT_pcounter_add(c->ctx, c->sum, 2);
    LCT_pcounter_add(c->ctx, c->trend, 1);
    LCT_pcounter_startt(c->ctx, c->timer, i % 2 * 1000); /* 0 is a time like others */
    LCT_pcounter_endt(c->ctx, c->timer, i % 2 * 1000 + 1000 * (i % 3 + 1));
    LCT_pcounter_endt(c->ctx, c->timer, 5000000); /* nothing was begun */
  }
  return NULL;
}

static const char* dumped(LCT_pcounter_ctx_t ctx) {
  FILE* const file = fopen("lct_counters_dump", "w");
  CHECK(file != NULL);
  LCT_pcounter_dump(ctx, file);
  CHECK(fclose(file) == 0);
  return text_of_file("lct_counters_dump");
}

static counters_t make(const char* name) {
  counters_t c;
  c.ctx = LCT_pcounter_ctx_alloc(name);
  c.sum = LCT_pcounter_register(c.ctx, "sum", LCT_PCOUNTER_COUNTER);
  c.trend = LCT_pcounter_register(c.ctx, "trend", LCT_PCOUNTER_TREND);
  c.timer = LCT_pcounter_register(c.ctx, "timer", LCT_PCOUNTER_TIMER);
  return c;
}

void row_counters(void) {
  static const LCT_pcounter_handle_t none = {LCT_PCOUNTER_NONE, 0};
  counters_t c = make("mine"), d = make("other");
  pthread_t threads[THREADS];
  LCT_pcounter_handle_t again;
  int i;
  again = LCT_pcounter_register(c.ctx, "sum", LCT_PCOUNTER_COUNTER);
  CHECK(again.idx == c.sum.idx && again.type == LCT_PCOUNTER_COUNTER && d.sum.idx != c.sum.idx);
  CHECK_THROWS(LCT_pcounter_register(c.ctx, "sum", LCT_PCOUNTER_TIMER), "another type");
  CHECK_THROWS(LCT_pcounter_register(c.ctx, "x", LCT_PCOUNTER_NONE), "type 0 of x");
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, count, &c) == 0);
  for (i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  LCT_pcounter_record(c.ctx);
  LCT_pcounter_add(c.ctx, c.trend, -5);
  LCT_pcounter_record(c.ctx);
  LCT_pcounter_add(c.ctx, none, 1);
  CHECK(strstr(dumped(c.ctx), "mine.sum: 8000\n") != NULL);
  CHECK(strstr(dumped(c.ctx), "mine.trend: 3995\n") != NULL);
  CHECK(strstr(dumped(c.ctx), " s: +4000\n") != NULL && strstr(dumped(c.ctx), " s: -5\n") != NULL);
  CHECK(strstr(dumped(c.ctx),
               "mine.timer: count 4000 total 7996.000 us average 1.999 us min 1.000 us max 3.000 "
               "us\n") != NULL);
  CHECK(strstr(dumped(d.ctx), "other.sum: 0\n") != NULL);
  LCT_pcounter_start(d.ctx, d.timer);
  LCT_pcounter_end(d.ctx, d.timer);
  CHECK(strstr(dumped(d.ctx), "other.timer: count 1 ") != NULL);
  LCT_pcounter_ctx_free(&c.ctx);
  CHECK(c.ctx == NULL);
  LCT_pcounter_add(c.ctx, c.sum, 1); /* of a context that is gone: counts nothing */
  LCT_pcounter_ctx_free(&c.ctx);
  LCT_pcounter_ctx_free(&d.ctx);
  CHECK(remove("lct_counters_dump") == 0);
}

/* Started with LCT_PCOUNTER_AUTO_DUMP=lct_counters_%.out. */
void row_counter_variables(void) {
  counters_t freed, kept;
  remove("lct_counters_5.out");
  LCT_init();
  LCT_set_rank(5);
  freed = make("freed");
  kept = make("kept");
  LCT_pcounter_add(freed.ctx, freed.sum, 1);
  LCT_pcounter_ctx_free(&freed.ctx);
  CHECK(strcmp(text_of_file("lct_counters_5.out"),
               "freed.sum: 1\nfreed.trend: 0\nfreed.timer: 0\n") == 0);
  LCT_fina(); /* those that still live */
  CHECK(strstr(text_of_file("lct_counters_5.out"), "kept.sum: 0\n") != NULL);
  LCT_pcounter_ctx_free(&kept.ctx); /* not twice */
  CHECK(strstr(strstr(text_of_file("lct_counters_5.out"), "kept.sum") + 1, "kept.sum") == NULL);
  CHECK(remove("lct_counters_5.out") == 0);
}

/* Started with LCT_PCOUNTER_DUMP_ON_THE_FLY_LW=1, LCT_PCOUNTER_RECORD_INTERVAL=1000 and
 * LCT_PCOUNTER_AUTO_DUMP=lct_counter_samples.out. */
void row_counter_samples(void) {
  counters_t c;
  remove("lct_counter_samples.out");
  c = make("live");
  LCT_pcounter_add(c.ctx, c.trend, 3);
  while (strstr(text_of_file("lct_counter_samples.out"), "live.trend: 3\n") == NULL) usleep(1000);
  CHECK(strstr(text_of_file("lct_counter_samples.out"), "live.sum") == NULL); /* has not changed */
  LCT_pcounter_ctx_free(&c.ctx);
  CHECK(strstr(text_of_file("lct_counter_samples.out"), "live.sum: 0\n") != NULL);
  CHECK(remove("lct_counter_samples.out") == 0);
}

#define FIFO "lct_counter_samples.fifo"

/* A sample is taken with a growth of 3. It is not written before somebody reads. A sample that came
 * before the counters is the only one: then the test shows less. */
static counters_t make_sampled(void) {
  counters_t c;
  int i;
  remove(FIFO);
  CHECK(mkfifo(FIFO, 0600) == 0);
  c = make("live");
  LCT_pcounter_add(c.ctx, c.trend, 3);
  for (i = 0; i < 2000 && strstr(dumped(c.ctx), " s: +") == NULL; ++i) usleep(1000);
  return c;
}

/* The first sample that is written has that line. */
static void read_sample(counters_t* c, const char* line) {
  char text[4096];
  const int fd = open(FIFO, O_RDONLY);
  const ssize_t size = read(fd, text, sizeof(text) - 1);
  CHECK(size > 0);
  text[size] = '\0';
  CHECK(strstr(text, line) != NULL && strstr(text, "live.sum") == NULL);
  LCT_pcounter_ctx_free(&c->ctx);
  CHECK(close(fd) == 0 && remove(FIFO) == 0 && remove("lct_counters_dump") == 0);
}

/* Between a sample and its line in the file the program goes on. Started like the row before, with
 * the name of the FIFO and a longer interval: what nobody reads has to fit. */
void row_counter_samples_late(void) {
  counters_t c = make_sampled();
  char name[16];
  int i;
  for (i = 0; i < 100; ++i) {
    snprintf(name, sizeof(name), "more%d", i);
    LCT_pcounter_register(c.ctx, name, LCT_PCOUNTER_COUNTER);
  }
  read_sample(&c, "live.trend: 3\n");
  c = make_sampled();
  LCT_pcounter_add(c.ctx, c.trend, 4);
  LCT_pcounter_record(c.ctx); /* the program's own samples */
  LCT_pcounter_record(c.ctx);
  read_sample(&c, "live.trend: 7\n");
}
