// lcrun --hosts, with a stand-in for ssh that runs what it is given on this machine, --bind and
// --env.
#include <sched.h>
#include <sys/stat.h>

#include <filesystem>
#include <iterator>
#include <set>

#include "tests/tools/launch.hpp"

namespace lcrun_tests {
namespace {

class lcrun_hosts_test : public lcrun_test {
 protected:
  lcrun_hosts_test() : ssh_(testing::TempDir() + "lcrun_ssh_" + std::to_string(::getpid())) {
    for (const char* name : {"LCI_SSH", "LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE",
                             "LCT_MASTER_ADDR", "LCT_MASTER_PORT"})
      vars_.unset(name);
    std::ofstream(ssh_) << "#!/bin/sh\n"
                           "[ \"$1\" = down ] && { echo 'ssh: no route' >&2; exit 255; }\n"
                           "[ \"$1\" = mute ] && exec cat >/dev/null\n"
                           "[ \"$1\" = deaf ] && exec sleep 100\n"
                           "[ \"$1\" = asks ] && kill -TTIN $$\n"
                           "[ \"$1\" = apart ] && { shift; exec setsid -w sh -c \"$*\"; }\n"
                           "[ \"$1\" = lost ] && { shift; sh -c \"$*\"; exit 255; }\n"
                           "export STUB_HOST=$1; shift; exec sh -c \"$*\"\n";
    ::chmod(ssh_.c_str(), 0700);
  }
  ~lcrun_hosts_test() override { ::unlink(ssh_.c_str()); }
  void SetUp() override {
#if !LCI_HAVE_SODIUM
    GTEST_SKIP() << "this build has no libsodium (libsodium-dev)";
#endif
  }
  // The words of a job on two hosts.
  std::vector<std::string> on_hosts(int n, std::vector<std::string> rest,
                                    const std::string& hosts = "127.0.0.1,127.0.0.2") const {
    std::vector<std::string> words{"-n", std::to_string(n), "--hosts", hosts, "--ssh", ssh_};
    words.insert(words.end(), rest.begin(), rest.end());
    return words;
  }
  const std::string ssh_;
};

std::multiset<std::string> sorted_lines(const std::string& text) {
  const auto lines = lines_of(text);
  return {lines.begin(), lines.end()};
}

TEST_F(lcrun_hosts_test, hosts__ranks_are_dealt_in_blocks_and_know_their_places) {
  const std::vector<std::string> show{
      "--tag-output", "/bin/sh", "-c",
      "echo $STUB_HOST $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE"};
  launch even(on_hosts(5, show));
  EXPECT_EQ(even.finish(), 0) << even.err();
  EXPECT_EQ(sorted_lines(even.out()),
            (std::multiset<std::string>{"[0] 127.0.0.1 0/5 0/3", "[1] 127.0.0.1 1/5 1/3",
                                        "[2] 127.0.0.1 2/5 2/3", "[3] 127.0.0.2 3/5 0/2",
                                        "[4] 127.0.0.2 4/5 1/2"}));
  launch counted(on_hosts(3, show, "127.0.0.1:1,127.0.0.2:6,unused:4"));
  EXPECT_EQ(counted.finish(), 0) << counted.err();
  EXPECT_EQ(sorted_lines(counted.out()),
            (std::multiset<std::string>{"[0] 127.0.0.1 0/3 0/1", "[1] 127.0.0.2 1/3 0/2",
                                        "[2] 127.0.0.2 2/3 1/2"}));
}

TEST_F(lcrun_hosts_test, hosts__ranks_meet_over_tcp_with_a_key_that_no_command_line_shows) {
  launch run(on_hosts(4, {PROBE, "exchange", "3", "say", "here", "hang"}));
  ASSERT_TRUE(run.wait_for("here", 4));
  EXPECT_EQ(launch::count(run.out(), "/4 tcp"), 4u) << run.out();
  // The key is in the ranks' environment; nothing that everybody may read holds it.
  std::string key;
  std::size_t command_lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "environ");
    std::string all((std::istreambuf_iterator<char>(in)), {});
    const std::size_t at = all.find("LCT_PMI_TCP_KEY=");
    if (at != std::string::npos && all.find("LCI_LCRUN_RANK=") != std::string::npos)
      key = all.substr(at + 16, 64);
  }
  ASSERT_EQ(key.size(), 64u);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline");
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    command_lines += all.empty() ? 0 : 1;
    EXPECT_EQ(all.find(key), std::string::npos) << entry.path();
  }
  EXPECT_GT(command_lines, 4u);
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish(), 128 + SIGTERM) << run.err();
}

TEST_F(lcrun_hosts_test, hosts__key_file_of_the_user_does_not_meet_the_key_of_the_job) {
  vars_.set("LCT_PMI_TCP_KEY_FILE", "/for/torchrun/jobs");
  launch run(on_hosts(2, {PROBE, "exchange", "1", "say", "here"}));
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "/2 tcp"), 2u) << run.out();
}

TEST_F(lcrun_hosts_test, hosts__first_failure_ends_all_and_is_said_once) {
  launch run(on_hosts(4, {PROBE, "own_group", "exchange", "1", "exit", "3", "7", "hang"}));
  EXPECT_EQ(run.finish(), 7);
  EXPECT_NE(run.err().find("lcrun: rank 3 (pid "), std::string::npos) << run.err();
  EXPECT_EQ(launch::count(run.err(), "lcrun: "), 1u) << run.err();
  const auto pids = pids_in(run.out());
  EXPECT_EQ(pids.size(), 8u);
  EXPECT_TRUE(all_gone(pids));
}

// Rank 0 is on its way out when rank 1 gives up, and over later; no signal changes how.
TEST_F(lcrun_hosts_test, hosts__cause_that_is_known_behind_who_gave_up_is_said) {
  launch run(on_hosts(
      2, {"/bin/sh", "-c", "trap '' TERM; exec " + PROBE + " die 0 1000 exchange 1 exit 1 3"}));
  EXPECT_EQ(run.finish(), 3) << run.err();
  EXPECT_NE(run.err().find("lcrun: rank 1 (pid "), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("died of signal 9 (Killed)"), std::string::npos) << run.err();
}

TEST_F(lcrun_hosts_test, hosts__one_that_cannot_be_reached_is_named) {
  launch run(on_hosts(2, {PROBE, "exchange", "1"}, "127.0.0.1,down"));
  EXPECT_EQ(run.finish(), 255);
  EXPECT_NE(run.err().find("ssh: no route"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("the --ssh command for host down"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("--ssh"), std::string::npos) << run.err();
}

// The status by which ssh tells that it could not reach the host.
TEST_F(lcrun_hosts_test, hosts__rank_that_ends_with_255_was_reached) {
  launch run(on_hosts(2, {"/bin/sh", "-c", "exit 255"}));
  EXPECT_EQ(run.finish(), 255);
  const auto lines = lines_of(run.err());
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines)
    EXPECT_TRUE(line.starts_with("lcrun: rank ") && line.ends_with(" exited with status 255"))
        << line;
}

// A rank there had failed before, with another status.
TEST_F(lcrun_hosts_test, hosts__one_that_is_lost_later_is_named) {
  launch run(on_hosts(1, {"--keep-going", "/bin/sh", "-c", "exit 3"}, "lost"));
  EXPECT_EQ(run.finish(), 255);
  EXPECT_NE(run.err().find(" exited with status 3"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("the --ssh command for host lost"), std::string::npos) << run.err();
}

TEST_F(lcrun_hosts_test, hosts__ssh_is_told_not_to_ask) {
  const std::string folder = testing::TempDir() + "lcrun_path_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/ssh") << "#!/bin/sh\necho \"$1 $2 $3\" >&2; exit 255\n";
  ::chmod((folder + "/ssh").c_str(), 0700);
  vars_.set("PATH", folder + ":" + std::getenv("PATH"));
  launch run({"-n", "1", "--hosts", "far", "true"});
  EXPECT_EQ(run.finish(), 255);
  EXPECT_TRUE(run.err().starts_with("-o BatchMode=yes far\n")) << run.err();
  std::filesystem::remove_all(folder);
}

// As the terminal does to a process in the background that reads from it.
TEST_F(lcrun_hosts_test, hosts__ssh_that_asks_is_named) {
  launch run(on_hosts(1, {"true"}, "asks"));
  EXPECT_TRUE(run.wait_for_error("the --ssh command for host asks has stopped")) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 128 + SIGINT);
  EXPECT_EQ(launch::count(run.err(), "lcrun: "), 1u) << run.err();
}

// As on a host: the agent does not end with its ssh.
TEST_F(lcrun_hosts_test, hosts__ranks_that_ignore_signals_end_before_lcrun) {
  launch run(on_hosts(2,
                      {"/bin/sh", "-c",
                       "trap '' TERM USR2; [ $RANK = 0 ] && trap 'exit 3' USR2; echo $$; "
                       "while :; do sleep 0.05; done"},
                      "127.0.0.1,apart"));
  ASSERT_TRUE(run.wait_for("\n", 2)) << run.err();
  run.signal(SIGUSR2);
  EXPECT_EQ(run.finish(), 3) << run.err();
  const auto pids = pids_in(run.out());
  ASSERT_EQ(pids.size(), 2u) << run.out();
  for (const pid_t pid : pids) EXPECT_FALSE(is_running(pid));
}

// They count their turns once they are told to end. Those of the grace would be forty.
TEST_F(lcrun_hosts_test, hosts__third_request_to_end_waits_for_nobody) {
  const std::string turns = testing::TempDir() + "lcrun_turns_" + std::to_string(::getpid());
  launch run(
      on_hosts(1,
               {"/bin/sh", "-c",
                "to=/dev/null; trap 'echo int' INT; trap \"echo term; to=$1\" TERM; echo $$; "
                "echo ready; while :; do sleep 0.05; echo turn >>$to; done",
                "sh", turns},
               "apart"));
  for (const char* const heard : {"ready", "int", "term"}) {
    ASSERT_TRUE(run.wait_for(heard)) << run.err();
    run.signal(SIGINT);
  }
  run.finish();
  EXPECT_TRUE(all_gone(pids_in(run.out())));
  std::ifstream lines(turns);
  EXPECT_LT(std::distance(std::istream_iterator<std::string>(lines), {}), 20);
  ::unlink(turns.c_str());
}

// The command line is longer than what a pipe takes.
TEST_F(lcrun_hosts_test, hosts__one_that_does_not_connect_holds_nobody_up) {
  const std::string word(100'000, 'x');
  launch run(on_hosts(2, {"/bin/sh", "-c", "echo $# ready; sleep 100", "sh", word, word},
                      "deaf,127.0.0.1"));
  ASSERT_TRUE(run.wait_for("2 ready")) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 128 + SIGINT) << run.err();
}

TEST_F(lcrun_hosts_test, hosts__an_lcrun_inside_a_rank_starts_a_job_of_its_own) {
  launch run(on_hosts(
      2, {"/bin/sh", "-c", std::string(LCI_LCRUN) + " -n 2 " + PROBE + " exchange 1 say inner"}));
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "inner 0/2 lcrun"), 2u) << run.out();
  EXPECT_EQ(launch::count(run.out(), "inner 1/2 lcrun"), 2u) << run.out();
}

TEST_F(lcrun_hosts_test, hosts__nothing_survives_kill_9_of_lcrun) {
  launch run(on_hosts(4, {PROBE, "own_group", "exchange", "1", "say", "\nready", "hang"}));
  ASSERT_TRUE(run.wait_for("ready", 4));
  run.signal(SIGKILL);
  EXPECT_EQ(run.finish(), 128 + SIGKILL);
  std::vector<pid_t> pids;
  for (const std::string& line : lines_of(run.out())) {
    if (line.find("ready") == std::string::npos) {
      for (const pid_t pid : pids_in(line)) pids.push_back(pid);
    }
  }
  EXPECT_EQ(pids.size(), 8u) << run.out();
  EXPECT_TRUE(all_gone(pids));
}

TEST_F(lcrun_hosts_test, hosts__signals_and_timeout_reach_all_ranks) {
  launch run(
      on_hosts(4, {"/bin/sh", "-c",
                   "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.05; done"}));
  ASSERT_TRUE(run.wait_for("ready", 4));
  run.signal(SIGINT);
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "got it"), 4u);
  launch slow(on_hosts(2, {"--timeout", "0.3", "sleep", "100"}));
  EXPECT_EQ(slow.finish(), 124) << slow.err();
  // Each host has said so when its page was whole, which is when the job ends.
  EXPECT_EQ(launch::count(slow.err(), "lcrun: who waits for what"), 2u) << slow.err();
  EXPECT_EQ(launch::count(slow.err(), "does not say who waits"), 0u) << slow.err();
  EXPECT_EQ(slow.out(), "");
  for (const std::string& line : lines_of(slow.err()))
    EXPECT_TRUE(line.starts_with("lcrun: ")) << "a line that is not for the user: " << line;
}

// SIGUSR1 is the user's to send, also where it would ask for the page.
TEST_F(lcrun_hosts_test, timeout__sends_no_signal_to_who_handles_that_of_the_page) {
  const std::vector<std::string> rank{
      "/bin/sh", "-c", "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.05; done"};
  std::vector<std::string> words{"--timeout", "2"};
  words.insert(words.end(), rank.begin(), rank.end());
  launch over(on_hosts(2, words));
  EXPECT_EQ(over.finish(), 124) << over.err();
  EXPECT_EQ(launch::count(over.err(), "lcrun: who waits for what"), 2u) << over.err();
  EXPECT_EQ(launch::count(over.out(), "saved"), 0u);
  launch asked(on_hosts(2, rank));
  ASSERT_TRUE(asked.wait_for("ready", 2));
  asked.signal(SIGUSR1);
  EXPECT_EQ(asked.finish(), 0) << asked.err();
  EXPECT_EQ(launch::count(asked.out(), "saved"), 2u);
}

// The only limit on a host that does not answer: it takes the 10 s that are documented.
TEST_F(lcrun_hosts_test, timeout__names_a_host_that_prints_no_page) {
  launch run(on_hosts(2, {"--timeout", "0.3", "sleep", "100"}, "127.0.0.1,mute"));
  EXPECT_EQ(run.finish(), 124) << run.err();
  EXPECT_EQ(launch::count(run.err(), "host mute does not say who waits for what"), 1u) << run.err();
  EXPECT_EQ(launch::count(run.err(), "host 127.0.0.1 does not say"), 0u) << run.err();
}

TEST_F(lcrun_hosts_test, hosts__variables_of_ours_and_of_the_user_travel) {
  vars_.set("LCI_TEST_TRAVELS", "far; \"away\"");
  vars_.set("NOT_OURS", "stays");
  vars_.set("LCI_SSH", ssh_);
  launch run({"-n", "2", "--hosts", "127.0.0.1,127.0.0.2", "--env", "MINE=a b", "/bin/sh", "-c",
              "echo \"$LCI_TEST_TRAVELS|$MINE|$(pwd)\""});
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(
      launch::count(run.out(), "far; \"away\"|a b|" + std::filesystem::current_path().string()), 2u)
      << run.out();
}

TEST_F(lcrun_hosts_test, usage__what_is_wrong_with_hosts_is_named) {
  const struct {
    std::vector<std::string> words;
    const char* text;
  } wrong[] = {{{"-n", "4", "--hosts", "a:1,b:2", "true"}, "allows 3 ranks, -n wants 4"},
               {{"-n", "1", "--hosts", ",", "true"}, "--hosts is empty"},
               {{"-n", "1", "--hosts", "a:x", "true"}, "ranks on a"},
               {{"-n", "1", "--hosts", "-oProxyCommand=x", "true"}, "expected host names"},
               {{"-n", "1", "--ssh", "x", "true"}, "need --hosts"},
               {{"-n", "1", "--port", "70000", "true"}, "--port"},
               {{"-n", "1", "--bind", "socket", "true"}, "expected core or none"},
               {{"-n", "1", "--env", "NAME", "true"}, "expected NAME=VALUE"}};
  for (const auto& w : wrong) {
    launch run(w.words);
    EXPECT_EQ(run.finish(), 1) << w.text;
    EXPECT_NE(run.err().find(w.text), std::string::npos) << run.err();
  }
  launch lost({"--agent"}, "12\nhello");
  EXPECT_EQ(lost.finish(), 1);
  EXPECT_NE(lost.err().find("--agent"), std::string::npos) << lost.err();
}

TEST_F(lcrun_hosts_test, env__is_set_for_all_ranks) {
  vars_.set("CHANGED", "before");
  launch run({"-n", "3", "--env", "CHANGED=after", "--env", "NEW=x=y", "/bin/sh", "-c",
              "echo $CHANGED $NEW"});
  EXPECT_EQ(run.finish(), 0) << run.err();
  EXPECT_EQ(launch::count(run.out(), "after x=y\n"), 3u) << run.out();
}

// The processors of the ranks, as each says them.
std::vector<std::string> processors_of(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string& line : lines_of(text)) out.push_back(line.substr(line.find(':') + 1));
  return out;
}

TEST_F(lcrun_hosts_test, bind__each_rank_has_cores_of_its_own) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const std::vector<std::string> show{"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"};
  const auto run = [&](int n, const char* how) {
    std::vector<std::string> words{"-n", std::to_string(n), "--bind", how};
    words.insert(words.end(), show.begin(), show.end());
    launch started(words);
    EXPECT_EQ(started.finish(), 0) << started.err();
    return processors_of(started.out());
  };
  const auto none = run(2, "none");
  EXPECT_EQ(none[0], none[1]);
  const auto one = run(1, "core");
  EXPECT_EQ(one[0], none[0]);  // all cores are dealt out
  const auto two = run(2, "core");
  if (CPU_COUNT(&allowed) >= 2 && two[0] == two[1])
    GTEST_SKIP() << "this machine has one core with several hardware threads";
  if (CPU_COUNT(&allowed) >= 2) {
    EXPECT_NE(two[0], two[1]);
  }
  EXPECT_EQ(run(2 * CPU_COUNT(&allowed) + 1, "core").size(),
            static_cast<std::size_t>(2 * CPU_COUNT(&allowed) + 1));
}

}  // namespace
}  // namespace lcrun_tests
