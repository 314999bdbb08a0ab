#include "lci/base/state_table.hpp"

#include <gtest/gtest.h>

namespace base = lci::base;

namespace {

enum class state { a, b, end };
enum class event { go, stop };
using letter_row = base::transition<state, event, int>;

constexpr std::array<letter_row, 4> GOOD = {{{state::a, event::go, state::b, 0, ""},
                                             {state::a, event::stop, state::end, 0, ""},
                                             {state::b, event::go, state::b, 0, ""},
                                             {state::b, event::stop, state::end, 0, ""}}};
constexpr bool sound(const auto& table) { return base::table_is_sound(table, state::end, 3, 2); }
static_assert(sound(GOOD));

}  // namespace

// Each check of the compile-time verifier fires.
TEST(table_is_sound, missing_event__is_found) {
  constexpr std::array<letter_row, 3> table = {{GOOD[0], GOOD[1], GOOD[2]}};
  EXPECT_FALSE(sound(table));
}

TEST(table_is_sound, event_twice__is_found) {
  constexpr std::array<letter_row, 4> table = {{GOOD[0], GOOD[0], GOOD[2], GOOD[3]}};
  EXPECT_FALSE(sound(table));
}

TEST(table_is_sound, unreachable_state__is_found) {
  constexpr std::array<letter_row, 4> table = {
      {{state::a, event::go, state::end, 0, ""}, GOOD[1], GOOD[2], GOOD[3]}};
  EXPECT_FALSE(sound(table));
}

TEST(table_is_sound, state_without_way_out__is_found) {
  constexpr std::array<letter_row, 4> table = {
      {GOOD[0], GOOD[1], GOOD[2], {state::b, event::stop, state::b, 0, ""}}};
  EXPECT_FALSE(sound(table));
}

TEST(table_is_sound, circle_without_an_end__is_found) {
  enum class state { a, b, c, end };
  using row = base::transition<state, event, int>;
  constexpr std::array<row, 6> table = {{{state::a, event::go, state::b, 0, ""},
                                         {state::a, event::stop, state::end, 0, ""},
                                         {state::b, event::go, state::c, 0, ""},
                                         {state::b, event::stop, state::b, 0, ""},
                                         {state::c, event::go, state::b, 0, ""},
                                         {state::c, event::stop, state::c, 0, ""}}};
  EXPECT_FALSE(base::table_is_sound(table, state::end, 4, 2));
  auto mended = table;
  mended[5].to = state::end;
  EXPECT_TRUE(base::table_is_sound(mended, state::end, 4, 2));
}

TEST(table_is_sound, island__is_found) {
  enum class state { a, b, c, end };
  using row = base::transition<state, event, int>;
  constexpr std::array<row, 6> table = {{{state::a, event::go, state::a, 0, ""},
                                         {state::a, event::stop, state::end, 0, ""},
                                         {state::b, event::go, state::c, 0, ""},
                                         {state::b, event::stop, state::end, 0, ""},
                                         {state::c, event::go, state::b, 0, ""},
                                         {state::c, event::stop, state::end, 0, ""}}};
  EXPECT_FALSE(base::table_is_sound(table, state::end, 4, 2));
  auto mended = table;
  mended[0].to = state::b;
  EXPECT_TRUE(base::table_is_sound(mended, state::end, 4, 2));
}

TEST(table_is_sound, row_that_starts_at_an_end__is_found) {
  constexpr std::array<letter_row, 5> table = {
      {GOOD[0], GOOD[1], GOOD[2], GOOD[3], {state::end, event::go, state::a, 0, ""}}};
  EXPECT_FALSE(sound(table));
}
