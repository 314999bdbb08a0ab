// Environment variables turned into values. Nonsense is refused with an argument_error that names
// the variable, its value and what would be accepted: a misspelt setting must not silently act as
// 0. Callers: set-up code (runtime defaults, bootstrap, tools); never the message path. Threads:
// any; like getenv() itself, not while another thread changes the environment. Always true: a
// variable that is unset leaves the default alone, and so does an empty one, except for a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lci::base::env {

// The value, or nothing if the variable is unset or empty.
std::optional<std::string_view> find(const char* variable) noexcept;
// The same of a text, which may be empty: nothing if the variable is unset.
std::optional<std::string_view> find_text(const char* variable) noexcept;
// A whole decimal number set by another program, such as a launcher; nothing if the value is not
// one.
std::optional<long> find_number(const char* variable) noexcept;

// One accepted word of an enumeration and what it stands for.
struct word {
  std::string_view text;
  std::uint64_t value;
};

// The parsers. `what` names the variable (or option) in the error. Case is ignored.
//
// 1/0 true/false on/off yes/no
bool parse_bool(std::string_view what, std::string_view text);
// Decimal or 0x-hexadecimal, optionally with a suffix K, M or G (powers of 1024), within
// [low, high]. Signed numbers may start with a minus.
std::uint64_t parse_unsigned(std::string_view what, std::string_view text, std::uint64_t low = 0,
                             std::uint64_t high = std::numeric_limits<std::uint64_t>::max());
std::int64_t parse_signed(std::string_view what, std::string_view text, std::int64_t low,
                          std::int64_t high);
int parse_int(std::string_view what, std::string_view text, int low, int high);
// A decimal fraction within [low, high]; infinities and not-a-number are refused.
enum class upper_limit : std::uint8_t { included, excluded };
double parse_double(std::string_view what, std::string_view text, double low, double high,
                    upper_limit limit = upper_limit::included);
// Exactly one of the words.
std::uint64_t parse_word(std::string_view what, std::string_view text, std::span<const word> words);
// A comma list of the words; their values are OR-ed.
std::uint64_t parse_flags(std::string_view what, std::string_view text,
                          std::span<const word> words);

// Calls `visit` for each entry of a list whose entries are separated by any character of
// `separators`; blanks around entries and empty entries are skipped.
template <class Visit>
void for_each_entry(std::string_view list, std::string_view separators, Visit&& visit) {
  while (!list.empty()) {
    const std::size_t end = list.find_first_of(separators);
    std::string_view entry = list.substr(0, end);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    const std::size_t first = entry.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    entry = entry.substr(first, entry.find_last_not_of(" \t") - first + 1);
    visit(entry);
  }
}

// True if the words are equal, ignoring case.
bool same_word(std::string_view a, std::string_view b) noexcept;

}  // namespace lci::base::env
