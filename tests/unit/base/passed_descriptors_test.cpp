#include "lci/base/passed_descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>

namespace lci::base {
namespace {

class passed_descriptors : public testing::Test {
 protected:
  passed_descriptors() {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
    here_.reset(both[0]);
    there_.reset(both[1]);
  }
  ssize_t send(std::span<const int> fds) {
    return send_with_descriptors(here_.get(), std::as_bytes(std::span(text_)), fds, 0);
  }
  received_descriptors receive(std::size_t most) {
    return receive_with_descriptors(there_.get(), std::as_writable_bytes(std::span(room_)), most,
                                    MSG_DONTWAIT);
  }
  static bool is_same_file(int a, int b) {
    struct stat one {
    }, other{};
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
  }
  descriptor here_, there_;
  std::string text_ = "hello", room_ = std::string(16, ' ');
};

TEST_F(passed_descriptors, arrive_in_order_as_other_numbers_of_the_same_files) {
  const int fds[] = {here_.get(), there_.get()};
  EXPECT_EQ(send(fds), 5);
  const received_descriptors got = receive(2);
  EXPECT_EQ(got.bytes, 5);
  EXPECT_EQ(room_.substr(0, 5), text_);
  EXPECT_FALSE(got.is_lost);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_same_file(got.passed[i].get(), fds[i]));
    EXPECT_NE(got.passed[i].get(), fds[i]);
    EXPECT_NE(fcntl(got.passed[i].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(passed_descriptors, none__is_a_plain_message) {
  EXPECT_EQ(send({}), 5);
  const received_descriptors got = receive(1);
  EXPECT_EQ(got.bytes, 5);
  EXPECT_FALSE(got.passed[0]);
  EXPECT_FALSE(got.is_lost);
}

TEST_F(passed_descriptors, more_than_expected__are_closed_and_that_is_said) {
  const int fds[] = {here_.get(), there_.get()};
  const int lowest = dup(here_.get());
  close(lowest);
  EXPECT_EQ(send(fds), 5);
  {
    const received_descriptors got = receive(1);
    EXPECT_TRUE(got.passed[0]);
    EXPECT_FALSE(got.passed[1]);
    EXPECT_TRUE(got.is_lost);
  }
  const descriptor next(dup(here_.get()));
  EXPECT_EQ(next.get(), lowest) << "nothing is left open";
}

TEST_F(passed_descriptors, nothing_there__is_what_recvmsg_says) {
  const received_descriptors got = receive(1);
  EXPECT_EQ(got.bytes, -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace lci::base
