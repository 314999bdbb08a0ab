/* Arguments of programs. */
#define _DEFAULT_SOURCE
#include <getopt.h>
#include <unistd.h>

#include "rows.h"

static void parse(LCT_args_parser_t parser, const char* a, const char* b, const char* c) {
  char texts[3][64];
  char* argv[4];
  char program[] = "program";
  int argc = 1;
  argv[0] = program;
  if (a != NULL) argv[argc++] = strcpy(texts[0], a);
  if (b != NULL) argv[argc++] = strcpy(texts[1], b);
  if (c != NULL) argv[argc++] = strcpy(texts[2], c);
  LCT_args_parser_parse(parser, argc, argv);
}

void row_arguments(void) {
  static const LCT_dict_str_int_t modes[] = {{"fast", 3}, {"slow", 4}};
  int number = 10, flag = 0, maybe = 0, mode = 4, kept;
  LCT_args_parser_t parser = LCT_args_parser_alloc();
  LCT_args_parser_add(parser, "number", required_argument, &number);
  LCT_args_parser_add(parser, "flag", no_argument, &flag);
  LCT_args_parser_add(parser, "maybe", optional_argument, &maybe);
  LCT_args_parser_add_dict(parser, "mode", required_argument, &mode, modes, 2);
  parse(parser, NULL, NULL, NULL);
  CHECK(number == 10 && flag == 0 && mode == 4);
  parse(parser, "--number", "-5", "--flag");
  CHECK(number == -5 && flag == 1);
  parse(parser, "word", "--number=0x20", "--mode=fast");
  CHECK(number == 32 && mode == 3);
  parse(parser, "--mode", "slow", "--num=7"); /* the beginning that no other has */
  CHECK(number == 7 && mode == 4);
  parse(parser, "--maybe", "--", "--number=9");
  CHECK(maybe == 1 && number == 7);
  parse(parser, "--maybe=6", NULL, NULL);
  CHECK(maybe == 6);
  CHECK_THROWS((parse(parser, "--none", NULL, NULL), 0),
               "--none is not known, there are --number --flag --maybe --mode");
  CHECK_THROWS((parse(parser, "--m", "slow", NULL), 0), "--m may be several of");
  CHECK_THROWS((parse(parser, "--number", NULL, NULL), 0), "--number needs a value");
  CHECK_THROWS((parse(parser, "--number", "many", NULL), 0), "--number");
  CHECK_THROWS((parse(parser, "--flag=1", NULL, NULL), 0), "--flag takes no value");
  CHECK_THROWS((parse(parser, "--mode=odd", NULL, NULL), 0), "\"odd\": expected one of fast, slow");
  CHECK_THROWS((LCT_args_parser_add(parser, "flag", 0, &flag), 0), "--flag is there already");

  fflush(stdout);
  kept = dup(1);
  CHECK(freopen("lct_arguments.out", "w", stdout) != NULL);
  LCT_args_parser_print(parser, false);
  LCT_args_parser_print(parser, true);
  CHECK(dup2(kept, 1) == 1);
  CHECK(strcmp(text_of_file("lct_arguments.out"),
               "number: 7\nflag: 1\nmaybe: 6\nmode: slow\n"
               "number: 7\nflag: 1\nmaybe: 6\nmode: slow (of fast, slow)\n") == 0);
  CHECK(remove("lct_arguments.out") == 0);
  LCT_args_parser_free(parser);
  LCT_args_parser_free(NULL);
}
