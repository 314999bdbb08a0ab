// Processes of other users that call.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {

using test::pair;

namespace {

// Calls of another user that wait in the queue of a socket before anybody looks; false: not made.
bool call_as_a_stranger(const fabric_id& there, std::uint64_t times) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(1);
    for (std::uint64_t i = 0; i < times; ++i) {
      fd_handle each;
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
    const std::uint64_t now = p.b.net->refused();
    most = std::max(most, now - before);
    before = now;
    return now == CALLS;
  });
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(most, 32u) << "of one round of polls";
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 11) << lines;
  EXPECT_NE(lines.find("refused a process of user 65534"), std::string::npos);
  EXPECT_NE(lines.find("more refusals will not be shown"), std::string::npos);
  EXPECT_EQ(p.a.say(1, "still friends"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
}

// Strangers that came first do not keep the farewell from a rank whose call waits behind theirs.
TEST(contact, leave__is_told_to_a_caller_behind_strangers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  pair p;
  ASSERT_TRUE(call_as_a_stranger(address::parse(p.all[1])->id, 100));
  // Not there yet, but called.
  EXPECT_NE(p.a.say(1, "is anybody there"), errorcode_t::fatal);
  testing::internal::CaptureStderr();
  p.b.net->leave();
  p.b.close();
  testing::internal::GetCapturedStderr();
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_TRUE(p.a.seen.gone[0].orderly) << p.a.seen.gone[0].reason;
}

}  // namespace

}  // namespace lci::shm
