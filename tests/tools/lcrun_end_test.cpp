// How jobs end: signals, crashes, kill -9 of anybody, and what is left then.
#include <filesystem>

#include "tests/support/sanitized.hpp"
#include "tests/tools/launch.hpp"

namespace lcrun_tests {
namespace {

using lcrun_end_test = lcrun_test;

TEST_F(lcrun_end_test, signals__are_passed_on) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    launch run({"-n", "3", "/bin/sh", "-c",
                "trap 'echo got it; exit 0' INT TERM HUP USR1 USR2; echo ready; "
                "while :; do sleep 0.05; done"});
    ASSERT_TRUE(run.wait_for("ready", 3));
    run.signal(number);
    EXPECT_EQ(run.finish(), 0) << number << run.err();
    EXPECT_EQ(launch::count(run.out(), "got it"), 3u) << number;
  }
}

TEST_F(lcrun_end_test, signals__death_by_a_signal_that_was_passed_on_is_no_surprise) {
  launch run({"-n", "3", PROBE, "say", "ready", "hang"});
  ASSERT_TRUE(run.wait_for("ready", 3));
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 128 + SIGINT);
  EXPECT_EQ(run.err(), "");
}

// As under nohup. What is forwarded otherwise is not even read: the second would end the job.
TEST_F(lcrun_end_test, signals__that_were_ignored_stay_so) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  launch run({"-n", "3", "/bin/sh", "-c",
              "trap 'echo got it; exit 0' USR2; echo ready; while :; do sleep 0.05; done"});
  ::signal(SIGHUP, before);
  ASSERT_TRUE(run.wait_for("ready", 3));
  run.signal(SIGHUP);
  run.signal(SIGHUP);
  run.signal(SIGUSR2);
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "got it"), 3u);
}

// Where the limit comes first, on a slow machine, there is nothing to see.
TEST_F(lcrun_end_test, timeout__after_a_failure_leaves_its_status) {
  for (int i = 0; i < 3; ++i) {
    launch run({"-n", "2", "--timeout", "1", "/bin/sh", "-c",
                "[ $LCI_LCRUN_RANK = 0 ] && exit 3; trap '' TERM; while :; do sleep 0.05; done"});
    const int status = run.finish();
    if (run.err().find("exited with status 3") == std::string::npos) continue;
    EXPECT_EQ(status, 3);
    EXPECT_EQ(run.err().find("timeout"), std::string::npos) << run.err();
    return;
  }
  GTEST_SKIP() << "it takes a second to start a process";
}

// Three ranks wait in a barrier. One that is not ended with the others would find a peer lost, and
// die of the exception. before: what the shell does that becomes a rank; by: what starts it.
// A slow machine may need a longer limit until all are there.
void expect_quiet_timeout(const std::string& before, const std::string& by = {}) {
  for (const char* limit : {"0.5", "5", "60"}) {
    launch run({"-n", "4", "--timeout", limit, "/bin/sh", "-c",
                before + "echo $$; exec " + by + LCI_HANG + " missing_from_barrier"});
    EXPECT_EQ(run.finish(), 124);
    const auto pids = pids_in_lines(run.out());
    EXPECT_TRUE(all_gone(pids));
    if (launch::count(run.out(), "about to wait") < 4) continue;
    EXPECT_EQ(run.err().find("terminate"), std::string::npos) << run.err();
    EXPECT_EQ(run.err().find("is lost"), std::string::npos) << run.err();
    return;
  }
  ADD_FAILURE() << "four processes did not come as far as a barrier in a minute";
}

TEST_F(lcrun_end_test, timeout__ends_all_ranks_at_once) {
  if (lci::test::IS_SANITIZED) GTEST_SKIP() << "a sanitizer has to be loaded first";
  vars_.set("LD_PRELOAD", LCI_SLOW_KILL);
  expect_quiet_timeout("");
}

TEST_F(lcrun_end_test, timeout__ends_ranks_that_ignore_sigterm_with_the_others) {
  expect_quiet_timeout("if [ $LCI_LCRUN_RANK = 3 ]; then trap '' TERM; fi; ");
}

TEST_F(lcrun_end_test, timeout__ends_ranks_at_once_that_all_ignore_sigterm) {
  if (lci::test::IS_SANITIZED) GTEST_SKIP() << "a sanitizer has to be loaded first";
  vars_.set("LD_PRELOAD", LCI_SLOW_KILL);
  expect_quiet_timeout("trap '' TERM; ");
}

TEST_F(lcrun_end_test, timeout__ends_ranks_at_once_that_all_block_sigterm) {
  if (lci::test::IS_SANITIZED) GTEST_SKIP() << "a sanitizer has to be loaded first";
  if (std::system("env --block-signal=TERM true 2> /dev/null") != 0)
    GTEST_SKIP() << "env of this system cannot block signals";
  vars_.set("LD_PRELOAD", LCI_SLOW_KILL);
  expect_quiet_timeout("", "env --block-signal=TERM ");
}

TEST_F(lcrun_end_test, crash__what_ranks_have_started_ends_with_the_job) {
  launch run({"-n", "3", PROBE, "own_group", "exchange", "1", "kill", "0", "9", "hang"});
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  const auto pids = pids_in(run.out());
  EXPECT_EQ(pids.size(), 6u);
  EXPECT_TRUE(all_gone(pids));
}

TEST_F(lcrun_end_test, crash__nothing_survives_kill_9_of_lcrun) {
  vars_.set("LCT_PMI_BACKEND", "file");
  const std::string base = testing::TempDir() + "lcrun_kill_" + std::to_string(::getpid());
  std::filesystem::create_directory(base);
  vars_.set("LCT_PMI_FILE_DIR", base);
  launch run({"-n", "3", PROBE, "own_group", "exchange", "1", "say", "ready", "hang"});
  ASSERT_TRUE(run.wait_for("ready", 3));
  EXPECT_FALSE(std::filesystem::is_empty(base));
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  const auto pids = pids_in_lines(run.out());
  EXPECT_EQ(pids.size(), 6u);
  EXPECT_TRUE(all_gone(pids));
  for (int i = 0; i < 1000 && !std::filesystem::is_empty(base); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::is_empty(base));
  std::filesystem::remove_all(base);
}

// As `timeout` in a script and daemons do.
std::vector<std::string> with_strays(const std::string& words) {
  return {"-n", "2", "/bin/sh", "-c",
          "setsid sleep 1000 & echo $!; exec " + PROBE + " exchange 1 " + words};
}

TEST_F(lcrun_end_test, crash__what_ranks_have_started_in_sessions_ends_with_the_job) {
  launch run(with_strays("exit 0 7 hang"));
  EXPECT_EQ(run.finish(), 7) << run.err();
  const auto pids = pids_in(run.out());
  EXPECT_EQ(pids.size(), 2u);
  EXPECT_TRUE(all_gone(pids));
}

TEST_F(lcrun_end_test, crash__no_session_survives_kill_9_of_lcrun) {
  launch run(with_strays("say ready hang"));
  ASSERT_TRUE(run.wait_for("ready", 2));
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  const auto pids = pids_in_lines(run.out());
  EXPECT_EQ(pids.size(), 2u) << run.out();
  EXPECT_TRUE(all_gone(pids));
}

// The inner one's warden has the outer job's environment.
TEST_F(lcrun_end_test, crash__of_an_lcrun_inside_a_rank_nothing_is_left) {
  launch run({"-n", "2", "/bin/sh", "-c",
              "if [ $LCI_LCRUN_RANK = 0 ]; then exec " + std::string(LCI_LCRUN) + " -n 2 " + PROBE +
                  " own_group exchange 1 say ready hang; fi; exec " + PROBE + " hang"});
  ASSERT_TRUE(run.wait_for("ready", 2)) << run.err();
  run.signal(SIGTERM);
  run.signal(SIGTERM);
  run.finish();
  const auto pids = pids_in_lines(run.out());
  EXPECT_EQ(pids.size(), 4u) << run.out();
  EXPECT_TRUE(all_gone(pids));
}

TEST_F(lcrun_end_test, crash__next_job_starts_as_if_nothing_had_been) {
  for (int i = 0; i < 3; ++i) {
    launch crashing({"-n", "3", PROBE, "exchange", "1", "say", "ready", "hang"});
    ASSERT_TRUE(crashing.wait_for("ready", 3));
    crashing.signal(SIGKILL);
    crashing.finish();
    launch next({"-n", "3", PROBE, "exchange", "2"});
    EXPECT_EQ(next.finish(), 0) << next.err();
  }
}

// The status, and what is said, where some fail because of one. What the deaths take is not in our
// hands, and lcrun does not wait for ever: one of some jobs shows it.
void expect_cause(const std::vector<std::string>& args, int status, const std::string& text) {
  std::string said;
  for (int i = 0; i < 3; ++i) {
    launch run(args);
    const bool is_named = run.finish() == status && run.err().find(text) != std::string::npos;
    if (is_named) return;
    said += run.err();
  }
  ADD_FAILURE() << said;
}

TEST_F(lcrun_end_test, cause__who_is_on_its_way_out_before_who_gave_up) {
  const std::vector<std::string> words{PROBE, "die", "2", "50", "exchange", "1", "exit", "0", "1"};
  for (const bool keep_going : {false, true}) {
    std::vector<std::string> args{"-n", "3"};
    if (keep_going) args.push_back("--keep-going");
    args.insert(args.end(), words.begin(), words.end());
    expect_cause(args, 128 + SIGKILL, "died of signal 9 (Killed)");
  }
}

TEST_F(lcrun_end_test, cause__is_before_who_aborts) {
  const std::string words = "if [ $LCI_LCRUN_RANK = 0 ]; then " + PROBE +
                            " exchange 1; kill -ABRT $$; fi; exec " + PROBE +
                            " die 2 50 exchange 1";
  expect_cause({"-n", "3", "/bin/sh", "-c", words}, 128 + SIGKILL, "died of signal 9 (Killed)");
}

// The shell learns what became of the rank when others know it already.
TEST_F(lcrun_end_test, cause__of_which_a_shell_will_tell) {
  const std::string words =
      " exchange 1 kill 2 9; status=$?; case $LCI_LCRUN_RANK in "
      "0) sleep 0.03; exit 1;; 2) sleep 0.1;; esac; exit $status";
  expect_cause({"-n", "3", "/bin/sh", "-c", PROBE + words}, 128 + SIGKILL,
               "exited with status 137");
}

// Its first thread ends and it lives on: nobody waits for it for long.
TEST_F(lcrun_end_test, cause__is_not_waited_for_without_end) {
  launch run(
      {"--keep-going", "-n", "3", PROBE, "die", "2", "1500", "exchange", "1", "exit", "0", "3"});
  EXPECT_EQ(run.finish(), 3) << run.err();
  EXPECT_LT(run.err().find("rank 0"), run.err().find("rank 2")) << run.err();
}

}  // namespace
}  // namespace lcrun_tests
