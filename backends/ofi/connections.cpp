#include "backends/ofi/connections.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <memory>

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

template <class Address>
bool read(const endpoint_name& from, sa_family_t family, Address& out) noexcept {
  if (from.size != sizeof(out)) return false;
  std::memcpy(&out, from.bytes, sizeof(out));
  sa_family_t its = 0;
  std::memcpy(&its, from.bytes, sizeof(its));
  return its == family;
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
    if (!is_tcp(fd)) continue;
    // Whoever closes that one now and opens another loses nothing.
    const base::descriptor same(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    endpoint_name here, there;
    if (!is_tcp(same.get()) || !ask(getsockname, same.get(), here) ||
        !ask(getpeername, same.get(), there))
      continue;
    if (is_meant(here, there) && shutdown(same.get(), SHUT_RDWR) == 0) ++out;
  }
  return out;
}

bool is_same_address(const endpoint_name& a, const endpoint_name& b) noexcept {
  sockaddr_in a4, b4;
  if (read(a, AF_INET, a4) && read(b, AF_INET, b4))
    return a4.sin_port == b4.sin_port && a4.sin_addr.s_addr == b4.sin_addr.s_addr;
  sockaddr_in6 a6, b6;
  return read(a, AF_INET6, a6) && read(b, AF_INET6, b6) && a6.sin6_port == b6.sin6_port &&
         std::memcmp(&a6.sin6_addr, &b6.sin6_addr, sizeof(a6.sin6_addr)) == 0;
}

}  // namespace lci::ofi
