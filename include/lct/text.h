/**
 * @file lct/text.h
 * Words that stand for numbers, replacements in strings, and whole files.
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

/** A word and the number that it stands for. */
typedef struct {
  const char* key; /**< the word; null is the entry of who gave none */
  int val;         /**< its number */
} LCT_dict_str_int_t;

/**
 * Finds the number of a word.
 * @param dict         the words that are known
 * @param count        how many
 * @param key          the word, in exactly these letters; null finds an entry whose key is null
 * @param default_val  what `val` is given when nothing is found
 * @param val          gets the number; may be null
 * @return 1 when it was found, else 0
 * Threads: any.
 */
LCT_API int LCT_str_int_search(const LCT_dict_str_int_t dict[], int count, const char* key,
                               int default_val, int* val);
/**
 * The numbers of all words of a list, OR-ed.
 * @param dict       the words that are known
 * @param count      how many
 * @param key        the list; null gives what an entry whose key is null stands for, or 0
 * @param delimiter  the characters that separate words
 * @return the numbers OR-ed; 0 for an empty list
 * @throws std::runtime_error  a word is not known; the text lists those that are
 * Threads: any.
 */
LCT_API uint64_t LCT_parse_arg(const LCT_dict_str_int_t dict[], int count, const char* key,
                               const char* delimiter);

/**
 * A string with the first occurrence of a part replaced.
 * @param in    the string; may be the result of an earlier call
 * @param from  the part; an empty one is found nowhere
 * @param to    what comes in its place
 * @return the new string, which stays until the next call of this or of LCT_str_replace_all() in
 * this thread Threads: any.
 */
LCT_API const char* LCT_str_replace_one(const char* in, const char* from, const char* to);
/**
 * A string with each occurrence of a part replaced, from the left; what was put in is not looked at
 * again.
 * @param in    the string; may be the result of an earlier call
 * @param from  the part; an empty one is found nowhere
 * @param to    what comes in its place
 * @return the new string, which stays until the next call of this or of LCT_str_replace_one() in
 * this thread Threads: any.
 */
LCT_API const char* LCT_str_replace_all(const char* in, const char* from, const char* to);

/**
 * Reads a file from its start.
 * @param buf              gets the bytes, and a zero byte behind them if there is room
 * @param max              size of `buf`, bytes
 * @param filename_format  its name, as for printf
 * @return bytes read, at most `max`; -1 when it cannot be read, and errno says why
 * Threads: any.
 */
LCT_API ssize_t LCT_read_file(char* buf, size_t max, const char* filename_format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif /* LCT_TEXT_H */
