// A test of two real processes that start CUDA after the fork, as programs have to: one owns GPU
// memory, the other uses it.
#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <vector>

#include "lci/base/descriptor.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {

inline std::vector<std::byte> some_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed);
  return bytes;
}

class two_processes : public testing::Test {
 protected:
  two_processes() { mock().reset(); }
  ~two_processes() override { mock().reset(); }

  // `owner` runs in a child, `user` is the test itself, with the leaks looked for. Each is given
  // its end of a socket, which closes with the other process.
  void run_both(const std::function<void(int)>& owner, const std::function<void(int)>& user) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    descriptor theirs(ends[0]), mine(ends[1]);
    std::fflush(stdout);
    child_ = fork();
    if (child_ == 0) {
      mine.reset();
      owner(theirs.get());
      std::fflush(stdout);  // what it had to say about failures
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    theirs.reset();  // so that the end of the owner is seen
    {
      const test::leak_guard guard;
      user(mine.get());
      for (const std::string& leak : mock().leaks()) ADD_FAILURE() << "left over: " << leak;
    }
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }

  pid_t child_ = 0;  // the owner, as the user knows it
};

}  // namespace lci::cuda
