// Long options with numbers or words as values.
// Threads: single, each parser.
#include "lct/arguments.h"

#include <climits>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lci/base/env.hpp"
#include "lci/errors.hpp"

namespace lct {

struct option {
  std::string name;
  int has_arg;
  int* value;
  std::vector<std::pair<std::string, int>> words;  // empty: the value is a number
};

namespace {

constexpr int REQUIRED = 1;  // as in getopt_long()

std::string list_of_words(const option& one) {
  std::string list;
  for (const auto& [word, number] : one.words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

int value_of(const option& one, const std::string& text) {
  if (one.words.empty()) return lci::base::env::parse_int("--" + one.name, text, INT_MIN, INT_MAX);
  for (const auto& [word, number] : one.words)
    if (word == text) return number;
  throw lci::argument_error("--" + one.name + " is \"" + text + "\": expected one of " +
                            list_of_words(one));
}

}  // namespace
}  // namespace lct

struct LCT_args_parser_opaque_t {
  std::vector<lct::option> options;

  void add(lct::option made) {
    if (made.name.empty()) throw lci::argument_error("an option without a name");
    for (const lct::option& one : options)
      if (one.name == made.name) throw lci::argument_error("--" + made.name + " is there already");
    options.push_back(std::move(made));
  }

  // Finds an option by its name, or by a prefix that no other has.
  const lct::option& find(std::string_view name) const {
    const lct::option* found = nullptr;
    int fitting = 0;
    std::string known;
    for (const lct::option& one : options) {
      if (one.name == name) return one;
      if (std::string_view(one.name).starts_with(name)) {
        found = &one;
        ++fitting;
      }
      known += " --" + one.name;
    }
    if (fitting == 1) return *found;
    throw lci::argument_error("--" + std::string(name) +
                              (fitting == 0 ? " is not known, there are" : " may be several of") +
                              known);
  }
};

extern "C" {

LCT_args_parser_t LCT_args_parser_alloc(void) { return new LCT_args_parser_opaque_t; }
void LCT_args_parser_free(LCT_args_parser_t parser) { delete parser; }

void LCT_args_parser_add(LCT_args_parser_t parser, const char* name, int has_arg, int* ptr) {
  parser->add({name, has_arg, ptr, {}});
}

void LCT_args_parser_add_dict(LCT_args_parser_t parser, const char* name, int has_arg, int* ptr,
                              const LCT_dict_str_int_t dict[], int count) {
  lct::option made{name, has_arg, ptr, {}};
  for (int i = 0; i < count; ++i)
    if (dict[i].key != nullptr) made.words.emplace_back(dict[i].key, dict[i].val);
  parser->add(std::move(made));
}

void LCT_args_parser_parse(LCT_args_parser_t parser, int argc, char* argv[]) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument(argv[i]);
    if (argument == "--") return;
    if (!argument.starts_with("--")) continue;
    argument.remove_prefix(2);
    const std::size_t equals = argument.find('=');
    const lct::option& one = parser->find(argument.substr(0, equals));
    const bool has_value = equals != std::string_view::npos;
    if (has_value && one.has_arg == 0)
      throw lci::argument_error("--" + one.name + " takes no value");
    if (has_value) {
      *one.value = lct::value_of(one, std::string(argument.substr(equals + 1)));
    } else if (one.has_arg != lct::REQUIRED) {
      *one.value = 1;
    } else if (++i < argc) {
      *one.value = lct::value_of(one, argv[i]);
    } else {
      throw lci::argument_error("--" + one.name + " needs a value");
    }
  }
}

void LCT_args_parser_print(LCT_args_parser_t parser, bool verbose) {
  for (const lct::option& one : parser->options) {
    std::string value = std::to_string(*one.value);
    for (const auto& [word, number] : one.words)
      if (number == *one.value) value = word;
    std::printf("%s: %s", one.name.c_str(), value.c_str());
    if (verbose && !one.words.empty()) std::printf(" (of %s)", lct::list_of_words(one).c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

}  // extern "C"
