// Words, replacements and files.
// Threads: any; results of replacements belong to their thread.
#include "lct/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "lci/base/env.hpp"
#include "lci/errors.hpp"
#include "lct/per_thread.hpp"

namespace {

bool is_entry(const LCT_dict_str_int_t& entry, const char* key) noexcept {
  if (key == nullptr || entry.key == nullptr) return key == entry.key;
  return std::strcmp(entry.key, key) == 0;
}

[[noreturn]] void throw_unknown(const LCT_dict_str_int_t dict[], int count,
                                const std::string& word) {
  std::string text = "LCT_parse_arg(): \"" + word + "\" is none of";
  for (int i = 0; i < count; ++i)
    if (dict[i].key != nullptr) text += std::string(" ") + dict[i].key;
  throw lci::argument_error(text);
}

struct last_result {
  std::string text;
};

// Built apart from `kept`, since `in` may be an earlier result, kept there.
const char* replace(const char* in, const char* from, const char* to, bool all) {
  std::string& kept = lct::per_thread<last_result>().text;
  const std::string_view part(from);
  std::string_view rest(in);
  std::string made;
  while (!part.empty()) {
    const std::size_t at = rest.find(part);
    if (at == std::string_view::npos) break;
    made.append(rest.substr(0, at)).append(to);
    rest.remove_prefix(at + part.size());
    if (!all) break;
  }
  made.append(rest);
  kept = std::move(made);
  return kept.c_str();
}

// The file name, formatted as by printf, of any length.
std::string format_name(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int size = std::vsnprintf(nullptr, 0, format, args);
  std::string name(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
  std::vsnprintf(name.data(), name.size() + 1, format, again);
  va_end(again);
  return name;
}

}  // namespace

extern "C" {

int LCT_str_int_search(const LCT_dict_str_int_t dict[], int count, const char* key, int default_val,
                       int* val) {
  int found = 0, number = default_val;
  for (int i = 0; i < count && found == 0; ++i) {
    if (!is_entry(dict[i], key)) continue;
    number = dict[i].val;
    found = 1;
  }
  if (val != nullptr) *val = number;
  return found;
}

uint64_t LCT_parse_arg(const LCT_dict_str_int_t dict[], int count, const char* key,
                       const char* delimiter) {
  int number = 0;
  if (key == nullptr) {
    LCT_str_int_search(dict, count, nullptr, 0, &number);
    return static_cast<uint64_t>(number);
  }
  uint64_t all = 0;
  lci::base::env::for_each_entry(key, delimiter, [&](std::string_view entry) {
    const std::string word(entry);
    if (LCT_str_int_search(dict, count, word.c_str(), 0, &number) == 0)
      throw_unknown(dict, count, word);
    all |= static_cast<uint64_t>(number);
  });
  return all;
}

const char* LCT_str_replace_one(const char* in, const char* from, const char* to) {
  return replace(in, from, to, false);
}

const char* LCT_str_replace_all(const char* in, const char* from, const char* to) {
  return replace(in, from, to, true);
}

ssize_t LCT_read_file(char* buf, size_t max, const char* filename_format, ...) {
  va_list args;
  va_start(args, filename_format);
  const std::string name = format_name(filename_format, args);
  va_end(args);
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t have = 0;
  while (have < max) {
    const ssize_t n = ::read(fd, buf + have, max - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int why = errno;
      ::close(fd);
      errno = why;
      return -1;
    }
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  ::close(fd);
  if (have < max) buf[have] = '\0';
  return static_cast<ssize_t>(have);
}

}  // extern "C"
