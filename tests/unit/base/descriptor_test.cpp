#include "lci/base/descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace lci::base {

TEST(descriptor, has_one_owner) {
  descriptor a(dup(0));
  ASSERT_TRUE(a);
  const int fd = a.get();
  descriptor b(std::move(a));
  EXPECT_FALSE(a);  // NOLINT: what a move leaves is part of the promise
  EXPECT_EQ(b.get(), fd);
  b.reset();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(descriptor, released__is_the_callers_to_close) {
  descriptor a(dup(0));
  const int fd = a.release();
  EXPECT_FALSE(a);
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
  close(fd);
}

}  // namespace lci::base
