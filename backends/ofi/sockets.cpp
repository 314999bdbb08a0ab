#include "backends/ofi/sockets.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

#include "lci/base/descriptor.hpp"

namespace lci::ofi {
namespace {

struct folder_close {
  void operator()(DIR* folder) const noexcept { closedir(folder); }
};
using folder_handle = std::unique_ptr<DIR, folder_close>;

static_assert(sizeof(sockaddr_in6) <= MAX_NAME);

using ask_address = int (*)(int, sockaddr*, socklen_t*);

// False where that end has no address of a host.
bool ask(ask_address which, int fd, endpoint_name& out) noexcept {
  sockaddr_storage at{};
  socklen_t size = sizeof(at);
  if (which(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return false;
  if (at.ss_family != AF_INET && at.ss_family != AF_INET6) return false;
  out.size = static_cast<std::uint16_t>(size);
  std::memcpy(out.bytes, &at, size);
  return true;
}

bool is_tcp(int fd) noexcept {
  int what = 0;
  socklen_t size = sizeof(what);
  return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &what, &size) == 0 && what == IPPROTO_TCP;
}

}  // namespace

std::size_t hang_up(const ends_of_connection& is_meant) noexcept {
  const folder_handle folder(opendir("/proc/self/fd"));
  if (!folder) return 0;
  std::size_t out = 0;
  while (const dirent* const entry = readdir(folder.get())) {
    const char* const name = entry->d_name;
    int fd = -1;
    if (std::from_chars(name, name + std::strlen(name), fd).ec != std::errc()) continue;
    // Nothing else is copied: closing a copy of a file gives up its locks.
    if (!is_tcp(fd)) continue;
    // A thread that closes that one now and opens another loses nothing.
    const base::descriptor same(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    endpoint_name here, there;
    if (!is_tcp(same.get()) || !ask(getsockname, same.get(), here) ||
        !ask(getpeername, same.get(), there))
      continue;
    if (is_meant(here, there) && shutdown(same.get(), SHUT_RDWR) == 0) ++out;
  }
  return out;
}

}  // namespace lci::ofi
