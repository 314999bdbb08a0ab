#include "lci/transport/control_stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "lci/boot/key_exchange.hpp"
#include "lci/transport/hub.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/seed.hpp"

namespace lci::transports {
namespace {

class control_stream_test : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
    const boot::job_key key("a secret of both of them");
    const boot::key_exchange joiner, root;
    auto admitted = root.admit(joiner.hello(key), key);
    auto seal = joiner.open_answer(key, admitted->answer);
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    one_.emplace(lci::base::descriptor(fds[0]), std::move(*seal));
    two_.emplace(lci::base::descriptor(fds[1]), std::move(admitted->stream));
    one_->put(frame_type::join, "the first is short");
    ASSERT_EQ(carry().size(), 1u);
  }
  // All frames that come, until nothing is under way.
  std::vector<control_stream::frame> carry() {
    std::vector<control_stream::frame> out;
    for (int i = 0; i < 100; ++i) {
      one_->flush();
      two_->read();
      while (auto got = two_->next()) out.push_back(std::move(*got));
    }
    return out;
  }
  lci::test::leak_guard leaks_;
  std::optional<control_stream> one_, two_;
};

TEST_F(control_stream_test, put__frames_of_any_size_arrive_in_order) {
  auto random = test::seeded(31);
  std::vector<std::string> said;
  for (const std::size_t size : {0u, 1u, 16'379u, 16'380u, 40'000u, 65'536u, 3u}) {
    std::string body;
    while (body.size() < size) body += static_cast<char>(random());
    said.push_back(body);
    ASSERT_TRUE(one_->put(frame_type::message, body));
  }
  const auto got = carry();
  ASSERT_EQ(got.size(), said.size());
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(got[i].type, frame_type::message);
    EXPECT_EQ(got[i].body, said[i]) << i;
  }
  EXPECT_FALSE(one_->wants_write());
}

TEST_F(control_stream_test, put__peer_that_does_not_read_makes_it_refuse) {
  const std::string body(control_stream::MOST_BODY, 'x');
  int taken = 0;
  while (one_->put(frame_type::message, body)) {
    ASSERT_LT(++taken, 1000);
    one_->flush();
  }
  EXPECT_TRUE(one_->wants_write());
  EXPECT_EQ(carry().size(), static_cast<std::size_t>(taken));
  EXPECT_TRUE(one_->put(frame_type::message, body));
}

TEST_F(control_stream_test, flush__a_backlog_that_never_ends_does_not_grow) {
  const std::string body(1000, 'x');
  const int backlog = 700;  // frames: more than the socket takes
  int put = 0, got = 0;
  for (std::size_t most = 0; got < 20'000; most = one_->kept()) {
    while (put < got + backlog && one_->put(frame_type::message, body)) ++put;
    ASSERT_TRUE(one_->flush());
    ASSERT_TRUE(one_->wants_write());
    ASSERT_LT(most, 2 * control_stream::MOST_QUEUED);
    ASSERT_TRUE(two_->read());
    while (two_->next()) ++got;
  }
}

TEST_F(control_stream_test, next__frames_that_no_version_has_end_it) {
  for (const int type : {0, 11, 255}) {
    control_stream_test::SetUp();
    one_->put(static_cast<frame_type>(type), "?");
    EXPECT_TRUE(carry().empty());
    EXPECT_TRUE(two_->is_broken());
    EXPECT_NE(two_->why().find("does not know"), std::string::npos);
  }
  SetUp();
  one_->put(frame_type::message, std::string(control_stream::MOST_BODY + 1, 'x'));
  EXPECT_TRUE(carry().empty());
  EXPECT_TRUE(two_->is_broken());
}

TEST_F(control_stream_test, read__changed_bytes_end_it) {
  std::string bytes = "these are no records of anybody";
  ASSERT_GT(::send(one_->fd(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_FALSE(two_->read());
  EXPECT_TRUE(two_->is_broken());
  EXPECT_FALSE(two_->next());
}

TEST_F(control_stream_test, read__what_was_said_before_the_end_is_there) {
  one_->put(frame_type::leave, {});
  one_->flush();
  one_.reset();
  two_->read();
  const auto got = two_->next();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, frame_type::leave);
  EXPECT_FALSE(two_->read());
  EXPECT_NE(two_->why().find("has ended"), std::string::npos);
}

}  // namespace
}  // namespace lci::transports
