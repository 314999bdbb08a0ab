// Bytes of those who do not know the secret, or do not behave: none is let in, nothing breaks, and
// others are not concerned.
#include "lci/transport/strangers.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <deque>

#include "lci/transport/control_stream.hpp"
#include "lci/transport/url.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/transport/ends.hpp"

namespace lci::transports {
namespace {

using test::run;

constexpr std::size_t MESSAGE = boot::key_exchange::MESSAGE;
const std::string ANYBODY(32, '1'), ROOT(32, '2');

// A pair of sockets, one of which is a stranger's.
class strangers_test : public test::room_test {
 protected:
  void SetUp() override {
    room_test::SetUp();
    if (IsSkipped()) return;
    keys_.emplace_back("the secret of the URL");
  }
  void call() {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    mine_.reset(fds[0]);
    fd_ = fds[1];
    all_.add(lci::base::descriptor(fd_), now_, std::chrono::seconds(10));
  }
  void send(std::string_view bytes) {
    if (!bytes.empty()) ::send(mine_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // What has been sent to the stranger. Nothing as well where it was hung up on.
  std::string received() {
    char bytes[4096];
    const ssize_t n = ::recv(mine_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return n > 0 ? std::string(bytes, static_cast<std::size_t>(n)) : std::string();
  }
  std::optional<strangers::guest> serve() {
    if (!all_.has(fd_)) return std::nullopt;
    return all_.serve(fd_, keys_);
  }
  // The first record of one who knows the secret.
  std::string begin() {
    call();
    exchange_ = std::make_unique<boot::key_exchange>();
    send(exchange_->hello(keys_[0]));
    EXPECT_FALSE(serve());
    auto seal = exchange_->open_answer(keys_[0], received());
    EXPECT_TRUE(seal);
    const std::string body = join_words{ANYBODY, ROOT, 7}.text();
    return seal->seal(std::string("\1\x24\0\0\0", 5) + body);
  }
  void end() {
    mine_.reset();
    all_.drop(fd_);
  }

  clock::time_point now_;
  strangers all_;
  std::vector<boot::job_key> keys_;
  lci::base::descriptor mine_;
  int fd_ = -1;
  std::unique_ptr<boot::key_exchange> exchange_;
};

TEST_F(strangers_test, serve__who_knows_the_secret_is_let_in) {
  const std::string record = begin();
  ASSERT_EQ(record.size(), strangers::RECORD);
  send(record);
  const auto guest = serve();
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->words.joiner, ANYBODY);
  EXPECT_EQ(guest->words.root, ROOT);
  EXPECT_EQ(guest->words.number, 7u);
  EXPECT_EQ(guest->which, 0u);
  EXPECT_EQ(all_.size(), 0u);
}

TEST_F(strangers_test, serve__one_byte_at_a_time) {
  call();
  const boot::key_exchange exchange;
  for (const char c : exchange.hello(keys_[0])) {
    EXPECT_EQ(received(), "");
    send({&c, 1});
    EXPECT_FALSE(serve());
  }
  auto seal = exchange.open_answer(keys_[0], received());
  ASSERT_TRUE(seal);
  std::string record =
      seal->seal(std::string("\1\x24\0\0\0", 5) + join_words{ANYBODY, ROOT, 1}.text());
  for (std::size_t i = 0; i + 1 < record.size(); ++i) {
    send({&record[i], 1});
    ASSERT_FALSE(serve()) << i;
    ASSERT_TRUE(all_.has(fd_)) << i;
  }
  send({&record.back(), 1});
  EXPECT_TRUE(serve());
}

TEST_F(strangers_test, serve__ends_at_each_byte) {
  const boot::key_exchange exchange;
  const std::string hello = exchange.hello(keys_[0]);
  for (std::size_t n = 0; n < MESSAGE; ++n) {
    call();
    send(hello.substr(0, n));
    mine_.reset();
    EXPECT_FALSE(serve());
    EXPECT_FALSE(all_.has(fd_)) << n;
  }
  for (std::size_t n = 0; n < strangers::RECORD; ++n) {
    const std::string record = begin();
    send(record.substr(0, n));
    mine_.reset();
    EXPECT_FALSE(serve()) << n;
    EXPECT_FALSE(all_.has(fd_)) << n;
  }
  EXPECT_EQ(all_.size(), 0u);
}

TEST_F(strangers_test, serve__hundred_thousand_changed_messages) {
  auto random = lci::test::seeded(77);
  const auto change = [&](std::string text) {
    for (auto left = random() % 3 + 1; left > 0; --left) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
          break;
        case 1:
          text[at] = static_cast<char>(random());
          break;
        case 2:
          text.erase(at, random() % 8 + 1);
          break;
        default:
          text.insert(at, random() % 8 + 1, static_cast<char>(random()));
      }
      if (text.empty()) text = "x";
    }
    return text;
  };
  const boot::key_exchange exchange;
  const std::string hello = exchange.hello(keys_[0]);
  int let_in = 0, answered = 0, unchanged = 0;
  constexpr int TIMES = lci::test::IS_SANITIZED ? 1'000 : 10'000;
  for (int i = 0; i < 9 * TIMES; ++i) {
    const std::string bytes = change(hello);
    call();
    send(bytes);
    let_in += serve().has_value();
    const bool is_same = bytes.substr(0, MESSAGE) == hello;  // changed behind its end only
    unchanged += is_same;
    answered += !received().empty() && !is_same;
    end();
  }
  for (int i = 0; i < TIMES; ++i) {
    const std::string record = begin(), bytes = change(record);
    send(bytes);
    const bool is_same = bytes.substr(0, record.size()) == record;
    unchanged += is_same;
    let_in += serve().has_value() && !is_same;
    EXPECT_TRUE(received().empty());
    end();
  }
  EXPECT_EQ(let_in, 0);
  EXPECT_EQ(answered, 0) << "who lacks the secret gets no byte";
  EXPECT_LT(unchanged, TIMES);
  send(begin());
}

TEST_F(strangers_test, serve__repeated_connection) {
  const std::string record = begin();
  const boot::key_exchange exchange;
  send(record);
  EXPECT_TRUE(serve());
  // Somebody has seen all of that, and says it again.
  call();
  send(exchange_->hello(keys_[0]));
  EXPECT_FALSE(serve());
  EXPECT_EQ(received().size(), MESSAGE);
  send(record);
  EXPECT_FALSE(serve());
  EXPECT_FALSE(all_.has(fd_));
}

TEST_F(strangers_test, serve__holds_few_bytes_of_one_that_sends_much) {
  call();
  send(exchange_ == nullptr ? std::string(100'000, 'L') : std::string());
  EXPECT_FALSE(serve());
  EXPECT_FALSE(all_.has(fd_)) << "the second byte is wrong";
  const std::string record = begin();
  send(std::string(100'000, '\0'));
  EXPECT_FALSE(serve());
  EXPECT_FALSE(all_.has(fd_));
  EXPECT_EQ(received(), "");
}

TEST_F(strangers_test, add__the_oldest_makes_room_after_its_patience) {
  std::deque<lci::base::descriptor> theirs;
  for (std::size_t i = 0; i < strangers::MOST; ++i) {
    ASSERT_TRUE(all_.make_room(now_));
    call();
    theirs.push_back(std::move(mine_));
  }
  EXPECT_FALSE(all_.make_room(now_));
  EXPECT_EQ(all_.patient_until(), now_ + strangers::PATIENCE);
  now_ += strangers::PATIENCE;
  EXPECT_TRUE(all_.make_room(now_));
  EXPECT_EQ(all_.size(), strangers::MOST - 1);
  char byte;
  EXPECT_EQ(::recv(theirs.front().get(), &byte, 1, MSG_DONTWAIT), 0) << "it was the oldest";
  EXPECT_EQ(::recv(theirs[1].get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(all_.due(now_).size(), 0u);
  EXPECT_EQ(all_.due(now_ + std::chrono::seconds(10)).size(), strangers::MOST - 1);
  for (const int fd : all_.due(now_ + std::chrono::seconds(10))) all_.drop(fd);
  EXPECT_FALSE(all_.next_due());
}

// A hub with callers who say nothing, little, or nonsense: an honest one connects meanwhile.
class strangers_of_hub_test : public test::room_test {
 protected:
  lci::base::descriptor call(const std::string& text) {
    const url to = parse_url(text);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(to.port));
    at.sin_addr.s_addr = inet_addr(to.address.c_str());
    lci::base::descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(out.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    return out;
  }
};

TEST_F(strangers_of_hub_test, honest_caller__is_served_between_slow_and_silent_ones) {
  test::ends e;
  const std::string url = e.root.bind();
  std::deque<lci::base::descriptor> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(call(url));
    if (i % 3 == 1) ::send(silent.back().get(), "LCIX", 4, 0);
    if (i % 3 == 2) ::send(silent.back().get(), "GET / HTTP/1.1\r\n", 16, 0);
  }
  e.connect();
  test::put_a_word(e.at_joiner, e.at_root);
  EXPECT_LE(e.root.strangers_now(), 100u);
  EXPECT_GE(e.root.strangers_now(), 60u) << "half-open ones wait for their time to end";
}

TEST_F(strangers_of_hub_test, silent_callers__are_dropped_in_time_and_the_descriptor_is_quiet) {
  static clock::time_point now;
  now = clock::time_point(std::chrono::hours(1));
  setup_options options;
  options.now = [] { return now; };
  hub root(options);
  const std::string url = root.bind();
  std::deque<lci::base::descriptor> silent;
  for (std::size_t i = 0; i < strangers::MOST + 50; ++i) silent.push_back(call(url));
  ASSERT_TRUE(run({&root}, [&] { return root.strangers_now() == strangers::MOST; }));
  for (int i = 0; i < 10; ++i) root.progress();
  pollfd set{root.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&set, 1, 0), 0) << "those who wait outside keep nobody busy";
  now += strangers::PATIENCE;
  ASSERT_TRUE(run({&root}, [&] {
    char byte;
    return ::recv(silent[49].get(), &byte, 1, MSG_DONTWAIT) == 0;
  })) << "the oldest fifty make room";
  now += std::chrono::seconds(11);
  ASSERT_TRUE(run({&root}, [&] { return root.strangers_now() == 0; }));
  EXPECT_EQ(::poll(&set, 1, 0), 0);
}

}  // namespace
}  // namespace lci::transports
