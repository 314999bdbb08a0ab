// Whose connections are hung up, and what both sides see of it.
#include "backends/ofi/sockets.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "lci/base/descriptor.hpp"

namespace lci::ofi {
namespace {

template <class Call>
endpoint_name name_by(Call call, const base::descriptor& of) {
  endpoint_name out;
  socklen_t size = MAX_NAME;
  EXPECT_EQ(call(of.get(), reinterpret_cast<sockaddr*>(out.bytes), &size), 0);
  out.size = static_cast<std::uint16_t>(size);
  return out;
}
endpoint_name here_of(const base::descriptor& of) { return name_by(getsockname, of); }
endpoint_name there_of(const base::descriptor& of) { return name_by(getpeername, of); }

// One on loopback, both ends of which this process has.
struct tcp_pair {
  explicit tcp_pair(int family) {
    sockaddr_storage at{};
    at.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof(sockaddr_in);
    if (family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(at).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
      reinterpret_cast<sockaddr_in6&>(at).sin6_addr = in6addr_loopback;
      size = sizeof(sockaddr_in6);
    }
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    door.reset(socket(family, SOCK_STREAM, 0));
    has_network = bind(door.get(), address, size) == 0;
    if (!has_network) return;
    EXPECT_EQ(listen(door.get(), 1), 0);
    EXPECT_EQ(getsockname(door.get(), address, &size), 0);
    caller.reset(socket(family, SOCK_STREAM, 0));
    EXPECT_EQ(connect(caller.get(), address, size), 0);
    called.reset(accept(door.get(), nullptr, nullptr));
  }
  bool is_over() const {
    char byte = 0;
    return recv(called.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  bool has_network = false;
  base::descriptor door, caller, called;
};

class hang_up_test : public testing::TestWithParam<int> {
 protected:
  tcp_pair one_{GetParam()}, other_{GetParam()};
  void SetUp() override {
    if (!one_.has_network) GTEST_SKIP() << "there is no IPv6 here";
  }
};

}  // namespace

TEST_P(hang_up_test, ends__those_that_go_to_an_address) {
  EXPECT_EQ(hang_up([&](const endpoint_name&, const endpoint_name& there) {
              return is_same_address(there, here_of(one_.door));
            }),
            1u);
  EXPECT_TRUE(one_.is_over());
  EXPECT_FALSE(other_.is_over());
}

TEST_P(hang_up_test, ends__those_that_came_to_an_address) {
  EXPECT_EQ(hang_up([&](const endpoint_name& here, const endpoint_name&) {
              return is_same_address(here, here_of(one_.door));
            }),
            1u)
      << "the one that was taken, and not the door";
  EXPECT_TRUE(one_.is_over());
  EXPECT_FALSE(other_.is_over());
}

TEST_P(hang_up_test, bytes__that_were_written_still_arrive) {
  ASSERT_EQ(send(one_.caller.get(), "bye", 3, 0), 3);
  EXPECT_EQ(hang_up([&](const endpoint_name& here, const endpoint_name&) {
              return is_same_address(here, here_of(one_.caller));
            }),
            1u);
  char bytes[4] = {};
  EXPECT_EQ(recv(one_.called.get(), bytes, sizeof(bytes), 0), 3);
  EXPECT_STREQ(bytes, "bye");
  EXPECT_TRUE(one_.is_over());
}

TEST_P(hang_up_test, looks_at__nothing_but_connections) {
  int pair[2] = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const base::descriptor left(pair[0]), right(pair[1]);
  const base::descriptor datagrams(socket(GetParam(), SOCK_DGRAM, 0));
  std::vector<endpoint_name> seen;
  EXPECT_EQ(hang_up([&](const endpoint_name& here, const endpoint_name& there) {
              seen.push_back(here);
              EXPECT_FALSE(is_same_address(here, there));
              return false;
            }),
            0u);
  std::size_t ours = 0;
  for (const endpoint_name& name : seen)
    for (const tcp_pair* of : {&one_, &other_})
      ours +=
          is_same_address(name, here_of(of->caller)) + is_same_address(name, there_of(of->caller));
  EXPECT_EQ(ours, 4u);
  EXPECT_EQ(send(left.get(), "x", 1, 0), 1) << "still open";
}

INSTANTIATE_TEST_SUITE_P(over, hang_up_test, testing::Values(AF_INET, AF_INET6),
                         [](const auto& tested) {
                           return std::string(tested.param == AF_INET ? "ipv4" : "ipv6");
                         });

}  // namespace lci::ofi
