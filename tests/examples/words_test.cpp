// Tests of examples/words.hpp: that word_count would notice if the processes had counted wrongly,
// and that its shares of a text are complete.
#include "examples/words.hpp"

#include <gmock/gmock.h>

#include "tests/support/seed.hpp"

namespace {

using words::counts_t;

counts_t count(std::string_view text) {
  counts_t counts;
  words::for_each_word(text, [&](std::string_view word) { words::add(counts, word); });
  return counts;
}

TEST(words, compare__says_identical_only_for_equal_counts) {
  const counts_t counts{{"a", 1}, {"b", 2}};
  EXPECT_EQ(words::compare(counts, counts), "identical");
  EXPECT_EQ(words::compare({}, {}), "identical");
}

TEST(words, compare__names_a_word_that_was_lost) {
  EXPECT_EQ(words::compare({{"a", 1}}, {{"a", 1}, {"b", 2}}),
            "difference: \"b\" counted 0 times together and 2 times alone");
}

TEST(words, compare__names_a_word_that_was_counted_twice) {
  EXPECT_EQ(words::compare({{"a", 1}, {"b", 4}}, {{"a", 1}, {"b", 2}}),
            "difference: \"b\" counted 4 times together and 2 times alone");
}

TEST(words, compare__names_a_word_that_nobody_wrote) {
  EXPECT_EQ(words::compare({{"0", 1}, {"a", 1}}, {{"a", 1}}),
            "difference: \"0\" counted 1 times together and 0 times alone");
}

TEST(words, for_each_word__is_in_lower_case_and_ends_at_other_characters) {
  EXPECT_EQ(count("The dog's 2nd THE-dog"),
            (counts_t{{"the", 2}, {"dog", 2}, {"s", 1}, {"2nd", 1}}));
}

TEST(words, for_each_word__cuts_what_would_not_fit_and_loses_no_letter) {
  const std::string letters(2 * words::MAX_LENGTH + 3, 'x');
  const counts_t counts = count(letters + " y");
  EXPECT_EQ(counts, (counts_t{{letters.substr(0, words::MAX_LENGTH), 2}, {"xxx", 1}, {"y", 1}}));
}

TEST(words, share_of__together_have_every_word_once) {
  auto chance = lci::test::seeded(1);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (size_t i = chance() % 60; i > 0; --i) text += "ab  "[chance() % 4];
    for (const int shares : {1, 2, 3, 7}) {
      counts_t together;
      for (int i = 0; i < shares; ++i) {
        for (const auto& [word, n] : count(words::share_of(text, i, shares))) {
          words::add(together, word, n);
        }
      }
      ASSERT_EQ(words::compare(together, count(text)), "identical") << "in \"" << text << '"';
    }
  }
}

TEST(words, add_text__reads_what_to_text_wrote) {
  const counts_t counts{{"a", 1}, {"bc", 12345678901}};
  counts_t back;
  words::add_text(back, words::to_text(counts));
  EXPECT_EQ(back, counts);
}

TEST(words, ranking__is_by_count_and_no_longer_than_asked_for) {
  EXPECT_EQ(words::ranking({{"a", 1}, {"b", 30}, {"c", 2}}, 2), "      30 b\n       2 c\n");
}

TEST(words, read_text__says_which_file_it_cannot_read) {
  try {
    words::read_text({"/nonexistent/file"});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/nonexistent/file"));
  }
}

}  // namespace
