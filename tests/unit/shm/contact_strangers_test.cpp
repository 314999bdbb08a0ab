// Processes of other users that call, and what else is said only a few times.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

// For want of kernel memory no more sockets can be watched.
bool is_watching_refused = false;

}  // namespace
}  // namespace lci::shm

// The library's calls come here.
extern "C" int epoll_ctl(int set, int what, int fd, epoll_event* event) noexcept {
  if (lci::shm::is_watching_refused && what == EPOLL_CTL_ADD) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_epoll_ctl, set, what, fd, event));
}

namespace lci::shm {

using test::pair;

namespace {

std::ptrdiff_t lines_in(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// Calls of another user that wait in the queue of a socket before anybody looks; false: not made.
bool call_as_a_stranger(const fabric_id& there, std::uint64_t times) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(1);
    for (std::uint64_t i = 0; i < times; ++i) {
      lci::base::descriptor each;
      if (connect_to(there, each) != 0) _exit(2);
    }
    _exit(0);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// Whoever calls without end is not let in, costs a few lines, and holds up no poll for long.
TEST(contact, strangers__are_counted_and_few_are_said) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  constexpr std::uint64_t CALLS = 300;
  pair p;
  p.meet();
  const fabric_id there = address::parse(p.all[1])->id;
  ASSERT_TRUE(call_as_a_stranger(there, CALLS));
  testing::internal::CaptureStderr();
  std::uint64_t most = 0, before = 0;
  p.until([&] {
    const std::uint64_t now = p.b.net->connections().refused();
    most = std::max(most, now - before);
    before = now;
    return now == CALLS;
  });
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(most, 32u) << "of one round of polls";
  EXPECT_LE(lines_in(lines), 11) << lines;
  EXPECT_NE(lines.find("refused a process of user 65534"), std::string::npos);
  EXPECT_NE(lines.find("more refusals will not be shown"), std::string::npos);
  EXPECT_EQ(p.a.say(1, "still friends"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
}

// Strangers that came first do not keep the farewell from a rank whose call waits behind theirs.
TEST(contact, leave__is_told_to_a_caller_behind_strangers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  std::uint64_t most = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> most;
  pair p;
  // Up to the last place in the queue.
  const std::uint64_t calls = std::min<std::uint64_t>(most, BACKLOG) - 1;
  ASSERT_TRUE(call_as_a_stranger(address::parse(p.all[1])->id, calls));
  // Not there yet, but called.
  EXPECT_NE(p.a.say(1, "is anybody there"), errorcode_t::fatal);
  testing::internal::CaptureStderr();
  p.b.net->leave();
  p.b.close();
  testing::internal::GetCapturedStderr();
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_TRUE(p.a.seen.gone[0].orderly) << p.a.seen.gone[0].reason;
}

// What every post would say again.
TEST(contact, that_fails_at_each_post__is_said_a_few_times) {
  pair p;
  is_watching_refused = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(p.a.say(1, "x"), errorcode_t::retry_nomem);
  const std::string lines = testing::internal::GetCapturedStderr();
  is_watching_refused = false;
  EXPECT_EQ(lines_in(lines), 11) << lines;
  EXPECT_NE(lines.find("no contact to rank 1 for now"), std::string::npos);
  EXPECT_NE(lines.find("more failures of contact will not be shown"), std::string::npos);
  EXPECT_EQ(p.a.net->connections().refused(), 0u) << "nobody has called";
  p.meet();
}

// Nor what every look meets: somebody calls again and again, and cannot be watched.
TEST(contact, a_caller_that_cannot_be_watched__is_said_a_few_times) {
  pair p;
  p.meet();
  const fabric_id there = address::parse(p.all[1])->id;
  is_watching_refused = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 50; ++i) {
    lci::base::descriptor caller;
    ASSERT_EQ(connect_to(there, caller), 0);
    const std::uint64_t looks = p.b.net->connections().looks();
    p.until([&] { return p.b.net->connections().looks() != looks; });
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  is_watching_refused = false;
  EXPECT_EQ(lines_in(lines), 11) << lines;
  EXPECT_NE(lines.find("looking at the sockets"), std::string::npos);
  EXPECT_EQ(p.a.say(1, "still friends"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
}

// No memory for a lane, at each post.
TEST(contact, a_lane_that_cannot_be_made__is_said_a_few_times) {
  pair p;
  p.meet();
  for (std::size_t size = p.b.arena.reserved(); size >= 64; size /= 2) {
    try {
      for (;;) p.b.arena.allocate(size);
    } catch (const std::exception&) {
    }
  }
  testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(p.b.say(0, "x"), errorcode_t::retry_nomem);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_in(lines), 11) << lines;
  EXPECT_NE(lines.find("no lane to rank 0 for now"), std::string::npos);
}

}  // namespace

}  // namespace lci::shm
