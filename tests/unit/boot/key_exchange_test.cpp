#include "lci/boot/key_exchange.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/seed.hpp"

namespace lci::boot {
namespace {

const std::string SECRET_OF_URL = "the secret of a URL, or so";

class key_exchange_test : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = keys_unavailable()) {
      EXPECT_THROW(key_exchange(), backend_error);
      GTEST_SKIP() << *why;
    }
    keys_.emplace_back("some other secret, before");
    keys_.emplace_back(SECRET_OF_URL);
  }
  std::vector<job_key> keys_;
};

TEST_F(key_exchange_test, both_ends__agree_and_can_talk) {
  const key_exchange joiner, root;
  const job_key key(SECRET_OF_URL);
  const std::string hello = joiner.hello(key);
  ASSERT_EQ(hello.size(), key_exchange::MESSAGE);
  ASSERT_EQ(key_exchange::find(hello, keys_), 1u);
  auto admitted = root.admit(hello, keys_[1]);
  ASSERT_TRUE(admitted);
  ASSERT_EQ(admitted->answer.size(), key_exchange::MESSAGE);
  auto stream = joiner.open_answer(key, admitted->answer);
  ASSERT_TRUE(stream);
  std::string plain;
  EXPECT_FALSE(admitted->stream.is_proven());
  EXPECT_TRUE(admitted->stream.open(stream->seal("it is me"), plain));
  EXPECT_TRUE(admitted->stream.is_proven());
  EXPECT_TRUE(stream->open(admitted->stream.seal(", welcome"), plain));
  EXPECT_EQ(plain, "it is me, welcome");
}

// Whoever recorded a connection and learns the secret later has the public keys only.
TEST_F(key_exchange_test, both_ends__secret_alone_opens_nothing_that_was_sent) {
  const key_exchange joiner, root;
  const job_key key(SECRET_OF_URL);
  const std::string hello = joiner.hello(key);
  const auto admitted = root.admit(hello, key);
  auto stream = joiner.open_answer(key, admitted->answer);
  const std::string record = stream->seal("it is me");
  // The best it can do is to take part again, with a key of its own.
  const key_exchange again;
  auto other = again.admit(hello, key);
  std::string plain;
  EXPECT_FALSE(other->stream.open(record, plain));
  EXPECT_TRUE(plain.empty());
}

TEST_F(key_exchange_test, find__repeated_hello_is_answered_and_shows_nothing) {
  const key_exchange joiner;
  const job_key key(SECRET_OF_URL);
  const std::string hello = joiner.hello(key);
  const key_exchange first, second;
  const auto one = first.admit(hello, key), two = second.admit(hello, key);
  EXPECT_NE(one->answer, two->answer);
  auto stream = joiner.open_answer(key, one->answer);
  std::string record = stream->seal("it is me"), plain;
  auto repeated = second.admit(hello, key);
  EXPECT_FALSE(repeated->stream.open(record, plain)) << "a record of another connection";
}

TEST_F(key_exchange_test, find__every_changed_bit_is_refused) {
  const key_exchange joiner, root;
  const job_key key(SECRET_OF_URL);
  const std::string hello = joiner.hello(key);
  const std::string answer = root.admit(hello, key)->answer;
  for (std::size_t bit = 0; bit < 8 * key_exchange::MESSAGE; ++bit) {
    std::string changed = hello, changed_answer = answer;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    changed_answer[bit / 8] = static_cast<char>(changed_answer[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(key_exchange::find(changed, keys_)) << bit;
    EXPECT_FALSE(joiner.open_answer(key, changed_answer)) << bit;
  }
  EXPECT_FALSE(key_exchange::find(hello.substr(1), keys_));
  EXPECT_FALSE(key_exchange::find("", keys_));
  EXPECT_FALSE(joiner.open_answer(key, hello)) << "our own hello sent back";
  EXPECT_FALSE(joiner.open_answer(job_key("quite another secret"), answer));
}

// What both would have in common with such a key is known to everybody.
TEST_F(key_exchange_test, admit__weak_public_key_of_one_who_knows_the_secret) {
  const key_exchange root;
  std::string hello = key_exchange().hello(job_key(SECRET_OF_URL));
  hello.replace(8, 32, std::string(32, '\0'));
  EXPECT_FALSE(root.admit(hello, keys_[1]));
}

TEST(key_exchange, may_begin__first_bytes_decide) {
  EXPECT_TRUE(key_exchange::may_begin(""));
  EXPECT_TRUE(key_exchange::may_begin("LCI"));
  EXPECT_FALSE(key_exchange::may_begin("GET / HTTP/1.1"));
  EXPECT_FALSE(key_exchange::may_begin("LCIK"));
}

}  // namespace
}  // namespace lci::boot
