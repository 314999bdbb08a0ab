/* The bootstrap, as several ranks and alone. */
#define _DEFAULT_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "rows.h"

/* A process that only forked from a member is none, and the member notices nothing. */
static void check_forked(const char* key) {
#ifdef __cplusplus
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    char value[LCT_PMI_STRING_LIMIT + 1];
    CHECK_THROWS(LCT_pmi_get_rank(), "LCT_pmi_get_rank(): this process was forked from a rank");
    CHECK_THROWS(LCT_pmi_get_size(), "LCT_pmi_get_size(): this process was forked from a rank");
    CHECK_THROWS((LCT_pmi_publish(key, "not ours"), 0), "forked from a rank");
    CHECK_THROWS((LCT_pmi_barrier(), 0), "forked from a rank");
    CHECK_THROWS((LCT_pmi_getname(0, key, value), 0), "forked from a rank");
    CHECK_THROWS((LCT_pmi_initialize(), 0), "forked from a rank");
    CHECK_THROWS((LCT_pmi_finalize(), 0), "forked from a rank");
    CHECK(LCT_pmi_initialized() == 0);
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
#else
  (void)key; /* only C++ can catch what a call throws */
#endif
}

void row_bootstrap(void) {
  char value[LCT_PMI_STRING_LIMIT + 1], wanted[64], longest[LCT_PMI_STRING_LIMIT + 1];
  char key[] = "whom"; /* programs pass what they may change */
  int rank, size, i, round;
  memset(longest, 'x', LCT_PMI_STRING_LIMIT);
  longest[LCT_PMI_STRING_LIMIT] = '\0';
  CHECK(LCT_pmi_initialized() == 0);
  CHECK_THROWS(LCT_pmi_get_rank(), "LCT_pmi_get_rank() before LCT_pmi_initialize()");
  CHECK_THROWS((LCT_pmi_finalize(), 0), "without LCT_pmi_initialize()");
  for (round = 0; round < 2; ++round) {
    LCT_pmi_initialize();
    LCT_pmi_initialize();
    LCT_pmi_finalize();
    CHECK(LCT_pmi_initialized() == 1);
    rank = LCT_pmi_get_rank();
    size = LCT_pmi_get_size();
    CHECK(size >= 1 && rank >= 0 && rank < size && LCT_rank == rank);
    sprintf(wanted, "rank %d in round %d", rank, round);
    LCT_pmi_publish(key, wanted);
    LCT_pmi_publish(longest, longest);
    LCT_pmi_barrier();
    for (i = 0; i < size; ++i) {
      sprintf(wanted, "rank %d in round %d", i, round);
      LCT_pmi_getname(i, key, value);
      CHECK(strcmp(value, wanted) == 0);
      LCT_pmi_getname(i, longest, value);
      CHECK(strcmp(value, longest) == 0);
    }
    CHECK_THROWS((LCT_pmi_getname(size, key, value), 0), "expected 0 to");
    CHECK_THROWS((LCT_pmi_getname(0, "other", value), 0), "has not put key");
    CHECK_THROWS((LCT_pmi_publish("", "x"), 0), "an empty key");
#ifdef __cplusplus
    const std::string too_long = std::string(longest) + "x";
    CHECK_THROWS((LCT_pmi_publish(key, too_long.c_str()), 0), "a value of 256 bytes, at most 255");
#endif
    check_forked(key);
    LCT_pmi_barrier();
    LCT_pmi_finalize();
    CHECK(LCT_pmi_initialized() == 0);
  }
}
