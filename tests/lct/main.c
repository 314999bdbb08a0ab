/* Runs the row that is named: a row of the table of what the companion library has. */
#include "rows.h"

typedef struct {
  const char* name;
  void (*run)(void);
} row_t;

static const row_t ROWS[] = {{"life", row_life},
                             {"time", row_time},
                             {"dictionaries", row_dictionaries},
                             {"strings", row_strings},
                             {"threads", row_threads},
                             {"log", row_log},
                             {"log_variables", row_log_variables},
                             {"log_first_use", row_log_first_use},
                             {"assert_aborts", row_assert_aborts},
                             {"counters", row_counters},
                             {"counter_variables", row_counter_variables},
                             {"counter_samples", row_counter_samples},
                             {"counter_samples_late", row_counter_samples_late},
                             {"queues", row_queues},
                             {"bootstrap", row_bootstrap},
                             {"arguments", row_arguments},
                             {"thread_barrier", row_thread_barrier},
                             {"macros", row_macros}};

const char* text_of_file(const char* name) {
  static char text[65536];
  const ssize_t size = LCT_read_file(text, sizeof(text) - 1, "%s", name);
  text[size < 0 ? 0 : size] = '\0';
  return text;
}

int main(int argc, char* argv[]) {
  size_t i;
  for (i = 0; argc == 2 && i < sizeof(ROWS) / sizeof(ROWS[0]); ++i) {
    if (strcmp(ROWS[i].name, argv[1]) != 0) continue;
    ROWS[i].run();
    return 0;
  }
  fprintf(stderr, "which row?\n");
  return 2;
}
