// What /proc says of the processes of a rank.
#include "tools/lcrun/members.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace lcrun
