// lcrun, run as a user runs it.
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "tests/tools/launch.hpp"

namespace lcrun_tests {
namespace {

TEST_F(lcrun_test, start__each_rank_is_told_its_place_on_the_host) {
  vars_.set("LCI_LCRUN_LOCAL_RANK", "0");  // of an lcrun around this one
  vars_.set("LCI_LCRUN_LOCAL_SIZE", "1");
  launch run({"-n", "2", "/bin/sh", "-c", "echo $LCI_LCRUN_LOCAL_RANK/$LCI_LCRUN_LOCAL_SIZE"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "0/2\n"), 1u) << run.out();
  EXPECT_EQ(launch::count(run.out(), "1/2\n"), 1u) << run.out();
}

TEST_F(lcrun_test, usage__anything_wrong_prints_it_and_exits_1) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"-n"},
                                                       {"-n", "2"},
                                                       {"-n", "0", "true"},
                                                       {"-n", "x", "true"},
                                                       {"true"},
                                                       {"--nope", "-n", "2", "true"},
                                                       {"-n", "2", "--timeout", "true"}};
  for (const auto& args : wrong) {
    launch run(args);
    EXPECT_EQ(run.finish(), 1);
    EXPECT_NE(run.err().find("usage: lcrun -n <nprocs>"), std::string::npos) << run.err();
    EXPECT_TRUE(run.out().empty());
  }
  launch help({"--help"});
  EXPECT_EQ(help.finish(), 0);
  EXPECT_NE(help.out().find("usage: lcrun -n <nprocs>"), std::string::npos);
}

TEST_F(lcrun_test, ranks__each_is_given_once) {
  launch run({"-n", "5", PROBE, "exchange", "2", "say", "i am"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  const auto lines = lines_of(run.out());
  std::multiset<std::string> expected;
  for (int r = 0; r < 5; ++r) expected.insert("i am " + std::to_string(r) + "/5 lcrun");
  EXPECT_EQ(std::multiset<std::string>(lines.begin(), lines.end()), expected);
}

TEST_F(lcrun_test, arguments__are_passed_untouched) {
  launch run({"-n", "1", "--", "/bin/echo", "-n", "a b", "--timeout", "*"});
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.out(), "a b --timeout *");
}

TEST_F(lcrun_test, environment__what_clients_look_for) {
  launch run({"-n", "2", "/bin/sh", "-c", "echo $LCT_PMI_BACKEND $LCT_PMI_FILE_NRANKS [$RANK]"});
  EXPECT_EQ(run.finish(), 0);
  // Words that every implementation of the interface knows.
  EXPECT_EQ(run.out(), "file,local 2 []\nfile,local 2 []\n");
}

TEST_F(lcrun_test, environment__what_clients_look_for_does_not_hide_lcrun_from_its_own) {
  // Also not from a job inside a job; and a list that the user gives is his.
  launch inner({"-n", "1", LCI_LCRUN, "-n", "2", PROBE, "exchange", "1", "say", "i"});
  EXPECT_EQ(inner.finish(), 0) << inner.err();
  EXPECT_EQ(launch::count(inner.out(), "/2 lcrun"), 2u) << inner.out();
  launch given(
      {"-n", "2", "/usr/bin/env", "LCT_PMI_BACKEND=local", PROBE, "exchange", "1", "say", "i"});
  EXPECT_EQ(given.finish(), 0) << given.err();
  EXPECT_EQ(given.out(), "i 0/1 local\ni 0/1 local\n");
  launch both({"-n", "1", "/usr/bin/env", "LCT_PMI_BACKEND=file", LCI_LCRUN, "-n", "2", PROBE,
               "exchange", "1", "say", "i"});
  EXPECT_EQ(both.finish(), 0) << both.err();
  EXPECT_EQ(launch::count(both.out(), "/2 file"), 2u) << both.out();
}

TEST_F(lcrun_test, size__64_processes_exchange_and_stop) {
  const auto start = clock_type::now();
  launch run({"-n", "64", PROBE, "exchange", "4"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_LT(clock_type::now() - start, std::chrono::seconds(20));
}

TEST_F(lcrun_test, jobs__several_at_once_do_not_meet) {
  std::vector<std::unique_ptr<launch>> jobs;
  for (int n = 1; n <= 8; ++n) {
    jobs.push_back(std::make_unique<launch>(
        std::vector<std::string>{"-n", std::to_string(n), PROBE, "exchange", "20", "say", "of"}));
  }
  for (int n = 1; n <= 8; ++n) {
    launch& job = *jobs[static_cast<std::size_t>(n - 1)];
    EXPECT_EQ(job.finish(), 0) << job.err();
    EXPECT_EQ(launch::count(job.out(), "/" + std::to_string(n) + " lcrun"),
              static_cast<std::size_t>(n));
  }
}

TEST_F(lcrun_test, reopen__ranks_may_leave_and_join_again) {
  launch run({"-n", "4", PROBE, "exchange", "2", "reopen", "exchange", "2", "reopen", "reopen",
              "exchange", "1", "fds", "exchange", "20", "fds"});
  EXPECT_EQ(run.finish(), 0) << run.err();
}

TEST_F(lcrun_test, reopen__one_program_after_the_other) {
  launch run({"-n", "3", "/bin/sh", "-c", PROBE + " exchange 2 && exec " + PROBE + " exchange 3"});
  EXPECT_EQ(run.finish(), 0) << run.err();
}

TEST_F(lcrun_test, status__first_failure_is_named_and_returned) {
  launch run({"-n", "4", PROBE, "exchange", "1", "exit", "2", "3", "hang"});
  EXPECT_EQ(run.finish(), 3);
  EXPECT_NE(run.err().find("lcrun: rank 2 (pid "), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("exited with status 3"), std::string::npos) << run.err();
  EXPECT_EQ(launch::count(run.err(), "lcrun: rank"), 1u) << run.err();
}

TEST_F(lcrun_test, status__killed_rank_ends_the_job) {
  launch run({"-n", "4", PROBE, "exchange", "1", "kill", "1", "9", "hang"});
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  EXPECT_NE(run.err().find("lcrun: rank 1 (pid "), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("died of signal 9 (Killed)"), std::string::npos) << run.err();
}

// The others sit in a fence that can never complete: whether they are told by the server or ended
// by lcrun, the cause that is reported is the kill.
TEST_F(lcrun_test, status__killed_rank_while_others_wait_for_it) {
  for (int i = 0; i < 5; ++i) {
    launch run({"-n", "3", PROBE, "exchange", "1", "kill", "2", "9", "exchange", "1"});
    EXPECT_EQ(run.finish(), 128 + SIGKILL) << run.err();
    EXPECT_NE(run.err().find("rank 2 (pid "), std::string::npos) << run.err();
  }
}

TEST_F(lcrun_test, status__rank_that_ignores_sigterm_is_killed) {
  const std::string ready = testing::TempDir() + "lcrun_ready_" + std::to_string(::getpid());
  const auto start = clock_type::now();
  launch run({"-n", "2", "/bin/sh", "-c",
              "if [ $LCI_LCRUN_RANK = 1 ]; then while [ ! -e " + ready +
                  " ]; do sleep 0.01; done; exit 7; fi; trap '' TERM; : > " + ready +
                  "; while :; do sleep 0.1; done"});
  EXPECT_EQ(run.finish(), 7) << run.err();
  EXPECT_GE(clock_type::now() - start, std::chrono::seconds(2));
  EXPECT_LT(clock_type::now() - start, std::chrono::seconds(20));
  std::filesystem::remove(ready);
}

TEST_F(lcrun_test, keep_going__the_others_finish) {
  launch run({"--keep-going", "-n", "3", "/bin/sh", "-c",
              "if [ $LCI_LCRUN_RANK = 1 ]; then kill -9 $$; fi; sleep 0.3; echo done"});
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  EXPECT_EQ(run.out(), "done\ndone\n");
  EXPECT_NE(run.err().find("rank 1 (pid "), std::string::npos) << run.err();
}

// Rank 1 never joins: the others must not wait for it for ever.
TEST_F(lcrun_test, keep_going__rank_that_never_joined_ends_the_fence) {
  launch run({"--keep-going", "-n", "3", "/bin/sh", "-c",
              "if [ $LCI_LCRUN_RANK = 1 ]; then exit 4; fi; exec " + PROBE + " exchange 1"});
  EXPECT_EQ(run.finish(), 4);
  EXPECT_EQ(launch::count(run.err(), "rank 1 (pid "), 3u) << run.err();
}

TEST_F(lcrun_test, command__that_cannot_run_is_said_once) {
  launch missing({"-n", "3", "/no/such/program"});
  EXPECT_EQ(missing.finish(), 127);
  EXPECT_EQ(missing.err(), "lcrun: cannot run /no/such/program: No such file or directory\n");
  launch forbidden({"-n", "3", "/etc/passwd"});
  EXPECT_EQ(forbidden.finish(), 126);
  EXPECT_EQ(launch::count(forbidden.err(), "Permission denied"), 1u) << forbidden.err();
}

TEST_F(lcrun_test, timeout__ends_the_job_with_124) {
  launch run({"-n", "3", "--timeout", "0.5", PROBE, "hang"});
  EXPECT_EQ(run.finish(), 124);
  EXPECT_TRUE(run.err().starts_with("lcrun: timeout after 0.5 s\nlcrun: who waits")) << run.err();
}

TEST_F(lcrun_test, output__lines_of_all_ranks_stay_whole) {
  launch run({"-n", "6", "--tag-output", PROBE, "lines", "3000"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  std::map<std::string, int> seen;
  for (const std::string& line : lines_of(run.out())) ++seen[line];
  EXPECT_EQ(seen.size(), 6u);
  for (int r = 0; r < 6; ++r) {
    const std::string line =
        "[" + std::to_string(r) + "] " + std::string(100, static_cast<char>('a' + r));
    EXPECT_EQ(seen[line], 3000) << r;
  }
}

TEST_F(lcrun_test, output__streams_are_kept_apart_and_last_lines_are_ended) {
  launch run({"-n", "2", "--tag-output", "/bin/sh", "-c", "echo out; echo err >&2; printf last"});
  EXPECT_EQ(run.finish(), 0);
  auto out = lines_of(run.out());
  EXPECT_EQ(std::multiset<std::string>(out.begin(), out.end()),
            (std::multiset<std::string>{"[0] out", "[0] last", "[1] out", "[1] last"}));
  auto err = lines_of(run.err());
  EXPECT_EQ(std::multiset<std::string>(err.begin(), err.end()),
            (std::multiset<std::string>{"[0] err", "[1] err"}));
}

TEST_F(lcrun_test, output__comes_while_the_job_runs) {
  launch run({"-n", "2", PROBE, "say", "hello", "hang"});
  EXPECT_TRUE(run.wait_for("hello", 2));
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish(), 128 + SIGTERM);
}

TEST_F(lcrun_test, output__much_of_it_and_a_slow_reader) {
  launch run({"-n", "2", "/bin/sh", "-c", "head -c 8000000 /dev/zero | tr '\\0' x; echo"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(launch::count(run.out(), "x"), 16000000u);
}

TEST_F(lcrun_test, output__reader_that_leaves_ends_the_job) {
  launch run({"-n", "1", "/bin/sh", "-c", std::string(LCI_LCRUN) + " -n 2 yes 2>&1 | head -n 3"});
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.out(), "y\ny\ny\n");
}

TEST_F(lcrun_test, output__that_is_lost_on_a_full_disk_is_an_error) {
  const std::string start = std::string("exec ") + LCI_LCRUN + " -n 1 /bin/sh -c ";
  launch out({"-c", start + "'echo text' >/dev/full"}, {}, "/bin/sh");
  EXPECT_EQ(out.finish(), 1);
  EXPECT_EQ(out.err(), "lcrun: output is lost: No space left on device\n");
  launch err({"-c", start + "'echo text >&2' 2>/dev/full"}, {}, "/bin/sh");
  EXPECT_EQ(err.finish(), 1);
}

TEST_F(lcrun_test, input__goes_to_rank_0_only) {
  launch run({"-n", "3", "--tag-output", "/bin/cat"}, "one\ntwo\n");
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.out(), "[0] one\n[0] two\n");
}

TEST_F(lcrun_test, backends__file_is_private_and_leaves_nothing) {
  const std::string base = testing::TempDir() + "lcrun_file_" + std::to_string(::getpid());
  std::filesystem::create_directory(base);
  vars_.set("LCT_PMI_BACKEND", "file");
  vars_.set("TMPDIR", base);
  launch a({"-n", "4", "--tag-output", PROBE, "exchange", "3", "say", "i"});
  launch b({"-n", "4", PROBE, "exchange", "3", "say", "i"});
  EXPECT_EQ(a.finish(), 0) << a.err();
  EXPECT_EQ(b.finish(), 0) << b.err();
  // lcrun's rank is the bootstrap's rank.
  for (int r = 0; r < 4; ++r) {
    const std::string n = std::to_string(r);
    EXPECT_NE(a.out().find("[" + n + "] i " + n + "/4 file\n"), std::string::npos) << a.out();
  }
  EXPECT_TRUE(std::filesystem::is_empty(base));
  std::filesystem::remove_all(base);
}

// By --env, or by the command itself, of which lcrun knows nothing.
TEST_F(lcrun_test, backends__file_is_private_if_only_ranks_are_told_of_it) {
  const std::string base = testing::TempDir() + "lcrun_ranks_" + std::to_string(::getpid());
  std::filesystem::create_directory(base);
  vars_.set("TMPDIR", base);
  const std::vector<std::string> say{"/bin/sh", "-c", "echo $LCT_PMI_FILE_DIR"};
  std::vector<std::string> by_option{"-n", "2", "--env", "LCT_PMI_BACKEND=file"};
  std::vector<std::string> by_command{"-n", "2", "/usr/bin/env", "LCT_PMI_BACKEND=file"};
  std::set<std::string> directories;
  for (std::vector<std::string>* const words : {&by_option, &by_command}) {
    std::vector<std::string> asks = *words;
    asks.insert(asks.end(), say.begin(), say.end());
    launch where(asks);
    EXPECT_EQ(where.finish(), 0) << where.err();
    EXPECT_EQ(launch::count(where.out(), base + "/lcrun-"), 2u) << where.out();
    const auto lines = lines_of(where.out());
    directories.insert(lines.begin(), lines.end());
    words->insert(words->end(), {PROBE, "exchange", "3", "say", "i"});
    launch meets(*words);
    EXPECT_EQ(meets.finish(), 0) << meets.err();
    EXPECT_EQ(launch::count(meets.out(), "/2 file\n"), 2u) << meets.out();
  }
  EXPECT_EQ(directories.size(), 2u);
  EXPECT_TRUE(std::filesystem::is_empty(base));
  std::filesystem::remove_all(base);
}

TEST_F(lcrun_test, backends__file_in_a_directory_that_is_still_to_be_made) {
  const std::string base = testing::TempDir() + "lcrun_new_" + std::to_string(::getpid());
  launch meets({"-n", "2", "--env", "LCT_PMI_BACKEND=file", "--env", "LCT_PMI_FILE_DIR=" + base,
                PROBE, "exchange", "3", "say", "i"});
  EXPECT_EQ(meets.finish(), 0) << meets.err();
  EXPECT_EQ(launch::count(meets.out(), "/2 file\n"), 2u) << meets.out();
  EXPECT_TRUE(std::filesystem::is_empty(base));
  std::filesystem::remove_all(base);
}

TEST_F(lcrun_test, backends__tcp_gets_rank_and_size) {
  vars_.set("LCT_PMI_BACKEND", "tcp");
  vars_.set("MASTER_ADDR", "127.0.0.1");
  vars_.set("MASTER_PORT", std::to_string(20000 + ::getpid() % 10000));
  launch run({"-n", "4", PROBE, "exchange", "3", "say", "i"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "/4 tcp"), 4u) << run.out();
}

TEST_F(lcrun_test, backends__incomplete_tcp_variables_are_named) {
  vars_.set("LCT_PMI_BACKEND", "tcp");
  vars_.set("LCT_MASTER_ADDR", "127.0.0.1");
  vars_.set("MASTER_PORT", "1234");
  launch run({"-n", "2", PROBE, "exchange", "1"});
  EXPECT_EQ(run.finish(), 5);
  EXPECT_NE(run.err().find("LCT_MASTER_ADDR is set without LCT_MASTER_PORT"), std::string::npos)
      << run.err();
}

TEST_F(lcrun_test, backends__local_makes_everybody_rank_0) {
  vars_.set("LCT_PMI_BACKEND", "local");
  launch run({"-n", "2", PROBE, "exchange", "1", "say", "i"});
  EXPECT_EQ(run.finish(), 0);
  EXPECT_EQ(run.out(), "i 0/1 local\ni 0/1 local\n");
}

TEST_F(lcrun_test, descriptors__ranks_inherit_no_more_than_lcrun_did) {
  const std::vector<std::string> list = {"-c", "ls /proc/self/fd | wc -l"};
  launch without(list, {}, "/bin/sh");
  EXPECT_EQ(without.finish(), 0);
  launch with({"-n", "2", "/bin/sh", list[0], list[1]});
  EXPECT_EQ(with.finish(), 0);
  EXPECT_EQ(with.out(), without.out() + without.out());
}

TEST_F(lcrun_test, script__of_the_source_tree_hands_over) {
  vars_.set("LCRUN", LCI_LCRUN);
  launch run({"-n", "2", "/bin/echo", "hi"}, {}, std::string(LCI_SOURCE_DIR) + "/lcrun");
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(run.out(), "hi\nhi\n");
}

// As in a project that fetches this one and builds no tools.
TEST_F(lcrun_test, script__of_a_source_tree_without_a_program_starts_the_ranks) {
  char folder[] = "/tmp/lcrun-script-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string script = std::string(folder) + "/lcrun";
  std::filesystem::copy_file(std::string(LCI_SOURCE_DIR) + "/lcrun", script);
  vars_.set("PATH", "/usr/bin:/bin");
  vars_.unset("LCRUN");
  {
    launch run({"-n", "3", PROBE, "exchange", "1"}, {}, script);
    EXPECT_EQ(run.finish(), 0) << run.err();
    launch failing({"-n", "2", "/bin/sh", "-c", "exit 7"}, {}, script);
    EXPECT_EQ(failing.finish(), 7) << failing.err();
    launch wrong({"--hosts", "a", PROBE}, {}, script);
    EXPECT_EQ(wrong.finish(), 1);
    EXPECT_NE(wrong.err().find("usage: lcrun -n"), std::string::npos) << wrong.err();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lcrun_tests
