/**
 * @file lct/arguments.h
 * Arguments of a program: long options with numbers as values, `--name value` or `--name=value`.
 */
#ifndef LCT_ARGUMENTS_H
#define LCT_ARGUMENTS_H

#include <stdbool.h>

#include "lct/macros.h"
#include "lct/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Implementation of LCT_args_parser_t. */
struct LCT_args_parser_opaque_t;
/** A parser. */
typedef struct LCT_args_parser_opaque_t* LCT_args_parser_t;

/**
 * Creates a parser without options.
 * @return the parser; free it with LCT_args_parser_free()
 * Threads: one at a time for each parser, as for all of these.
 */
LCT_API LCT_args_parser_t LCT_args_parser_alloc(void);
/**
 * Frees a parser.
 * @param parser  the parser; null is ignored
 */
LCT_API void LCT_args_parser_free(LCT_args_parser_t parser);
/**
 * Adds an option whose value is a number.
 * @param parser   the parser
 * @param name     without the dashes; copied
 * @param has_arg  as for getopt_long(): 0 no value (the variable becomes 1), 1 a value, 2 a value
 * only after `=` (else the variable becomes 1)
 * @param ptr      the variable; unchanged if the option is not given
 * @throws std::runtime_error  the name is empty or already exists
 */
LCT_API void LCT_args_parser_add(LCT_args_parser_t parser, const char* name, int has_arg, int* ptr);
/**
 * Adds an option whose value is a word.
 * @param parser   the parser
 * @param name     without the dashes; copied
 * @param has_arg  as in LCT_args_parser_add()
 * @param ptr      the variable; receives the word's number
 * @param dict     the words; copied
 * @param count    their number
 * @throws std::runtime_error  the name is empty or already exists
 */
LCT_API void LCT_args_parser_add_dict(LCT_args_parser_t parser, const char* name, int has_arg,
                                      int* ptr, const LCT_dict_str_int_t dict[], int count);
/**
 * Reads the arguments of a program. Skips arguments that do not begin with two dashes, and
 * everything after `--`.
 * @param parser  the parser
 * @param argc    as main() gets it
 * @param argv    as main() gets it; not changed
 * @throws std::runtime_error  an unknown option, or a value that is missing or is not a number or
 * word; the text gives the option and the accepted values
 */
LCT_API void LCT_args_parser_parse(LCT_args_parser_t parser, int argc, char* argv[]);
/**
 * Prints the options with their values to standard output, one per line.
 * @param parser   the parser
 * @param verbose  also print the words that an option accepts
 */
LCT_API void LCT_args_parser_print(LCT_args_parser_t parser, bool verbose);

#ifdef __cplusplus
}
#endif

#endif /* LCT_ARGUMENTS_H */
