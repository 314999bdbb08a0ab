#include "tests/support/process_harness.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "tests/support/must_fire.hpp"

namespace lci::test {
namespace {

TEST(process_harness, children__know_each_other_and_meet) {
  processes all(3, [](child_process& me) {
    me.publish("address", "of " + std::to_string(me.rank()));
    me.barrier("published", [] { sched_yield(); });
    for (int rank = 0; rank < me.size(); ++rank) {
      if (me.lookup(rank, "address") != "of " + std::to_string(rank)) return 2;
    }
    return me.lookup(0, "nothing of that name").empty() ? 0 : 3;
  });
  all.expect_ends();
}

TEST(process_harness, ends__are_told_apart) {
  processes all(4, [](child_process& me) {
    if (me.rank() == 0) return 0;
    if (me.rank() == 1) return 7;
    if (me.rank() == 2) throw std::runtime_error("on purpose: belongs to the self-check");
    me.reach("waiting to be killed");
    for (;;) pause();
  });
  EXPECT_TRUE(all.wait_for(3, "waiting to be killed"));
  all.kill(3);
  all.expect_ends({ENDED_WELL, {false, 7}, {false, 1}, KILLED});
}

TEST(process_harness, expect_ends__fires_on_another_end) {
  processes all(1, [](child_process&) { return 5; });
  EXPECT_TRUE(must_fire([&] { all.expect_ends(); }, "exited with 5"));
}

TEST(process_harness, wait_for__fires_when_the_child_ends_without) {
  processes all(1, [](child_process&) { return 0; });
  EXPECT_TRUE(must_fire([&] { all.wait_for(0, "never"); }, "without reaching never"));
}

TEST(process_harness, watchdog__ends_a_child_that_hangs) {
  processes all(
      1,
      [](child_process& me) -> int {
        me.reach("so far");
        for (;;) pause();
      },
      1);
  EXPECT_EQ(all.wait(0), (process_end{true, SIGABRT}));
}

TEST(process_harness, abstract_sockets__are_found) {
  // The machine has one such name, however many of these tests it runs.
  const std::string name = "selfcheck-socket-" + std::to_string(getpid());
  EXPECT_TRUE(abstract_sockets(name).empty());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(abstract_sockets(name).size(), 1u);
  EXPECT_EQ(own_abstract_sockets(), abstract_sockets(name));
  close(fd);
  EXPECT_TRUE(abstract_sockets(name).empty());
}

}  // namespace
}  // namespace lci::test
