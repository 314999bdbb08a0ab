/**
 * @file lct/text.h
 * Words that represent numbers, replacement in strings, and reading of files.
 */
#ifndef LCT_TEXT_H
#define LCT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lct/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A word and its number. */
typedef struct {
  const char* key; /**< the word; null is the entry for a missing word */
  int val;         /**< its number */
} LCT_dict_str_int_t;

/**
 * Finds the number of a word.
 * @param dict         the known words
 * @param count        their number
 * @param key          the word, compared exactly; null finds an entry whose key is null
 * @param default_val  value of `val` if nothing is found
 * @param val          receives the number; may be null
 * @return 1 if it was found, else 0
 * Threads: any.
 */
LCT_API int LCT_str_int_search(const LCT_dict_str_int_t dict[], int count, const char* key,
                               int default_val, int* val);
/**
 * Combines the numbers of all words of a list with OR.
 * @param dict       the known words
 * @param count      their number
 * @param key        the list; null gives the number of an entry whose key is null, or 0
 * @param delimiter  the characters that separate words
 * @return the numbers OR-ed; 0 for an empty list
 * @throws std::runtime_error  a word is unknown; the text lists the known words
 * Threads: any.
 */
LCT_API uint64_t LCT_parse_arg(const LCT_dict_str_int_t dict[], int count, const char* key,
                               const char* delimiter);

/**
 * Replaces the first occurrence of a part of a string.
 * @param in    the string; may be the result of an earlier call
 * @param from  the part; an empty one is never found
 * @param to    the replacement
 * @return the new string, valid until the next call of this or of LCT_str_replace_all() in this
 * thread
 * Threads: any.
 */
LCT_API const char* LCT_str_replace_one(const char* in, const char* from, const char* to);
/**
 * Replaces each occurrence of a part of a string, from the left. Replacements are not searched
 * again.
 * @param in    the string; may be the result of an earlier call
 * @param from  the part; an empty one is never found
 * @param to    the replacement
 * @return the new string, valid until the next call of this or of LCT_str_replace_one() in this
 * thread
 * Threads: any.
 */
LCT_API const char* LCT_str_replace_all(const char* in, const char* from, const char* to);

/**
 * Reads a file from its start.
 * @param buf              receives the bytes, and a terminating zero if there is room
 * @param max              size of `buf`, bytes
 * @param filename_format  its name, as for printf
 * @return bytes read, at most `max`; -1 if the file cannot be read, and errno gives the reason
 * Threads: any.
 */
LCT_API ssize_t LCT_read_file(char* buf, size_t max, const char* filename_format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif /* LCT_TEXT_H */
