// Attribute values to text and back, with the range of each attribute.
// Callers: defaults. Threads: any, no state.
// Always true: text_of() of a value parses back to the same value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lci/base/env.hpp"
#include "lci/types.hpp"

namespace lci::runtime {

// Legal values of a number; attributes that are not in the table take every value of their type.
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
std::span<const base::env::word> lock_mode_words() noexcept;

// `what` is the variable that errors name, `attribute` finds the range.
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
