// Calls that have waited for a while, as a report shows them.
#include "lci/base/waiting_calls.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/race_hook.hpp"

namespace lci::base {
namespace {

std::vector<report::record> reported() {
  const auto sheet = std::make_unique<report::sheet>();
  sheet->begin_at(report::moment::now());
  report_waiting(*sheet);
  return {sheet->begin(), sheet->end()};
}

TEST(waiting_calls, enter__is_seen_by_others_until_leave) {
  EXPECT_TRUE(reported().empty());
  int object = 0;
  enter_waiting({"a call", &object, 3, 7, 8, 9});
  std::vector<report::record> all;
  std::thread([&] { all = reported(); }).join();
  leave_waiting();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, report::kind::call);
  EXPECT_STREQ(all[0].name, "a call");
  EXPECT_EQ(all[0].object, reinterpret_cast<std::uintptr_t>(&object));
  EXPECT_EQ(all[0].rank, 3);
  EXPECT_EQ(all[0].tag, 7u);
  EXPECT_EQ(all[0].size, 8u);
  EXPECT_EQ(all[0].how, 9);
  EXPECT_EQ(all[0].thread, ::getpid());
  EXPECT_TRUE(reported().empty());
}

TEST(waiting_calls, enter__calls_inside_each_other_are_all_seen_up_to_a_limit) {
  for (unsigned i = 0; i < MOST_WAITING + 2; ++i) enter_waiting({"a call"});
  EXPECT_EQ(reported().size(), MOST_WAITING);
  leave_waiting();
  leave_waiting();
  leave_waiting();
  EXPECT_EQ(reported().size(), MOST_WAITING - 1);
  for (unsigned i = 1; i < MOST_WAITING; ++i) leave_waiting();
  EXPECT_TRUE(reported().empty());
}

// A signal may come while its thread, or another one, is writing: nothing of that row is told, and
// all of the others.
TEST(waiting_calls, report__of_a_row_that_is_being_written_says_busy_and_no_more) {
  if (!lci::test::has_race_points) GTEST_SKIP() << lci::test::RACE_POINTS_MISSING;
  enter_waiting({"outer"});
  std::vector<report::record> here, there;
  {
    const lci::test::race_hook hook(
        "waiting_calls.enter.in_row",
        [&] {
          here = reported();
          std::thread([&] { there = reported(); }).join();
        },
        1);
    std::thread([] {
      enter_waiting({"inner"});
      leave_waiting();
    }).join();
    EXPECT_EQ(hook.hits(), 1);
  }
  leave_waiting();
  for (const auto& all : {here, there}) {
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].what, report::kind::call);
    EXPECT_STREQ(all[0].name, "outer");
    EXPECT_EQ(all[1].what, report::kind::busy);
    EXPECT_STREQ(all[1].name, "a blocking call");
  }
}

TEST(report_sheet, add__what_has_no_room_is_counted) {
  const auto sheet = std::make_unique<report::sheet>();
  sheet->begin_at(report::moment::now());
  for (std::size_t i = 0; i < report::sheet::ROOM; ++i)
    ASSERT_NE(sheet->add(report::kind::busy), nullptr);
  EXPECT_EQ(sheet->add(report::kind::busy), nullptr);
  EXPECT_EQ(sheet->left_out(), 1u);
}

TEST(report_sheet, set_name__long_ones_are_cut) {
  report::record r{};
  report::sheet::set_name(r, std::string(100, 'x').c_str());
  EXPECT_EQ(std::string(r.name).size(), sizeof r.name - 1);
}

}  // namespace
}  // namespace lci::base
