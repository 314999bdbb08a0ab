/* Log contexts with their variables, assertions. */
#define _POSIX_C_SOURCE 200809L /* setenv() */
#include <stdarg.h>
#include <unistd.h>

#include "rows.h"

static const char* const LEVELS[] = {"bad", "odd", "chat"};

static void print_list(LCT_log_ctx_t ctx, int level, const char* format, ...) {
  va_list args;
  va_start(args, format);
  LCT_Logv(ctx, level, "list", format, args);
  va_end(args);
}

static int has(const char* file, const char* part) {
  return strstr(text_of_file(file), part) != NULL;
}

void row_log(void) {
  char prefix[512];
  LCT_log_ctx_t ctx, quiet, nowhere;
  remove("lct_log_3.out");
  LCT_set_rank(3);
  ctx = LCT_log_ctx_alloc(LEVELS, 3, 1, "mine", (char*)"lct_log_%.out", NULL, NULL, NULL);
  CHECK(LCT_log_get_level(ctx) == 1);
  LCT_Log(ctx, 0, "tag", "no %s", "arguments lost");
  LCT_Log(ctx, 2, "tag", "too detailed");
  print_list(ctx, 1, "%d of %d", 1, 2);
  LCT_Log(ctx, 0, "tag", "ends its %s\n", "line");
  LCT_Warn(ctx, "warned");
  LCT_Log_flush(ctx);
  /* rank:host:pid:tid:seconds:file:func:line<context:level:tag> text */
  snprintf(prefix, sizeof(prefix), "3:%s:%ld:", LCT_hostname, (long)getpid());
  CHECK(strncmp(text_of_file("lct_log_3.out"), prefix, strlen(prefix)) == 0);
  CHECK(has("lct_log_3.out", ":log.c:row_log:"));
  CHECK(has("lct_log_3.out", "<mine:bad:tag> no arguments lost\n"));
  CHECK(has("lct_log_3.out", "<mine:odd:list> 1 of 2\n"));
  CHECK(has("lct_log_3.out", "<mine:odd:warn> warned\n"));
  CHECK(has("lct_log_3.out", "> ends its line\n") && !has("lct_log_3.out", "\n\n"));
  CHECK(!has("lct_log_3.out", "too detailed"));
  LCT_log_ctx_free(&ctx);
  CHECK(ctx == NULL);

  remove("lct_log_filters.out");
  quiet = LCT_log_ctx_alloc(LEVELS, 3, 0, "q", "lct_log_filters.out", "chat", "net,boot", "noisy");
  CHECK(LCT_log_get_level(quiet) == 2);
  LCT_Log(quiet, 2, "subnet", "passes");
  LCT_Log(quiet, 0, "other", "not on the list");
  LCT_Log(quiet, 0, "net_noisy", "on the other list");
  CHECK(has("lct_log_filters.out", "passes") && !has("lct_log_filters.out", "list"));
  LCT_log_ctx_free(&quiet);
  remove("lct_log_filters.out");
  nowhere = LCT_log_ctx_alloc(LEVELS, 3, 0, "n", "lct_log_filters.out", "chatty", NULL, NULL);
  CHECK(LCT_log_get_level(nowhere) == 0);
  CHECK(has("lct_log_filters.out", "\"chatty\": expected one of bad, odd, chat"));
  LCT_log_ctx_free(&nowhere);
  LCT_log_ctx_free(&LCT_log_ctx_default); /* stays */
  CHECK(LCT_log_ctx_default != NULL && LCT_log_get_level(NULL) == LCT_LOG_WARN);
  CHECK_THROWS(LCT_log_ctx_alloc(LEVELS, 3, 3, "n", NULL, NULL, NULL, NULL),
               "default level 3 of 3");

  LCT_Assert(NULL, 1 + 1 == 2, "never printed");
  LCT_DBG_Assert(NULL, 1 + 1 == 2, "never %s", "printed");
  LCT_DBG_Log(NULL, LCT_LOG_TRACE, "tag", "not printed");
#ifdef __cplusplus
  auto lie = [] { LCT_Assert(LCT_log_ctx_default, 1 + 1 == 3, "counted %d", 2); };
  CHECK_THROWS((lie(), 0), "rank 3, pid ");
  CHECK_THROWS((lie(), 0), ": assertion failed: 1 + 1 == 3: counted 2");
#endif
}

/* Started with LCT_LOG_LEVEL=info, LCT_LOG_OUTFILE=lct_log_variables.out, LCT_LOG_WHITELIST=a,b,
 * LCT_LOG_BLACKLIST=bad. */
void row_log_variables(void) {
  const char* const file = "lct_log_variables.out";
  remove(file);
  CHECK(LCT_log_get_level(LCT_log_ctx_default) == LCT_LOG_INFO);
  LCT_Log(LCT_log_ctx_default, LCT_LOG_INFO, "a", "wanted");
  LCT_Log(LCT_log_ctx_default, LCT_LOG_DEBUG, "a", "detail");
  LCT_Log(LCT_log_ctx_default, LCT_LOG_ERROR, "c", "other");
  LCT_Log(LCT_log_ctx_default, LCT_LOG_ERROR, "bad", "black");
  CHECK(has(file, "<lct:info:a> wanted\n"));
  CHECK(!has(file, "detail") && !has(file, "other") && !has(file, "black"));
}

/* The variables are read at the first use, not when the library is loaded, and once. */
void row_log_first_use(void) {
  setenv("LCT_LOG_LEVEL", "debug", 1);
  CHECK(LCT_log_get_level(LCT_log_ctx_default) == LCT_LOG_DEBUG);
  setenv("LCT_LOG_LEVEL", "error", 1);
  CHECK(LCT_log_get_level(LCT_log_ctx_default) == LCT_LOG_DEBUG);
}

/* Started with LCT_ABORT_ON_ASSERT=1. */
void row_assert_aborts(void) { LCT_Assert(LCT_log_ctx_default, 0, "%s", "on purpose"); }
