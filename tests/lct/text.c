/* Dictionaries, strings, files. */
#define _POSIX_C_SOURCE 200809L /* truncate(), setenv() */
#include <errno.h>
#include <unistd.h>

#include "rows.h"

static LCT_dict_str_int_t COLOURS[] = {{NULL, 9}, {"red", 1}, {"green", 2}, {"blue", 4}};

void row_dictionaries(void) {
  int val = 0;
  CHECK(LCT_str_int_search(COLOURS, 4, "green", -1, &val) == 1 && val == 2);
  CHECK(LCT_str_int_search(COLOURS, 4, "gree", -1, &val) == 0 && val == -1);
  CHECK(LCT_str_int_search(COLOURS, 4, NULL, -1, &val) == 1 && val == 9);
  CHECK(LCT_str_int_search(COLOURS + 1, 3, NULL, -2, &val) == 0 && val == -2);
  CHECK(LCT_str_int_search(COLOURS, 4, "blue", -1, NULL) == 1);
  CHECK(LCT_parse_arg(COLOURS, 4, "red;blue", ";") == 5);
  CHECK(LCT_parse_arg(COLOURS, 4, "red,blue;green", ";,") == 7);
  CHECK(LCT_parse_arg(COLOURS, 4, "", ";") == 0);
  CHECK(LCT_parse_arg(COLOURS, 4, NULL, ";") == 9);
  CHECK(LCT_parse_arg(COLOURS + 1, 3, NULL, ";") == 0);
  CHECK_THROWS(LCT_parse_arg(COLOURS, 4, "red;pink", ";"), "\"pink\" is none of red green blue");
}

void row_strings(void) {
  char buf[8];
  char name[] = "lct_strings_test";
  FILE* file;
  CHECK(strcmp(LCT_str_replace_one("a%b%", "%", "12"), "a12b%") == 0);
  CHECK(strcmp(LCT_str_replace_one("none", "%", "12"), "none") == 0);
  /* Each call answers what it was asked. */
  CHECK(strcmp(LCT_str_replace_all("%a%b%", "%", "%%"), "%%a%%b%%") == 0);
  CHECK(strcmp(LCT_str_replace_all("abc", "bc", ""), "a") == 0);
  CHECK(strcmp(LCT_str_replace_all("abc", "", "x"), "abc") == 0);
  CHECK(strcmp(LCT_str_replace_all(LCT_str_replace_one("aXb", "X", "YY"), "Y", "z"), "azzb") == 0);

  file = fopen(name, "w");
  CHECK(file != NULL && fputs("0123456789", file) >= 0 && fclose(file) == 0);
  memset(buf, '#', sizeof(buf));
  CHECK(LCT_read_file(buf, 4, "lct_%s_%s", "strings", "test") == 4);
  CHECK(memcmp(buf, "0123####", 8) == 0);
  CHECK(truncate(name, 3) == 0 && LCT_read_file(buf, sizeof(buf), "%s", name) == 3);
  CHECK(strcmp(buf, "012") == 0);
  CHECK(remove(name) == 0);
  errno = 0;
  CHECK(LCT_read_file(buf, sizeof(buf), "%s", name) == -1 && errno == ENOENT);
}
