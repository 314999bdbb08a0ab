// Bytes, and perhaps a descriptor beside them, from one process of a test to another over a unix
// socket. Threads: any. Always true: a message comes whole or not at all.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace lci::test {

// `fd` may be -1. One sendmsg(): what it answers, with errno.
inline ssize_t try_with_descriptor(int socket, std::span<const std::byte> bytes, int fd) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

// False: the other end is gone, or there was no room for ten seconds: all processes of a user share
// one limit of descriptors under way, and other tests fill it.
inline bool send_with_descriptor(int socket, std::span<const std::byte> bytes, int fd) {
  for (int tries = 0; tries < 1000; ++tries) {
    const ssize_t sent = try_with_descriptor(socket, bytes, fd);
    if (sent >= 0 || errno != ETOOMANYREFS) return sent == static_cast<ssize_t>(bytes.size());
    usleep(10000);
  }
  return false;
}

// `fd` becomes the caller's, or -1 when none came. False: the other end is gone.
inline bool receive_with_descriptor(int socket, std::span<std::byte> bytes, int& fd) {
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  fd = -1;
  const ssize_t got = recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  if (cmsghdr* const header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr)
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return got == static_cast<ssize_t>(bytes.size());
}

}  // namespace lci::test
