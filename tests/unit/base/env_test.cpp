#include "lci/base/env.hpp"

#include <gtest/gtest.h>

#include <random>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/support/seed.hpp"

namespace lci::base::env {
namespace {

using test::throws_with;

TEST(env, find__unset_and_empty_are_nothing) {
  test::scoped_env vars;
  vars.unset("LCI_TEST_X");
  EXPECT_FALSE(find("LCI_TEST_X"));
  vars.set("LCI_TEST_X", "");
  EXPECT_FALSE(find("LCI_TEST_X"));
  vars.set("LCI_TEST_X", "v");
  EXPECT_EQ(find("LCI_TEST_X"), "v");
}

TEST(env, find_text__unset_is_nothing_and_empty_is_a_text) {
  test::scoped_env vars;
  vars.unset("LCI_TEST_X");
  EXPECT_FALSE(find_text("LCI_TEST_X"));
  vars.set("LCI_TEST_X", "");
  EXPECT_EQ(find_text("LCI_TEST_X"), "");
  vars.set("LCI_TEST_X", "v");
  EXPECT_EQ(find_text("LCI_TEST_X"), "v");
}

TEST(env, find_number__what_is_none_counts_as_unset) {
  test::scoped_env vars;
  vars.set("LCI_TEST_X", "-17");
  EXPECT_EQ(find_number("LCI_TEST_X"), -17);
  for (const char* none : {"", "x", "1x", " 1", "99999999999999999999"}) {
    vars.set("LCI_TEST_X", none);
    EXPECT_FALSE(find_number("LCI_TEST_X")) << none;
  }
}

TEST(env, parse_bool__each_spelling_in_any_case) {
  for (const char* yes : {"1", "true", "TRUE", "on", "On", "yes", "YES", " yes "})
    EXPECT_TRUE(parse_bool("X", yes)) << yes;
  for (const char* no : {"0", "false", "False", "off", "OFF", "no", "nO"})
    EXPECT_FALSE(parse_bool("X", no)) << no;
}

TEST(env, parse_bool__nonsense_names_variable_value_and_words) {
  for (const char* text : {"2", "maybe", "", "tru", "1x", "-1"}) {
    EXPECT_TRUE(throws_with<argument_error>([&] { parse_bool("LCI_ATTR_X", text); },
                                            {"LCI_ATTR_X", text, "true", "no"}))
        << text;
  }
}

TEST(env, parse_unsigned__decimal_hex_and_suffixes) {
  EXPECT_EQ(parse_unsigned("X", "0"), 0u);
  EXPECT_EQ(parse_unsigned("X", "65536"), 65536u);
  EXPECT_EQ(parse_unsigned("X", "0x10"), 16u);
  EXPECT_EQ(parse_unsigned("X", "0X7FFFFFFF"), 0x7fffffffu);
  EXPECT_EQ(parse_unsigned("X", "8K"), 8192u);
  EXPECT_EQ(parse_unsigned("X", "8k"), 8192u);
  EXPECT_EQ(parse_unsigned("X", "3M"), 3u << 20);
  EXPECT_EQ(parse_unsigned("X", "2g"), std::uint64_t{2} << 30);
  EXPECT_EQ(parse_unsigned("X", "18446744073709551615"), ~std::uint64_t{0});
}

TEST(env, parse_unsigned__overflow_is_refused_not_wrapped) {
  for (const char* text : {"18446744073709551616", "17179869184G", "0x1FFFFFFFFFFFFFFFF"})
    EXPECT_THROW(parse_unsigned("X", text), argument_error) << text;
  EXPECT_EQ(parse_unsigned("X", "17179869183G"), std::uint64_t{17179869183} << 30);
}

TEST(env, parse_unsigned__nonsense_is_refused) {
  for (const char* text : {"", "-1", "+1", "K", "0x", "12a", "1.5", "0x1g2", "1KK", "ten", "1 2"})
    EXPECT_THROW(parse_unsigned("X", text), argument_error) << text;
}

TEST(env, parse_unsigned__range_is_in_the_text) {
  EXPECT_TRUE(throws_with<argument_error>([] { parse_unsigned("NAME", "17", 2, 16); },
                                          {"NAME", "\"17\"", "from 2 to 16"}));
  EXPECT_EQ(parse_unsigned("NAME", "16", 2, 16), 16u);
  EXPECT_EQ(parse_unsigned("NAME", "2", 2, 16), 2u);
}

TEST(env, parse_signed__limits_of_the_type) {
  constexpr auto LOW = std::numeric_limits<std::int64_t>::min();
  constexpr auto HIGH = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(parse_signed("X", "-9223372036854775808", LOW, HIGH), LOW);
  EXPECT_EQ(parse_signed("X", "9223372036854775807", LOW, HIGH), HIGH);
  EXPECT_THROW(parse_signed("X", "9223372036854775808", LOW, HIGH), argument_error);
  EXPECT_THROW(parse_signed("X", "-9223372036854775809", LOW, HIGH), argument_error);
  EXPECT_EQ(parse_signed("X", "-1", -1, 255), -1);
  EXPECT_EQ(parse_signed("X", "-0x10", -100, 255), -16);
  EXPECT_THROW(parse_signed("X", "--1", -100, 255), argument_error);
  EXPECT_THROW(parse_signed("X", "-2", -1, 255), argument_error);
}

TEST(env, parse_double__range_and_nonsense) {
  EXPECT_DOUBLE_EQ(parse_double("X", "0.25", 0, 1), 0.25);
  EXPECT_DOUBLE_EQ(parse_double("X", "1e-3", 0, 1), 0.001);
  for (const char* text : {"", "x", "0.5x", "1.5", "-0.1", "nan", "inf"})
    EXPECT_THROW(parse_double("X", text, 0, 1), argument_error) << text;
  EXPECT_DOUBLE_EQ(parse_double("X", "1", 0, 1), 1);
  EXPECT_TRUE(throws_with<argument_error>([] { parse_double("X", "2", 0.001, 1); },
                                          {"a number from 0.001 to 1"}));
  EXPECT_TRUE(
      throws_with<argument_error>([] { parse_double("X", "1", 0, 1, upper_limit::excluded); },
                                  {"a number from 0 to less than 1"}));
}

constexpr word COLOURS[] = {{"red", 1}, {"green", 2}, {"blue", 4}};

TEST(env, parse_word__any_case_one_word_only) {
  EXPECT_EQ(parse_word("X", "Green", COLOURS), 2u);
  EXPECT_TRUE(throws_with<argument_error>([] { parse_word("X", "grean", COLOURS); },
                                          {"X", "grean", "red, green, blue"}));
  EXPECT_THROW(parse_word("X", "red,green", COLOURS), argument_error);
}

TEST(env, parse_flags__list_is_ored) {
  EXPECT_EQ(parse_flags("X", "red", COLOURS), 1u);
  EXPECT_EQ(parse_flags("X", "red, BLUE", COLOURS), 5u);
  EXPECT_THROW(parse_flags("X", "red,pink", COLOURS), argument_error);
  EXPECT_THROW(parse_flags("X", ",", COLOURS), argument_error);
}

TEST(env, for_each_entry__blanks_and_empty_entries_are_skipped) {
  std::string seen;
  for_each_entry(" a ,,b; c ;", ",;", [&](std::string_view e) { seen += std::string(e) + "|"; });
  EXPECT_EQ(seen, "a|b|c|");
}

// Whatever the text, a parser answers or throws the one type.
TEST(env, parsers__random_text_never_escapes) {
  auto random = test::seeded(1);
  const std::string letters = "0123456789abcdefxXkKmMgG-+.,eE \t_\x80";
  for (int i = 0; i < (lci::test::IS_SANITIZED ? 4000 : 20000); ++i) {
    std::string text;
    for (auto n = random() % 8; n > 0; --n) text += letters[random() % letters.size()];
    for (const auto& parse : {+[](const std::string& t) { parse_unsigned("X", t); },
                              +[](const std::string& t) { parse_signed("X", t, -5, 5); },
                              +[](const std::string& t) { parse_double("X", t, 0, 1); },
                              +[](const std::string& t) { parse_bool("X", t); },
                              +[](const std::string& t) { parse_flags("X", t, COLOURS); }}) {
      try {
        parse(text);
      } catch (const argument_error&) {
      }
    }
  }
}

}  // namespace
}  // namespace lci::base::env
