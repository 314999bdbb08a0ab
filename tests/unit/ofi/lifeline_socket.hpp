// The end of lifelines where a fabric of this process is watched: what a test takes away from there
// is, for whoever watches, a host that does not answer. Threads: the test's.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "backends/ofi/wire.hpp"
#include "lci/base/descriptor.hpp"

namespace lci::ofi {

// From now on its kernel throws away whatever comes for it, questions and calls included.
inline void deafen(int fd) {
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

// The socket that a fabric listens on: found among those of this process by its port.
class lifeline_socket {
 public:
  explicit lifeline_socket(const fabric_address& of) {
    for (int fd = 3; fd < 1024 && fd_ < 0; ++fd) {
      sockaddr_in at{};
      socklen_t size = sizeof(at);
      int is_listening = 0;
      socklen_t flag = sizeof(is_listening);
      if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0 &&
          at.sin_family == AF_INET && ntohs(at.sin_port) == of.lifeline &&
          getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag) == 0 && is_listening != 0)
        fd_ = fd;
    }
    EXPECT_GE(fd_, 0) << "no socket listens on port " << of.lifeline;
  }
  int get() const { return fd_; }
  // A connection that nobody has taken; empty: there is none.
  base::descriptor take() const {
    return base::descriptor(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  int fd_ = -1;
};

}  // namespace lci::ofi
