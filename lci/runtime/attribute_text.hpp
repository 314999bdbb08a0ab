// Converts attribute values to text and back, and knows the range of each attribute.
// Callers: defaults. Threads: any, no state.
// Always true: text_of() of a value parses back to the same value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lci/base/env.hpp"
#include "lci/types.hpp"

namespace lci::runtime {

// The legal values of a number; an attribute that is not in the table accepts every value of its
// type.
struct range {
  std::string_view attribute;
  double low, high;
};
const range* find_range(std::string_view attribute) noexcept;

// The words of an enumeration, by a value of its type.
std::span<const base::env::word> words_of(attr_backend_t) noexcept;
std::span<const base::env::word> words_of(attr_rdv_protocol_t) noexcept;
std::span<const base::env::word> words_of(attr_matching_engine_type_t) noexcept;
std::span<const base::env::word> words_of(attr_cq_type_t) noexcept;
std::span<const base::env::word> words_of(attr_ibv_odp_strategy_t) noexcept;
std::span<const base::env::word> words_of(attr_ibv_prefetch_strategy_t) noexcept;
std::span<const base::env::word> words_of(attr_ibv_td_strategy_t) noexcept;
std::span<const base::env::word> words_of(attr_gpu_path_t) noexcept;
std::span<const base::env::word> words_of(attr_gpu_gdrcopy_t) noexcept;
std::span<const base::env::word> words_of(attr_gpu_proxy_t) noexcept;
std::span<const base::env::word> words_of(attr_gpu_tier_t) noexcept;
std::span<const base::env::word> words_of(attr_failure_notice_t) noexcept;
std::span<const base::env::word> lock_mode_words() noexcept;

// Checks every setting of a *_settings_t, by for_each(): throws argument_error for one with an
// illegal value, with the name of the call, the value and the range.
struct settings_check {
  const char* who;  // the call

  template <class T>
  void operator()(const char* attribute, const T& value) const {
    if constexpr (std::is_same_v<T, int> || std::is_same_v<T, std::size_t>)
      number(attribute, value);
    else if constexpr (std::is_same_v<T, double>)
      fraction(attribute, value);
    else if constexpr (std::is_enum_v<T>)
      word(attribute, words_of(value), static_cast<std::uint64_t>(value));
  }

 private:
  void number(std::string_view attribute, int value) const;
  void number(std::string_view attribute, std::size_t value) const;
  void fraction(std::string_view attribute, double value) const;
  void word(std::string_view attribute, std::span<const base::env::word> words,
            std::uint64_t value) const;
};
template <class Settings>
void check_settings(const char* who, Settings& settings) {
  settings_check check{who};
  settings.for_each(check);
}

// `what` is the variable to name in errors, `attribute` selects the range.
void parse(std::string_view what, std::string_view attribute, std::string_view text, bool& out);
void parse(std::string_view what, std::string_view attribute, std::string_view text, int& out);
void parse(std::string_view what, std::string_view attribute, std::string_view text,
           std::size_t& out);
void parse(std::string_view what, std::string_view attribute, std::string_view text, double& out);
void parse(std::string_view what, std::string_view attribute, std::string_view text,
           std::string& out);
template <class Enum>
void parse(std::string_view what, std::string_view, std::string_view text, Enum& out) {
  out = static_cast<Enum>(base::env::parse_word(what, text, words_of(Enum{})));
}

std::string text_of(std::string_view attribute, bool value);
std::string text_of(std::string_view attribute, int value);
std::string text_of(std::string_view attribute, std::size_t value);
std::string text_of(std::string_view attribute, double value);
std::string text_of(std::string_view attribute, const std::string& value);
std::string word_for(std::span<const base::env::word> words, std::uint64_t value);
template <class Enum>
std::string text_of(std::string_view, Enum value) {
  return word_for(words_of(Enum{}), static_cast<std::uint64_t>(value));
}

}  // namespace lci::runtime
