#include "lci/runtime/debugger.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scoped_env.hpp"

namespace lci::runtime {
namespace {

struct debugger : testing::Test {
  // A process that waits as the variable says, and then ends well.
  pid_t start(const char* how) {
    if (how == nullptr)
      vars.unset("LCI_INIT_ATTACH_DEBUGGER");
    else
      vars.set("LCI_INIT_ATTACH_DEBUGGER", how);
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(600);
      wait_for_debugger(3);
      _exit(0);
    }
    return pid;
  }
  static int end_of(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }
  lci::test::scoped_env vars;
};

TEST_F(debugger, not_asked_for__is_not_waited_for) {
  for (const char* how : {static_cast<const char*>(nullptr), "", "0"})
    EXPECT_EQ(end_of(start(how)), 0);
}

TEST_F(debugger, sigstop__goes_on_once_it_is_continued) {
  const pid_t pid = start("sigstop");
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
  kill(pid, SIGCONT);
  EXPECT_EQ(end_of(pid), 0);
}

TEST_F(debugger, waits_until_there_is_one) {
  const pid_t pid = start("1");
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0);
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) {
    kill(pid, SIGKILL);
    end_of(pid);
    GTEST_SKIP() << "the system forbids to trace a child";
  }
  EXPECT_EQ(end_of(pid), 0);
}

}  // namespace
}  // namespace lci::runtime
