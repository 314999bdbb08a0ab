#include "lci/boot/tcp.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <vector>

#include "lci/boot/fd.hpp"
#include "lci/boot/kv_wire.hpp"
#include "lci/boot/tcp_address.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/unit/boot/free_port.hpp"
#include "tests/unit/boot/ranks.hpp"

namespace lci::boot {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

lci::base::descriptor listen_somewhere(int& port) {
  lci::base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return fd;
}

// Connects as soon as somebody listens.
lci::base::descriptor connect_to_port(int port) {
  for (int i = 0; i < 5000; ++i) {
    lci::base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return fd;
    ::usleep(1000);
  }
  return lci::base::descriptor();
}

class tcp_test : public testing::Test {
 protected:
  tcp_test() : port_(free_port()) {
    for (const char* name :
         {"LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE", "LCT_MASTER_ADDR", "LCT_MASTER_PORT",
          "LCI_MASTER_ADDR", "LCI_MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
      vars_.unset(name);
    vars_.set("MASTER_ADDR", "127.0.0.1");
    vars_.set("MASTER_PORT", std::to_string(port_));
    vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "20");
  }
  // In a process of its own: the variables of one rank.
  static void become(int rank, int size) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  }
  static std::unique_ptr<bootstrap> open(int rank, int size) {
    become(rank, size);
    return open_tcp();
  }
  static std::string exchange(bootstrap& boot, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      boot.put("k", std::to_string(boot.rank() * 1000 + i));
      boot.fence();
      for (int r = 0; r < boot.size(); ++r) {
        if (boot.get(r, "k") != std::to_string(r * 1000 + i))
          throw std::runtime_error("wrong value");
      }
    }
    return "ok";
  }
  test::scoped_env vars_;
  int port_;
};

void expect_all_ok(const std::vector<rank_result>& results) {
  for (const rank_result& r : results) {
    EXPECT_EQ(r.status, 0) << r.text;
    EXPECT_EQ(r.text, "ok");
  }
}

TEST_F(tcp_test, exchange__several_ranks) {
  expect_all_ok(run_ranks(5, [](int r) { return exchange(*open(r, 5), 20); }));
}

TEST_F(tcp_test, exchange__one_rank) {
  expect_all_ok(run_ranks(1, [](int r) { return exchange(*open(r, 1), 3); }));
}

TEST_F(tcp_test, exchange__by_name_of_the_host) {
  vars_.set("MASTER_ADDR", "localhost");
  expect_all_ok(run_ranks(3, [](int r) { return exchange(*open(r, 3), 2); }));
}

TEST_F(tcp_test, exchange__largest_values) {
  expect_all_ok(run_ranks(4, [](int r) {
    const auto boot = open(r, 4);
    for (int i = 0; i < 10; ++i)
      boot->put("k" + std::to_string(i), std::string(MAX_VALUE, static_cast<char>(r + i)));
    boot->fence();
    for (int s = 0; s < 4; ++s) {
      for (int i = 0; i < 10; ++i) {
        if (boot->get(s, "k" + std::to_string(i)) !=
            std::string(MAX_VALUE, static_cast<char>(s + i)))
          return std::string("wrong");
      }
    }
    return std::string("ok");
  }));
}

TEST_F(tcp_test, exchange__with_a_key) {
#if !LCI_HAVE_SODIUM
  GTEST_SKIP() << "this build has no libsodium (libsodium-dev)";
#endif
  vars_.set("LCT_PMI_TCP_KEY", "the key of this job");
  expect_all_ok(run_ranks(4, [](int r) {
    const auto boot = open(r, 4);
    for (int i = 0; i < 4; ++i)
      boot->put("k" + std::to_string(i), std::string(MAX_VALUE, static_cast<char>(r + i)));
    boot->fence();
    for (int s = 0; s < 4; ++s) {
      for (int i = 0; i < 4; ++i) {
        if (boot->get(s, "k" + std::to_string(i)) !=
            std::string(MAX_VALUE, static_cast<char>(s + i)))
          return std::string("wrong");
      }
    }
    return exchange(*boot, 20);
  }));
}

// An address of this machine that other machines reach too.
TEST_F(tcp_test, exchange__with_a_key_on_an_outer_address) {
#if !LCI_HAVE_SODIUM
  GTEST_SKIP() << "this build has no libsodium (libsodium-dev)";
#endif
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  std::string outer;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || is_loopback(i->ifa_addr))
      continue;
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
    outer = text;
  }
  ::freeifaddrs(list);
  if (outer.empty()) GTEST_SKIP() << "this machine has loopback addresses only";
  vars_.set("MASTER_ADDR", outer);
  const auto refused = run_ranks(1, [](int) { return exchange(*open(0, 2), 1); });
  EXPECT_NE(refused[0].text.find("not a loopback address"), std::string::npos) << refused[0].text;
  vars_.set("LCT_PMI_TCP_KEY", "the key of this job");
  expect_all_ok(run_ranks(3, [](int r) { return exchange(*open(r, 3), 3); }));
}

// One rank has no key, another one, or the only one. It is told; the others go on waiting for it.
TEST_F(tcp_test, join__who_does_not_know_the_key_is_told) {
#if !LCI_HAVE_SODIUM
  GTEST_SKIP() << "this build has no libsodium (libsodium-dev)";
#endif
  const struct {
    const char *root, *leaf, *why;
  } cases[] = {{"the key of this job", "", "this job has a key (LCT_PMI_TCP_KEY)"},
               {"the key of this job", "the key of another", "LCT_PMI_TCP_KEY"},
               {"", "the key of this job", "LCT_PMI_TCP_KEY"}};
  for (const auto& c : cases) {
    std::vector<rank_result> results;
    // On a slow machine one may have given up before the other is there: then both wait longer.
    for (const char* limit : {"2", "10", "60"}) {
      vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", limit);
      results = run_ranks(2, [&](int r) {
        ::setenv("LCT_PMI_TCP_KEY", r == 0 ? c.root : c.leaf, 1);
        return exchange(*open(r, 2), 1);
      });
      if (results[1].text.find("Connection refused") == std::string::npos) break;
    }
    EXPECT_NE(results[1].text.find(c.why), std::string::npos) << results[1].text;
    EXPECT_NE(results[0].text.find("missing: 1"), std::string::npos) << results[0].text;
  }
}

TEST_F(tcp_test, reopen__again_and_again_on_one_port) {
  expect_all_ok(run_ranks(3, [](int r) {
    for (int i = 0; i < 10; ++i) exchange(*open(r, 3), 1);
    return std::string("ok");
  }));
}

TEST_F(tcp_test, join__missing_ranks_are_named_to_everybody) {
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "1");
  const auto results = run_ranks(2, [](int r) { return exchange(*open(r, 4), 1); });
  for (const rank_result& r : results) EXPECT_EQ(r.status, 1);
  EXPECT_NE(results[0].text.find("missing: 2 3"), std::string::npos) << results[0].text;
}

TEST_F(tcp_test, join__rank_0_that_never_comes_is_an_error_with_the_address) {
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "1");
  const lci::base::descriptor held = hold_port(port_);
  const auto results = run_ranks(1, [](int) { return exchange(*open(1, 2), 1); });
  for (const char* part : {"rank 1", "1 s", "MASTER_ADDR", "Connection refused"})
    EXPECT_NE(results[0].text.find(part), std::string::npos) << results[0].text;
  const lci::base::descriptor listener = listen_somewhere(port_);  // full, it answers nothing
  vars_.set("MASTER_PORT", std::to_string(port_));
  const sockaddr_in at = loopback(port_);
  lci::base::descriptor waiting[40];
  for (auto& fd : waiting) {
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  const std::string text = run_ranks(1, [](int) { return exchange(*open(1, 2), 1); })[0].text;
  EXPECT_NE(text.find("timed out"), std::string::npos) << text;
}

TEST_F(tcp_test, join__second_process_of_a_rank_gets_the_error_and_the_job_goes_on) {
  // Ranks 0 1 1' and, once 1 or 1' was refused, 2.
  const auto results = run_ranks(4, [](int i) {
    const int rank = i == 3 ? 2 : i == 2 ? 1 : i;
    if (i == 3) ::usleep(200'000);  // so that both claims are judged before the job is whole
    return exchange(*open(rank, 3), 2);
  });
  EXPECT_EQ(results[0].text, "ok");
  EXPECT_EQ(results[3].text, "ok");
  EXPECT_EQ(results[1].status + results[2].status, 1);
  const rank_result& refused = results[results[1].status == 1 ? 1 : 2];
  EXPECT_NE(refused.text.find("rank 1 has already joined"), std::string::npos) << refused.text;
}

TEST_F(tcp_test, join__strangers_do_not_hang_the_job) {
  const int port = port_;
  const auto results = run_ranks(4, [port](int i) {
    if (i < 3) {
      // The last rank comes after the strangers.
      if (i == 2) ::usleep(200'000);
      return exchange(*open(i, 3), 2);
    }
    std::vector<lci::base::descriptor> open_ends;  // connected, silent, until this process ends
    for (int n = 0; n < 100; ++n) open_ends.push_back(connect_to_port(port));
    lci::base::descriptor talker = connect_to_port(port);
    const std::string text = "GET / HTTP/1.0\r\n\r\n";
    if (::send(talker.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return std::string("no");
    lci::base::descriptor half = connect_to_port(port);
    std::string hello;
    kv::encode_hello(hello, 1, 3);
    if (::send(half.get(), hello.data(), 5, MSG_NOSIGNAL) < 0) return std::string("no");
    return std::string("ok");
  });
  expect_all_ok(results);
}

TEST_F(tcp_test, fence__rank_that_left_is_named) {
  const auto results = run_ranks(3, [](int r) {
    const auto boot = open(r, 3);
    boot->fence();
    if (r == 2) return std::string("gone");
    boot->fence();
    return std::string("not reached");
  });
  for (const std::size_t r : {0u, 1u})
    EXPECT_NE(results[r].text.find("rank 2 left the job"), std::string::npos) << results[r].text;
}

TEST_F(tcp_test, fence__rank_0_that_was_killed_is_noticed) {
  const auto results = run_ranks(2, [](int r) {
    const auto boot = open(r, 2);
    boot->fence();
    if (r == 0) ::raise(SIGKILL);
    boot->fence();
    return std::string("not reached");
  });
  EXPECT_EQ(results[0].status, 128 + SIGKILL);
  EXPECT_EQ(results[1].status, 1);
  EXPECT_NE(results[1].text.find("lost the connection"), std::string::npos) << results[1].text;
}

// Rank 0 has the news, and is one of those who leave: rank 2 first, then rank 0.
TEST_F(tcp_test, news__who_leaves_is_news_to_the_others) {
  const auto results = run_ranks(3, [](int r) {
    const auto boot = open(r, 3);
    boot->fence();
    std::string heard;
    const auto hear_until = [&](const std::string& last) {
      while (!heard.ends_with(last))
        for (const departure& one : boot->news())
          heard += std::to_string(one.rank) + (one.orderly ? " left;" : " died;");
    };
    if (r == 0) hear_until("2 left;");
    if (r == 1) hear_until("0 left;");
    boot->leave();
    return heard;
  });
  EXPECT_EQ(results[0].text, "2 left;");
  EXPECT_EQ(results[1].text, "2 left;0 left;");
}

TEST_F(tcp_test, fence__time_limit_holds) {
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "1");
  const auto results = run_ranks(2, [](int r) {
    const auto boot = open(r, 2);
    if (r == 1) ::sleep(3);
    boot->fence();
    return std::string("late");
  });
  EXPECT_NE(results[0].text.find("waited 1 s in fence 0"), std::string::npos) << results[0].text;
}

TEST_F(tcp_test, open__port_in_use_is_said_with_a_way_out) {
  const lci::base::descriptor taken = listen_somewhere(port_);
  vars_.set("MASTER_PORT", std::to_string(port_));
  const auto results = run_ranks(1, [](int) { return exchange(*open(0, 2), 1); });
  for (const char* part : {"rank 0 cannot listen", "Address already in use", "LCT_MASTER_PORT"})
    EXPECT_NE(results[0].text.find(part), std::string::npos) << results[0].text;
}

TEST_F(tcp_test, open__server_of_another_protocol_is_found_out) {
  const lci::base::descriptor listener = listen_somewhere(port_);
  vars_.set("MASTER_PORT", std::to_string(port_));
  const int fd = listener.get();
  const auto results = run_ranks(2, [fd](int i) {
    if (i == 0) return exchange(*open(1, 2), 1);
    const lci::base::descriptor peer(::accept(fd, nullptr, nullptr));
    const std::string text = "HTTP/1.1 400 Bad Request\r\n";
    if (::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return std::string("no");
    char bytes[64];
    while (::recv(peer.get(), bytes, sizeof bytes, 0) > 0) {
    }
    return std::string("ok");
  });
  EXPECT_NE(results[0].text.find("not of this protocol"), std::string::npos) << results[0].text;
}

TEST_F(tcp_test, open__only_loopback_without_a_key) {
  for (const char* address : {"10.1.2.3", "192.0.2.1", "2001:db8::1"}) {
    EXPECT_TRUE(test::throws_with<backend_error>(
        [&] { resolve(address, 1234, "MASTER_ADDR", false); },
        {"MASTER_ADDR", address, "not a loopback address", "LCT_PMI_TCP_KEY"}))
        << address;
    EXPECT_EQ(resolve(address, 1234, "MASTER_ADDR", true).size(), 1u);
  }
  EXPECT_TRUE(test::throws_with<backend_error>(
      [] { resolve("no such host.invalid", 1, "LCT_MASTER_ADDR", false); },
      {"LCT_MASTER_ADDR", "no such host.invalid"}));
  EXPECT_EQ(resolve("127.3.2.1", 80, "X", false).size(), 1u);
  EXPECT_EQ(resolve("::1", 80, "X", false).size(), 1u);
}

TEST_F(tcp_test, open__never_on_all_addresses) {
  for (const char* address : {"0.0.0.0", "::"}) {
    for (const bool has_key : {false, true}) {
      EXPECT_TRUE(
          test::throws_with<backend_error>([&] { resolve(address, 1234, "MASTER_ADDR", has_key); },
                                           {"MASTER_ADDR", address, "stands for all addresses"}));
    }
  }
}

// The listener is bound to the given address alone, and gone when everybody has joined.
TEST_F(tcp_test, open__listens_on_the_given_address_only) {
  vars_.set("MASTER_ADDR", "127.0.0.2");
  const int port = port_;
  const auto results = run_ranks(2, [port](int r) {
    const auto reach = [port](std::uint32_t host) {
      lci::base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = loopback(port);
      address.sin_addr.s_addr = htonl(host);
      return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    };
    if (r == 0) return exchange(*open(0, 2), 2);
    for (int i = 0; i < 5000 && !reach(0x7f000002); ++i) ::usleep(1000);
    if (reach(0x7f000001)) return std::string("listens elsewhere too");
    const auto boot = open(1, 2);
    const std::string answer = exchange(*boot, 1);
    const bool still = reach(0x7f000002);
    boot->fence();
    return still ? std::string("still listens") : answer;
  });
  EXPECT_EQ(results[1].text, "ok");
}

}  // namespace
}  // namespace lci::boot
