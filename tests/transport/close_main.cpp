// close() with operations under way, whatever the peer does: they end with a typed error, and no
// wait is ended by a clock alone. Where one would be, the library says so in its log, which is read
// here.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/transport/both_ends.hpp"

extern char** environ;

namespace transport_test {
namespace {

constexpr std::size_t SIZE = std::size_t{64} << 20;  // more than sockets and lanes hold
constexpr const char* DEVICE_GAVE_UP = "operations that did not complete";
constexpr const char* PEER_DOES_NOT_READ = "does not read";

int log_fd = -1;

std::string read_log() {
  std::string text(static_cast<std::size_t>(::lseek(log_fd, 0, SEEK_END)), '\0');
  const ssize_t n = ::pread(log_fd, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

int count_in_log(const std::string& words) {
  const std::string text = read_log();
  int n = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
    ++n;
  return n;
}

bool is_by_network() {
  const char* const name = std::getenv("LCI_TEST_PROVIDER");
  return name != nullptr && std::strcmp(name, "ofi") == 0;
}

bool is_loaded(const char* library) {
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

// Loading the library of a network takes long on a busy machine: a set-up has only so much time.
TEST(set_up, library_of_the_network_is_there_before_it) {
  if (!is_by_network()) GTEST_SKIP() << "shared memory needs none";
  ASSERT_FALSE(is_loaded("libfabric")) << "this test comes first";
  lci::transport one(usual());
  one.bind();
  EXPECT_TRUE(is_loaded("libfabric"));
}

class closing : public testing::Test {
 protected:
  void SetUp() override {
    gave_up_ = count_in_log(DEVICE_GAVE_UP);
    unread_ = count_in_log(PEER_DOES_NOT_READ);
  }
  // How often a wait was ended by a clock.
  int given_up() const { return count_in_log(DEVICE_GAVE_UP) - gave_up_; }
  int unread() const { return count_in_log(PEER_DOES_NOT_READ) - unread_; }
  // One small write has gone, so the networks have met, and keys are known.
  void meet(both_ends& e, std::uint64_t tag) {
    e.connect();
    const lci::transfer first = e.a.write(here_.view(0, 8), there_.remote().slice(0, 8), true, tag);
    ASSERT_TRUE(e.run_both(first));
    EXPECT_EQ(e.note_of(e.b).tag, tag);
    const lci::transfer back = e.a.read(here_.view(0, 8), there_.remote().slice(0, 8));
    ASSERT_TRUE(e.run_both(back));
  }
  void expect_no_clock() const {
    EXPECT_EQ(given_up(), 0);
    EXPECT_EQ(unread(), 0);
  }
  // Closes `a` while that is under way and `b` does not poll.
  void close_amid(both_ends& e, const lci::transfer& one) {
    move(e.a);
    ASSERT_FALSE(one.is_done());
    e.a.close();
    expect_lost(one);
    expect_no_clock();
  }
  // Only this end makes progress, so that nothing of that size gets through.
  static void move(lci::transport& one) {
    for (int i = 0; i < 100; ++i) one.process();
  }
  static void expect_lost(const lci::transfer& one) {
    ASSERT_TRUE(one.is_done());
    EXPECT_THROW(one.get(), lci::peer_failure_error);
    EXPECT_FALSE(one.is_in_use());
  }
  // The other end hears of it, and not as of a failure.
  static void expect_orderly(both_ends& e) {
    const lci::transport::peer of_b = e.b.peers().front();
    ASSERT_TRUE(run({&e.b}, [&] { return e.b.peers().empty(); }));
    EXPECT_EQ(of_b.why_closed(), "the peer has closed the connection");
  }

  std::vector<char> mine_ = std::vector<char>(SIZE, 'm'), theirs_ = std::vector<char>(SIZE, 't');
  lci::memory here_{mine_.data(), SIZE}, there_{theirs_.data(), SIZE};
  int gave_up_ = 0, unread_ = 0;
};

TEST_F(closing, write_under_way__peer_does_not_poll) {
  both_ends e;
  meet(e, 1);
  const lci::transfer write = e.a.write(here_.view(), there_.remote(), true, 2);
  close_amid(e, write);
  expect_orderly(e);
}

TEST_F(closing, read_under_way__peer_does_not_poll) {
  both_ends e;
  meet(e, 1);
  const lci::transfer read = e.a.read(here_.view(), there_.remote());
  close_amid(e, read);
  expect_orderly(e);
}

TEST_F(closing, writes_both_ways__the_second_one_has_nobody_to_wait_for) {
  both_ends e;
  meet(e, 1);
  std::vector<char> more(SIZE);
  lci::memory target(more.data(), SIZE);
  const lci::transfer write = e.a.write(here_.view(), there_.remote());
  const lci::transfer back = e.b.write(there_.view(), target.remote());
  ASSERT_TRUE(run({&e.a, &e.b}, [&] { return back.is_in_use() || back.is_done(); }));
  move(e.b);
  e.a.close();
  e.b.close();
  for (const lci::transfer& one : {write, back}) {
    ASSERT_TRUE(one.is_done());
    EXPECT_FALSE(one.is_in_use());
  }
  expect_no_clock();
}

TEST_F(closing, before_the_networks_have_met) {
  both_ends e;
  e.connect();
  const lci::transfer write = e.a.write(here_.view(), there_.remote());
  move(e.a);
  e.a.close();
  expect_lost(write);
  expect_no_clock();
  expect_orderly(e);
}

// What was told to be done comes, whatever else was under way. Such a tag goes as a message.
TEST_F(closing, notifications_that_were_done_come) {
  both_ends e;
  meet(e, 1);
  constexpr std::uint64_t FIRST = 1 << 20;
  constexpr int NOTES = 8;
  std::vector<lci::transfer> small;
  for (int i = 0; i < NOTES; ++i)
    small.push_back(e.a.write(here_.view(0, 8), there_.remote().slice(0, 8), true,
                              FIRST + static_cast<std::uint64_t>(i)));
  ASSERT_TRUE(e.run_both(small.back()));
  const lci::transfer write = e.a.write(here_.view(), there_.remote());
  close_amid(e, write);
  std::set<std::uint64_t> tags;
  lci::notification note;
  // Throws once nothing is left to take and the peer is gone.
  EXPECT_THROW(run({&e.b},
                   [&] {
                     while (e.b.wait_for_write(0, &note)) tags.insert(note.tag);
                     return false;
                   }),
               lci::peer_failure_error);
  EXPECT_EQ(tags.size(), static_cast<std::size_t>(NOTES));
}

// Its own write fails as the connections are cut: that is not taken for a death.
TEST_F(closing, peer_writes_too__the_end_is_orderly) {
  for (int round = 0; round < 8; ++round) {
    both_ends e;
    meet(e, 1);
    const lci::transport::peer of_b = e.b.peers().front();
    const lci::transfer write = e.a.write(here_.view(), there_.remote());
    const lci::transfer back = e.b.write(there_.view(), here_.remote());
    ASSERT_TRUE(run({&e.a, &e.b}, [&] { return back.is_in_use() || back.is_done(); }));
    e.a.close();
    EXPECT_TRUE(write.is_done());
    EXPECT_THROW(e.b.wait_for_write(), lci::peer_failure_error);
    EXPECT_TRUE(back.is_done());
    EXPECT_EQ(of_b.why_closed(), "the peer has closed the connection");
  }
  EXPECT_EQ(given_up(), 0);
}

// The process of the peer, which says where its memory is and then does nothing.
int be_stopped(const char* url) {
  std::vector<char> bytes(SIZE);
  lci::memory memory(bytes.data(), SIZE);
  lci::transport one(usual());
  one.connect(url);
  one.wait_connected();
  const std::string name = memory.remote().to_string();
  if (::write(STDOUT_FILENO, name.c_str(), name.size() + 1) < 0) return 1;
  lci::notification note;
  one.wait_for_write(-1, &note);
  ::raise(SIGSTOP);
  for (;;) ::pause();
}

// Stopped: alive, and nobody looks. Or it is gone and this side has not heard so.
TEST_F(closing, peer_is_stopped_or_gone) {
  for (const bool is_gone : {false, true}) {
    lci::transport one(usual());
    const std::string url = one.bind();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const char* const args[] = {"transport_close", url.c_str(), nullptr};
    pid_t child = -1;
    ASSERT_EQ(
        posix_spawn(&child, "/proc/self/exe", &actions, nullptr, const_cast<char**>(args), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    std::string name;
    ASSERT_TRUE(run({&one}, [&] {
      if (!one.connected()) return false;
      for (char c = 0; ::read(ends[0], &c, 1) == 1 && c != 0;) name += c;
      return true;
    }));
    ::close(ends[0]);
    const lci::remote_buffer there = lci::remote_buffer::parse(name);
    const lci::transfer first = one.write(here_.view(0, 8), there.slice(0, 8), true, 3);
    ASSERT_TRUE(run({&one}, [&] { return first.is_done(); }));
    first.get();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    // By the kernel's copy it needs no help.
    const lci::transfer write = one.write(here_.view(), there);
    move(one);
    if (is_gone) {
      ::kill(child, SIGKILL);
      ASSERT_EQ(::waitpid(child, &status, 0), child);
    }
    one.close();
    ASSERT_TRUE(write.is_done());
    EXPECT_FALSE(write.is_in_use());
    if (!is_gone) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    }
    expect_no_clock();
  }
}

}  // namespace
}  // namespace transport_test

int main(int argc, char** argv) {
  if (argc == 2 && std::strncmp(argv[1], "lci", 3) == 0) return transport_test::be_stopped(argv[1]);
  // One log for all tests, read as it grows.
  transport_test::log_fd = ::memfd_create("log", 0);
  const std::string path =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(transport_test::log_fd);
  ::setenv("LCI_LOG_LEVEL", "info", 1);
  ::setenv("LCI_LOG_OUTFILE", path.c_str(), 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
