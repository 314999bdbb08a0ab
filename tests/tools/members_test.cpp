// What /proc says of the processes of a rank.
#include "tools/lcrun/members.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace lcrun {
namespace {

TEST(stat_behind_name, of_a_process_that_has_just_ended__is_empty) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const std::string path = "/proc/" + std::to_string(child) + "/stat";
  std::ifstream before(path), behind(path);
  EXPECT_NE(stat_behind_name(before), "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(behind.is_open());
  EXPECT_EQ(stat_behind_name(behind), "");
}

TEST(process_groups, of_a_group__are_its_processes_and_no_others) {
  const auto start = [](pid_t group) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    setpgid(child, group);
    return child;
  };
  const pid_t leader = start(0), other = start(leader), alone = start(0);
  const process_groups now;
  ASSERT_EQ(now.of(leader).size(), 2u);
  EXPECT_EQ(now.of(leader)[0].pid, std::min(leader, other));
  EXPECT_EQ(now.of(leader)[1].pid, std::max(leader, other));
  EXPECT_FALSE(now.of(leader)[0].is_stopped());
  ASSERT_EQ(now.of(alone).size(), 1u);
  for (const pid_t child : {leader, other, alone}) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_TRUE(process_groups().of(alone).empty());
}

}  // namespace
}  // namespace lcrun
