#include "lci/base/log.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace lci::base::log {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class log_test : public testing::Test {
 protected:
  log_test() {
    std::string pattern = testing::TempDir() + "lci_log_XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~log_test() override {
    std::filesystem::remove_all(dir_);
    set_rank(-1);
  }
  context_options options(const std::string& file = "log") const {
    context_options o;
    o.name = "ctx";
    o.level_names = {"quiet", "normal", "loud"};
    o.threshold = 1;
    o.outfile = dir_ + "/" + file;
    return o;
  }
  std::string text(const std::string& file = "log") const { return read_all(dir_ + "/" + file); }
  std::string dir_;
};

TEST_F(log_test, print__prefix_has_rank_host_pid_tid_seconds_and_names) {
  set_rank(7);
  context c(options());
  c.print(1, "tag", nullptr, "value %d of %s", 3, "x");
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string start = std::string("7:") + host + ":" + std::to_string(getpid()) + ":";
  const std::string line = text();
  ASSERT_TRUE(line.starts_with(start)) << line;
  long tid = 0, seconds = 0, microseconds = 0;
  char rest[64] = "";
  ASSERT_EQ(std::sscanf(line.c_str() + start.size(), "%ld:%ld.%6ld%63[^\n]", &tid, &seconds,
                        &microseconds, rest),
            4)
      << line;
  EXPECT_EQ(tid, getpid());  // the main thread
  EXPECT_STREQ(rest, "<ctx:normal:tag> value 3 of x");
  EXPECT_EQ(line.back(), '\n');
}

TEST_F(log_test, print__place_is_part_of_the_prefix_when_given) {
  context c(options());
  c.print(0, "tag", "file.c:f:12", "x");
  EXPECT_NE(text().find(":file.c:f:12<ctx:quiet:tag> x\n"), std::string::npos) << text();
}

TEST_F(log_test, enabled__threshold_lets_itself_and_less_detail_through) {
  context c(options());
  for (int level = 0; level < 3; ++level) c.print(level, "t", nullptr, "level %d", level);
  EXPECT_NE(text().find("level 0"), std::string::npos);
  EXPECT_NE(text().find("level 1"), std::string::npos);
  EXPECT_EQ(text().find("level 2"), std::string::npos);
  c.set_threshold(2);
  EXPECT_TRUE(c.enabled(2));
  c.print(2, "t", nullptr, "level %d", 2);
  EXPECT_NE(text().find("level 2"), std::string::npos);
}

TEST_F(log_test, print__whitelist_and_blacklist_match_inside_tags) {
  auto o = options();
  o.whitelist = "net,boot";
  o.blacklist = "net-noisy";
  context c(o);
  for (const char* tag : {"net", "net-shm", "net-noisy", "boot", "other"})
    c.print(0, tag, nullptr, "line");
  EXPECT_NE(text().find(":net>"), std::string::npos);
  EXPECT_NE(text().find(":net-shm>"), std::string::npos);
  EXPECT_NE(text().find(":boot>"), std::string::npos);
  EXPECT_EQ(text().find(":net-noisy>"), std::string::npos);
  EXPECT_EQ(text().find(":other>"), std::string::npos);
}

TEST_F(log_test, print__message_that_ends_its_line_gets_no_second_end) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{900}, std::size_t{1023}}) {
    const std::string file = "ended" + std::to_string(size), body(size, 'z');
    context c(options(file));
    c.print(0, "t", nullptr, "%s\n", body.c_str());
    EXPECT_TRUE(text(file).ends_with("<ctx:quiet:t> " + body + "\n")) << size;
  }
}

TEST_F(log_test, print__long_lines_arrive_whole) {
  context c(options());
  const std::string body(5000, 'y');
  c.print(0, "t", nullptr, "%s!", body.c_str());
  EXPECT_NE(text().find("<ctx:quiet:t> " + body + "!\n"), std::string::npos);
  // Around the size of the line on the stack every length has to come through.
  for (std::size_t n = 900; n < 1030; ++n) {
    auto o = options("len" + std::to_string(n));
    context each(o);
    each.print(0, "t", nullptr, "%s", std::string(n, 'z').c_str());
    const std::string got = text("len" + std::to_string(n));
    ASSERT_TRUE(got.ends_with("> " + std::string(n, 'z') + "\n")) << n;
  }
}

TEST_F(log_test, outfile__percent_becomes_the_rank) {
  set_rank(3);
  context c(options("log.%"));
  c.print(0, "t", nullptr, "x");
  EXPECT_NE(text("log.3").find("x\n"), std::string::npos);
}

TEST_F(log_test, outfile__percent_waits_for_the_rank) {
  context c(options("log.%"));
  testing::internal::CaptureStderr();
  c.print(0, "t", nullptr, "early");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("early"), std::string::npos);
  set_rank(1);
  c.print(0, "t", nullptr, "late");
  EXPECT_NE(text("log.1").find("late"), std::string::npos);
  EXPECT_EQ(text("log.1").find("early"), std::string::npos);
}

TEST_F(log_test, outfile__unopenable_file_is_named_and_lines_go_to_stderr) {
  auto o = options();
  o.outfile = dir_ + "/no/such/dir";
  context c(o);
  testing::internal::CaptureStderr();
  c.print(0, "t", nullptr, "still here");
  const std::string err = testing::internal::GetCapturedStderr();
  EXPECT_NE(err.find(o.outfile), std::string::npos) << err;
  EXPECT_NE(err.find("No such file"), std::string::npos) << err;
  EXPECT_NE(err.find("still here"), std::string::npos) << err;
}

TEST_F(log_test, print__keeps_errno) {
  context c(options());
  errno = ENOMEM;
  c.print(0, "t", nullptr, "x");
  EXPECT_EQ(errno, ENOMEM);
}

// One write(2) per line: with threads and processes on one file every line is whole, and none is
// missing.
TEST_F(log_test, print__threads_and_processes_do_not_mix) {
  constexpr int PROCESSES = 3, THREADS = 3, LINES = 300;
  for (int p = 0; p < PROCESSES; ++p) {
    if (fork() != 0) continue;
    {
      context c(options());
      std::vector<std::thread> threads;
      for (int t = 0; t < THREADS; ++t) {
        threads.emplace_back([&c, p, t] {
          for (int i = 0; i < LINES; ++i) {
            c.print(0, "t", nullptr, "begin %d %d %d %s end", p, t, i,
                    std::string(static_cast<std::size_t>(i), 'a').c_str());
          }
        });
      }
      for (std::thread& t : threads) t.join();
    }
    _exit(0);
  }
  for (int p = 0; p < PROCESSES; ++p) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  std::istringstream in(text());
  std::set<std::string> seen;
  for (std::string line; std::getline(in, line);) {
    const std::size_t body = line.find("<ctx:quiet:t> begin ");
    ASSERT_NE(body, std::string::npos) << line;
    int p = 0, t = 0, i = 0;
    ASSERT_EQ(std::sscanf(line.c_str() + body, "<ctx:quiet:t> begin %d %d %d", &p, &t, &i), 3);
    const std::string key = std::to_string(p) + " " + std::to_string(t) + " " + std::to_string(i);
    EXPECT_EQ(line.substr(body), "<ctx:quiet:t> begin " + key + " " +
                                     std::string(static_cast<std::size_t>(i), 'a') + " end");
    EXPECT_TRUE(seen.insert(key).second) << line;
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(PROCESSES * THREADS * LINES));
}

TEST_F(log_test, find_level__any_case_or_nothing) {
  EXPECT_EQ(find_level(level_names(), "warn"), 1);
  EXPECT_EQ(find_level(level_names(), "TRACE"), 5);
  EXPECT_EQ(find_level(level_names(), "warning"), -1);
  EXPECT_EQ(find_level(level_names(), ""), -1);
}

// The global context reads its variables once, so each case needs a fresh process: this program,
// told to run the one test that logs.
TEST(log_child, DISABLED_logs_at_all_levels) {
  error("one", "e");
  warn("two", "w");
  status("one", "s");
  info("two", "i");
  debug("one", "d");
  trace("two", "t");
}

std::string stderr_of_child(const std::vector<std::pair<std::string, std::string>>& vars) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    for (const auto& [name, value] : vars) setenv(name.c_str(), value.c_str(), 1);
    execl("/proc/self/exe", "log_child", "--gtest_filter=log_child.*",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(1);
  }
  close(ends[1]);
  std::string out;
  char bytes[4096];
  for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
    out.append(bytes, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  return out;
}

TEST_F(log_test, global__default_threshold_is_warn) {
  const std::string out = stderr_of_child({});
  EXPECT_NE(out.find("<lci:error:one> e\n"), std::string::npos) << out;
  EXPECT_NE(out.find("<lci:warn:two> w\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("<lci:status:"), std::string::npos) << out;
}

TEST_F(log_test, global__reads_its_variables) {
  const std::string out =
      stderr_of_child({{"LCI_LOG_LEVEL", "Trace"}, {"LCI_LOG_BLACKLIST", "one"}});
  EXPECT_NE(out.find("<lci:trace:two> t\n"), std::string::npos) << out;
  EXPECT_EQ(out.find(":one>"), std::string::npos) << out;
}

TEST_F(log_test, global__unknown_level_is_said_and_warn_is_used) {
  const std::string out = stderr_of_child({{"LCI_LOG_LEVEL", "verbose"}});
  EXPECT_NE(out.find("LCI_LOG_LEVEL is \"verbose\""), std::string::npos) << out;
  EXPECT_NE(out.find("<lci:warn:two> w\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("<lci:status:"), std::string::npos) << out;
}

}  // namespace
}  // namespace lci::base::log
