#include "lci/base/env.hpp"

#include <strings.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include "lci/errors.hpp"

namespace lci::base::env {

namespace {

// All errors have one form: the variable, the text found, and what would be accepted.
[[noreturn]] void refuse(std::string_view what, std::string_view text,
                         const std::string& accepted) {
  std::string message(what);
  message += " is \"";
  message += text;
  message += "\": expected ";
  message += accepted;
  throw argument_error(message);
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Powers of 1024, so K, M and G are shifts by 10, 20 and 30.
unsigned take_suffix(std::string_view& digits) noexcept {
  if (digits.empty()) return 0;
  unsigned shift = 0;
  switch (digits.back()) {
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    default:
      return 0;
  }
  digits.remove_suffix(1);
  return shift;
}

// Digits only: from_chars alone would let "-1" through as a huge unsigned number.
std::optional<std::uint64_t> magnitude(std::string_view digits) noexcept {
  const unsigned shift = take_suffix(digits);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    base = 16;
    digits.remove_prefix(2);
  }
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  // A size that wraps around would be a small one.
  if (shift != 0 && value > (std::numeric_limits<std::uint64_t>::max() >> shift))
    return std::nullopt;
  return value << shift;
}

template <class Number>
std::string integer_range(Number low, Number high) {
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
         " (decimal or 0x..., suffix K, M or G)";
}

std::string list_of(std::span<const word> words) {
  std::string list;
  for (const word& w : words) {
    if (!list.empty()) list += ", ";
    list += w.text;
  }
  return list;
}

const word* find_word(std::string_view text, std::span<const word> words) noexcept {
  for (const word& w : words) {
    if (same_word(w.text, text)) return &w;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string_view> find(const char* variable) noexcept {
  auto text = find_text(variable);
  if (text && text->empty()) text.reset();
  return text;
}

std::optional<std::string_view> find_text(const char* variable) noexcept {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::string_view(text);
}

std::optional<long> find_number(const char* variable) noexcept {
  const auto text = find(variable);
  if (!text) return std::nullopt;
  long value = 0;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool parse_bool(std::string_view what, std::string_view text) {
  static constexpr word words[] = {{"1", 1},  {"0", 0},   {"true", 1}, {"false", 0},
                                   {"on", 1}, {"off", 0}, {"yes", 1},  {"no", 0}};
  const word* const found = find_word(trimmed(text), words);
  if (found == nullptr) refuse(what, text, "1, 0, true, false, on, off, yes or no");
  return found->value != 0;
}

std::uint64_t parse_unsigned(std::string_view what, std::string_view text, std::uint64_t low,
                             std::uint64_t high) {
  const auto value = magnitude(trimmed(text));
  if (!value || *value < low || *value > high) refuse(what, text, integer_range(low, high));
  return *value;
}

std::int64_t parse_signed(std::string_view what, std::string_view text, std::int64_t low,
                          std::int64_t high) {
  std::string_view digits = trimmed(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative) digits.remove_prefix(1);
  const auto size = magnitude(digits);
  // The most negative number has no positive partner, hence the limit that depends on the sign.
  const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) +
                     static_cast<std::uint64_t>(negative);
  if (!size || *size > limit) refuse(what, text, integer_range(low, high));
  const auto value = static_cast<std::int64_t>(negative ? ~*size + 1 : *size);
  if (value < low || value > high) refuse(what, text, integer_range(low, high));
  return value;
}

int parse_int(std::string_view what, std::string_view text, int low, int high) {
  return static_cast<int>(parse_signed(what, text, low, high));
}

// "0.25", and not "0.250000".
static std::string plain(double value) {
  char digits[400];  // a double has at most 309 before the point
  return {digits,
          std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed).ptr};
}

double parse_double(std::string_view what, std::string_view text, double low, double high,
                    upper_limit limit) {
  const std::string_view digits = trimmed(text);
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (digits.empty() || parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value) ||
      value < low || value > high || (limit == upper_limit::excluded && value == high)) {
    refuse(what, text,
           "a number from " + plain(low) +
               (limit == upper_limit::excluded ? " to less than " : " to ") + plain(high));
  }
  return value;
}

std::uint64_t parse_word(std::string_view what, std::string_view text,
                         std::span<const word> words) {
  const word* const found = find_word(trimmed(text), words);
  if (found == nullptr) refuse(what, text, "one of " + list_of(words));
  return found->value;
}

std::uint64_t parse_flags(std::string_view what, std::string_view text,
                          std::span<const word> words) {
  std::uint64_t flags = 0;
  bool any = false;
  for_each_entry(text, ",", [&](std::string_view entry) {
    const word* const found = find_word(entry, words);
    if (found == nullptr) refuse(what, text, "a comma list of " + list_of(words));
    flags |= found->value;
    any = true;
  });
  if (!any) refuse(what, text, "a comma list of " + list_of(words));
  return flags;
}

}  // namespace lci::base::env
