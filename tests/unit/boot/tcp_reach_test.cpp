// How rank 0 and the others reach each other: names, addresses, and the sockets that they get.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "lci/boot/fd.hpp"
#include "lci/boot/tcp.hpp"
#include "lci/boot/tcp_address.hpp"
#include "lci/errors.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/boot/free_port.hpp"
#include "tests/unit/boot/ranks.hpp"

namespace lci::boot {
namespace {

class tcp_reach_test : public testing::Test {
 protected:
  tcp_reach_test() {
    for (const char* name :
         {"LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE", "LCT_MASTER_ADDR", "LCT_MASTER_PORT",
          "LCI_MASTER_ADDR", "LCI_MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
      vars_.unset(name);
    vars_.set("MASTER_ADDR", "localhost");
    vars_.set("MASTER_PORT", std::to_string(port_));
    vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "20");
  }
  static std::unique_ptr<bootstrap> open(int rank, int size) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
    return open_tcp();
  }
  test::scoped_env vars_;
  const int port_ = free_port();
};

// The names of the processes of a cluster may be entered when rank 0 starts, after the others.
TEST_F(tcp_reach_test, join__unknown_name_is_asked_for_until_the_time_is_up) {
  vars_.set("MASTER_ADDR", "rank-0.invalid");
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "1");
  const auto results = run_ranks(2, [](int r) { return std::to_string(open(r, 2)->rank()); });
  for (const char* part : {"rank 1 tried for 1 s", "MASTER_ADDR", "; last: \"rank-0.invalid\": "})
    EXPECT_NE(results[1].text.find(part), std::string::npos) << results[1].text;
  // Rank 0 is the one who would have to have that name.
  EXPECT_TRUE(results[0].text.starts_with("tcp: MASTER_ADDR \"rank-0.invalid\": "))
      << results[0].text;
}

TEST_F(tcp_reach_test, join__wrong_address_is_refused_at_once) {
  vars_.set("MASTER_ADDR", "0.0.0.0");
  const auto wildcard = run_ranks(1, [](int) { return std::to_string(open(1, 2)->rank()); });
  EXPECT_NE(wildcard[0].text.find("stands for all"), std::string::npos) << wildcard[0].text;
  vars_.set("MASTER_ADDR", "192.0.2.1");
  const auto outer = run_ranks(1, [](int) { return std::to_string(open(1, 2)->rank()); });
  EXPECT_NE(outer[0].text.find("not a loopback"), std::string::npos) << outer[0].text;
}

// The other ranks may try the address in use first, and take its listener for rank 0.
TEST_F(tcp_reach_test, open__name_with_an_address_in_use_is_refused) {
  const auto all = resolve("localhost", port_, "MASTER_ADDR", false);
  if (all.size() < 2) GTEST_SKIP() << "localhost has one address only, no ::1";
  const auto* const first = reinterpret_cast<const sockaddr*>(&all[0].bytes);
  const base::descriptor taken(::socket(first->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!taken || ::bind(taken.get(), first, all[0].size) != 0 || ::listen(taken.get(), 1) != 0)
    GTEST_SKIP() << "cannot listen at " << all[0].text << ": " << errno_text(errno);
  const auto results = run_ranks(1, [](int) { return std::to_string(open(0, 1)->rank()); });
  EXPECT_NE(results[0].text.find("Address already in use"), std::string::npos) << results[0].text;
}

// Of all connections of this process.
std::string user_timeouts_ms() {
  std::string out;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    int ms = -1;
    socklen_t size = sizeof ms;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
        ::getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &size) == 0)
      out += std::to_string(ms) + ";";
  }
  return out;
}

// Keepalives alone do not end a connection to a lost host that has bytes to acknowledge.
TEST_F(tcp_reach_test, join__unacknowledged_bytes_have_a_limit_at_both_ends) {
  const auto results = run_ranks(2, [](int r) {
    const auto boot = open(r, 2);
    const std::string out = user_timeouts_ms();
    boot->fence();
    return out;
  });
  for (const rank_result& r : results) EXPECT_EQ(r.text, "25000;");
}

}  // namespace
}  // namespace lci::boot
