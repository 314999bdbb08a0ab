#include "lci/boot/fd.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "lci/errors.hpp"

namespace lci::boot {

std::string errno_text(int error) {
  return std::generic_category().message(error) + " [" + std::to_string(error) + "]";
}

bool wait_for(int fd, short events, const deadline& until) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int n = ::poll(&entry, 1, until.remaining_ms());
    if (n > 0) return true;
    if (n == 0) {
      if (until.is_over()) return false;
      continue;
    }
    if (errno != EINTR) throw backend_error("poll failed: " + errno_text(errno));
  }
}

namespace {

// A leading zero byte makes the name abstract; its length counts instead of a terminator.
socklen_t fill(sockaddr_un& address, const std::string& name) noexcept {
  address = {};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

}  // namespace

// The backlog has room for a whole job that connects at once.
base::descriptor listen_abstract(const std::string& name) {
  sockaddr_un address;
  const socklen_t size = fill(address, name);
  base::descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (size == 0 || !fd ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    throw backend_error("cannot listen on abstract socket @" + name + ": " +
                        errno_text(size == 0 ? ENAMETOOLONG : errno));
  }
  return fd;
}

base::descriptor connect_abstract(const std::string& name) noexcept {
  sockaddr_un address;
  const socklen_t size = fill(address, name);
  if (size == 0) {
    errno = ENAMETOOLONG;
    return base::descriptor();
  }
  base::descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  // Blocks while the listener's queue is full, which is what a crowd of starting processes needs.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EINTR) continue;
    const int why = errno;
    fd.reset();
    errno = why;
    return fd;
  }
  return fd;
}

long peer_uid(int fd) noexcept {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -1;
  return static_cast<long>(credentials.uid);
}

}  // namespace lci::boot
