#include "backends/ofi/lifeline.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <vector>

#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/ofi/lifeline_socket.hpp"

namespace lci::ofi {
namespace {

// A fabric whose endpoints have names of that kind.
fabric_address some_fabric(std::uint64_t id, bool is_tcp) {
  fabric_address out;
  out.id = id;
  if (is_tcp) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.name.size = sizeof(name);
    std::memcpy(out.name.bytes, &name, sizeof(name));
  } else {
    out.name.size = 4;
    std::memcpy(out.name.bytes, "shm", 4);
  }
  return out;
}

std::vector<lifeline::news> look(lifeline& at) {
  std::vector<lifeline::news> out;
  for (int i = 0; i < 20000 && out.empty(); ++i) {
    at.look([&](int rank, lifeline::news what) {
      EXPECT_EQ(rank, 1);
      out.push_back(what);
    });
    usleep(500);
  }
  return out;
}

std::uint64_t next_id = static_cast<std::uint64_t>(getpid()) << 32;

class lifeline_test : public testing::TestWithParam<bool> {};

}  // namespace

TEST_P(lifeline_test, look__says_once_that_the_other_has_ended) {
  fabric_address here = some_fabric(++next_id, GetParam());
  fabric_address there = some_fabric(++next_id, GetParam());
  lifeline mine(here, 2);
  auto other = std::make_unique<lifeline>(there, 2);
  EXPECT_EQ(there.lifeline != 0, GetParam());
  ASSERT_TRUE(mine.watch(1, there));
  for (int i = 0; i < 20; ++i)
    mine.look([](int, lifeline::news) { ADD_FAILURE() << "it is alive"; });
  other.reset();
  EXPECT_EQ(look(mine), std::vector{lifeline::news::ended});
  mine.look([](int, lifeline::news) { ADD_FAILURE() << "said twice"; });
}

// A child of the other lives on.
TEST_P(lifeline_test, look__a_process_that_was_forked_does_not_keep_it_alive) {
  fabric_address here = some_fabric(++next_id, GetParam());
  fabric_address there = some_fabric(++next_id, GetParam());
  lifeline mine(here, 2);
  auto other = std::make_unique<lifeline>(there, 2);
  ASSERT_TRUE(mine.watch(1, there));
  for (int i = 0; i < 20; ++i)
    mine.look([](int, lifeline::news) { ADD_FAILURE() << "it is alive"; });
  const pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  other.reset();
  EXPECT_EQ(look(mine), std::vector{lifeline::news::ended});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_P(lifeline_test, look__ended_before_the_first_look) {
  fabric_address here = some_fabric(++next_id, GetParam());
  fabric_address there = some_fabric(++next_id, GetParam());
  lifeline mine(here, 2);
  auto other = std::make_unique<lifeline>(there, 2);
  ASSERT_TRUE(mine.watch(1, there));
  usleep(20000);  // the kernel connects by itself
  other.reset();
  EXPECT_EQ(look(mine), std::vector{lifeline::news::ended});
}

TEST_P(lifeline_test, watch__nobody_is_there) {
  fabric_address here = some_fabric(++next_id, GetParam());
  fabric_address there = some_fabric(++next_id, GetParam());
  lifeline mine(here, 2);
  { const lifeline gone(there, 2); }
  ASSERT_TRUE(mine.watch(1, there));
  const auto said = look(mine);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0] == lifeline::news::refused);
}

INSTANTIATE_TEST_SUITE_P(kinds, lifeline_test, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "tcp" : "local"; });

// Until the kernel has made the connection, and it is known here.
base::descriptor connected(lifeline& from, const lifeline_socket& to) {
  base::descriptor out = to.take();
  for (int i = 0; i < 2000 && !out; ++i, out = to.take()) usleep(500);
  from.look([](int, lifeline::news) { ADD_FAILURE() << "it is alive"; });
  return out;
}

// What was up and does not answer is told from what ended, also when it is watched again.
TEST(lifeline, look__a_host_that_is_silent) {
  test::scoped_env environment;
  environment.set("LCI_OFI_TIMEOUT", "3");
  fabric_address here = some_fabric(++next_id, true);
  fabric_address there = some_fabric(++next_id, true);
  lifeline mine(here, 2);
  auto other = std::make_unique<lifeline>(there, 2);
  const lifeline_socket door(there);
  EXPECT_EQ(mine.silence_ms(), 1000u);

  ASSERT_TRUE(mine.watch(1, there));
  base::descriptor line = connected(mine, door);
  ASSERT_TRUE(line);
  deafen(line.get());
  EXPECT_EQ(look(mine), std::vector{lifeline::news::silent});

  ASSERT_TRUE(mine.watch(1, there));
  line = connected(mine, door);
  ASSERT_TRUE(line) << "it is asked again";
  deafen(line.get());
  deafen(door.get());
  EXPECT_EQ(look(mine), std::vector{lifeline::news::silent});
  ASSERT_TRUE(mine.watch(1, there));
  EXPECT_EQ(look(mine), std::vector{lifeline::news::silent}) << "nobody answers the call";

  other.reset();
  ASSERT_TRUE(mine.watch(1, there));
  EXPECT_EQ(look(mine), std::vector{lifeline::news::ended}) << "it was there before";
}

TEST(lifeline, watch__another_host_without_an_address) {
  fabric_address here = some_fabric(++next_id, false);
  lifeline mine(here, 2);
  fabric_address there = some_fabric(++next_id, false);
  there.host = here.host + 1;
  EXPECT_FALSE(mine.watch(1, there)) << "its sockets are not ours";
}

TEST(lifeline, timeout__is_checked) {
  test::scoped_env environment;
  for (const char* bad : {"0", "2", "3601", "5s", "", "x"}) {
    environment.set("LCI_OFI_TIMEOUT", bad);
    fabric_address here = some_fabric(++next_id, true);
    if (*bad == '\0') continue;  // as if it were not set
    EXPECT_THROW(lifeline(here, 1), argument_error) << bad;
  }
  environment.set("LCI_OFI_TIMEOUT", "7");
  fabric_address here = some_fabric(++next_id, true);
  EXPECT_NO_THROW(lifeline(here, 1));
}

}  // namespace lci::ofi
