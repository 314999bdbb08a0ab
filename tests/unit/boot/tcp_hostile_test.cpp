// A job starts while a stranger opens connections and says anything over them: none becomes a rank,
// and the job starts. LCI_TEST_CONNECTIONS says how many; 10^4 if it is not set, and more in the
// long run.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <deque>

#include "lci/boot/fd.hpp"
#include "lci/boot/kv_wire.hpp"
#include "lci/boot/seal.hpp"
#include "lci/boot/tcp.hpp"
#include "tests/support/scoped_env.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/boot/free_port.hpp"
#include "tests/unit/boot/ranks.hpp"

namespace lci::boot {
namespace {

constexpr const char* SECRET = "the key of the job that starts";
constexpr int RANKS = 3;

class stranger {
 public:
  explicit stranger(int port) : port_(port), random_(test::seeded(61)) {}

  // One connection, from any of many addresses so that ports do not run out. False if nobody
  // listens.
  bool call() {
    lci::base::descriptor fd = connect();
    if (!fd) return false;
    const std::string text = words();
    const auto kind = random_() % 16;
    if (kind == 0) {
      silent_.push_back(std::move(fd));  // says nothing and stays
    } else if (kind == 1) {
      slow_.emplace_back(std::move(fd), text);  // a byte now and then
    } else {
      say(fd.get(), text);
      if (kind == 2) wait_for_end(fd.get());
      if (kind == 3) silent_.push_back(std::move(fd));  // half a word, and then nothing
    }
    if (silent_.size() > 40) silent_.pop_front();
    if (slow_.size() > 20) slow_.pop_front();
    for (auto& [slow, left] : slow_) {
      say(slow.get(), left.substr(0, 1));
      left.erase(0, 1);
    }
    return true;
  }

 private:
  lci::base::descriptor connect() {
    lci::base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{}, to{};
    from.sin_family = to.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f010001u + static_cast<std::uint32_t>(random_() % 200) * 256);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port_));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    for (int i = 0; i < 5000; ++i) {
      if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) == 0 &&
          ::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0)
        return fd;
      fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ::usleep(1000);
    }
    return lci::base::descriptor();
  }
  // Errors are no matter: the other end may have hung up.
  static void say(int fd, const std::string& text) {
    if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  }
  void wait_for_end(int fd) {
    char bytes[256];
    const deadline until = deadline::in(std::chrono::milliseconds(20));
    while (wait_for(fd, POLLIN, until) && ::recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
  }
  // What somebody says who does not know the key, or has only heard others use it.
  std::string words() {
    std::string out, hello;
    kv::encode_hello(hello, static_cast<int>(random_() % RANKS), RANKS);
    const bool knows = random_() % 2 == 0;
    sealed_stream own(job_key(knows ? SECRET : "the key of some other job"),
                      sealed_stream::side::joiner);
    switch (random_() % 6) {
      case 0:
        return noise(random_() % 200);
      case 1:
        return hello;
      case 2:
        return own.greeting() + noise(random_() % 100);
      case 3:
        return own.greeting() + sealed_for_another(own, hello);
      case 4:
        out = own.greeting() + sealed_for_another(own, hello);
        break;
      default:
        out = hello + hello;
    }
    for (auto n = random_() % 4 + 1; n > 0; --n)
      out[random_() % out.size()] = static_cast<char>(random_());
    return out.substr(0, random_() % (out.size() + 1));
  }
  // A greeting and a hello as they were said to rank 0 of another start: recorded, or with a wrong
  // key.
  static std::string sealed_for_another(sealed_stream& own, const std::string& hello) {
    sealed_stream other(job_key("the key of yet another job"), sealed_stream::side::root);
    std::string ignored;
    other.open(own.greeting(), ignored);
    own.open(other.greeting(), ignored);
    return own.seal(hello);
  }
  std::string noise(std::size_t length) {
    std::string out;
    for (std::size_t i = 0; i < length; ++i) out += static_cast<char>(random_());
    return out;
  }

  const int port_;
  std::mt19937_64 random_;
  std::deque<lci::base::descriptor> silent_;
  std::deque<std::pair<lci::base::descriptor, std::string>> slow_;
};

std::string be_rank(int rank) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  const auto boot = open_tcp();
  for (int round = 0; round < 3; ++round) {
    boot->put("k", std::to_string(rank + 10 * round));
    boot->fence();
    for (int r = 0; r < RANKS; ++r) {
      if (boot->get(r, "k") != std::to_string(r + 10 * round)) return "wrong value";
    }
  }
  return "started";
}

TEST(tcp_hostile_test, start__strangers_are_kept_out_and_the_job_starts) {
  if (const auto why = keys_unavailable()) GTEST_SKIP() << *why;
  const char* const given = std::getenv("LCI_TEST_CONNECTIONS");
  const int count = given != nullptr ? std::atoi(given) : 10'000;
  const int port = free_port();
  test::scoped_env vars;
  for (const char* name :
       {"LCT_MASTER_ADDR", "LCT_MASTER_PORT", "LCI_MASTER_ADDR", "LCI_MASTER_PORT", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE", "LCT_PMI_TCP_KEY_FILE"})
    vars.unset(name);
  vars.set("MASTER_ADDR", "127.0.0.1");
  vars.set("MASTER_PORT", std::to_string(port));
  vars.set("WORLD_SIZE", std::to_string(RANKS));
  vars.set("LCT_PMI_TCP_KEY", SECRET);
  vars.set("LCT_PMI_TCP_TIMEOUT_SEC", "500");
  int done[2];
  ASSERT_EQ(::pipe(done), 0);
  const auto results = run_ranks(
      RANKS + 1,
      [&](int i) {
        ::close(done[i == RANKS ? 0 : 1]);
        if (i < RANKS - 1) return be_rank(i);
        if (i == RANKS - 1) {
          char byte;  // the last rank comes when all strangers have called
          return ::read(done[0], &byte, 1) == 1 ? be_rank(i) : std::string("the stranger is gone");
        }
        stranger s(port);
        int calls = 0;
        while (calls < count && s.call()) ++calls;
        if (::write(done[1], "x", 1) != 1) return std::string("nobody waits");
        ::sleep(1);  // what is still open stays so while the job starts
        return std::to_string(calls);
      },
      540);
  for (const int fd : done) ::close(fd);
  // Had a stranger become a rank, the real one would have been refused as the second of its kind.
  for (std::size_t r = 0; r < RANKS; ++r) EXPECT_EQ(results[r].text, "started") << r;
  EXPECT_EQ(results[RANKS].text, std::to_string(count));
}

// The same strangers, were they let in, would be ranks: without a key a plain hello is enough.
TEST(tcp_hostile_test, start__without_a_key_a_stranger_becomes_a_rank) {
  const int port = free_port();
  test::scoped_env vars;
  for (const char* name :
       {"LCT_MASTER_ADDR", "LCT_MASTER_PORT", "LCI_MASTER_ADDR", "LCI_MASTER_PORT", "LOCAL_RANK",
        "LOCAL_WORLD_SIZE", "LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE"})
    vars.unset(name);
  vars.set("MASTER_ADDR", "127.0.0.1");
  vars.set("MASTER_PORT", std::to_string(port));
  vars.set("WORLD_SIZE", std::to_string(RANKS));
  vars.set("LCT_PMI_TCP_TIMEOUT_SEC", "2");
  const auto results = run_ranks(2, [&](int i) {
    if (i == 0) return be_rank(0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    lci::base::descriptor fd;
    for (int n = 0; n < 5000; ++n) {
      fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) break;
      ::usleep(1000);
    }
    std::string hello;
    kv::encode_hello(hello, 1, RANKS);
    char bytes[256];
    if (::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) return std::string("no");
    while (::recv(fd.get(), bytes, sizeof bytes, 0) > 0) {
    }
    return std::string("ok");
  });
  EXPECT_NE(results[0].text.find("missing: 2"), std::string::npos) << results[0].text;
}

}  // namespace
}  // namespace lci::boot
