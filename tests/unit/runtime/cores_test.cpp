// Ranks have to take turns if there are more of them than cores that they may use, not if each is
// bound to cores of its own.
#include "lci/runtime/cores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

namespace lci::runtime {
namespace {

core_set these(std::initializer_list<std::size_t> numbers) {
  core_set out;
  for (const std::size_t number : numbers) out.set(number);
  return out;
}

// Of any of them.
bool is_any_outnumbered(const std::vector<core_set>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const core_set& mine) { return outnumber_cores(ranks, mine); });
}

TEST(cores, usable__are_those_of_the_thread) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
  EXPECT_EQ(usable_cores().count(), static_cast<std::size_t>(CPU_COUNT(&mine)));
}

TEST(cores, text__comes_out_as_it_went_in) {
  EXPECT_EQ(tell_cores(core_set()), "0");
  EXPECT_EQ(tell_cores(these({0})), "1");
  EXPECT_EQ(tell_cores(these({3, 4, 9})), "218");
  for (const core_set& one : {core_set(), core_set().set(), these({0}), these({1, 64, 1023}),
                              these({63, 127}), usable_cores()})
    EXPECT_EQ(read_cores(tell_cores(one)), one);
}

TEST(cores, other_texts__are_refused) {
  EXPECT_FALSE(read_cores(""));
  EXPECT_FALSE(read_cores("-"));
  EXPECT_FALSE(read_cores("12x"));
  EXPECT_FALSE(read_cores("F"));
  EXPECT_FALSE(read_cores(std::string(CPU_SETSIZE / 4 + 1, '0')));
}

TEST(cores, ranks_bound_apart__have_enough) {
  EXPECT_FALSE(is_any_outnumbered({these({0}), these({1}), these({2}), these({3})}));
  EXPECT_FALSE(is_any_outnumbered({these({0, 4}), these({1, 5}), these({2, 6})}));
  // By sockets of two cores.
  EXPECT_FALSE(is_any_outnumbered({these({0, 1}), these({0, 1}), these({2, 3}), these({2, 3})}));
}

TEST(cores, ranks_on_the_same_cores__are_counted) {
  const core_set two = these({0, 1});
  EXPECT_FALSE(is_any_outnumbered({two, two}));
  EXPECT_TRUE(is_any_outnumbered({two, two, two, two}));
  // In turn on single cores.
  EXPECT_TRUE(is_any_outnumbered({these({0}), these({1}), these({0}), these({1})}));
}

// The cores that others have to themselves are no help.
TEST(cores, crowd_on_few_cores__is_noticed_by_itself_alone) {
  const core_set two = these({0, 1}), many = these({2, 3, 4, 5, 6, 7});
  const std::vector<core_set> ranks{two, two, two, many};
  EXPECT_TRUE(outnumber_cores(ranks, two));
  EXPECT_FALSE(outnumber_cores(ranks, many));
}

TEST(cores, unknown__may_be_the_same_ones) {
  const core_set two = these({0, 1}), unknown;
  EXPECT_FALSE(outnumber_cores({two, unknown}, two));
  EXPECT_TRUE(outnumber_cores({two, unknown, these({2})}, two));
  EXPECT_TRUE(outnumber_cores({two, unknown}, unknown));
  EXPECT_FALSE(outnumber_cores({unknown}, unknown)) << "alone";
}

}  // namespace
}  // namespace lci::runtime
