#include "backends/ofi/lifeline.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lci/base/env.hpp"
#include "lci/errors.hpp"
#include "lci/net/connected/address_text.hpp"

namespace lci::ofi {
namespace {

constexpr int QUEUE = 4096;  // calls that are not accepted; the system may allow fewer
// Of a connection that is made, repeated after 1, 2, 4 s: a host that was there before and may be
// silent is given up after 3 s.
constexpr int CALLS = 3, CALLS_AGAIN = 1;

int patience_from_environment() {
  const auto text = base::env::find("LCI_OFI_TIMEOUT");
  return text ? base::env::parse_int("LCI_OFI_TIMEOUT", *text, 3, 3600) : 5;
}

// Any address of a socket, with its length.
struct socket_address {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_un local;
  };
  socklen_t size = 0;
};

// False: its name is no address of a host.
bool host_address(const fabric_address& of, std::uint16_t port, socket_address& out) noexcept {
  std::uint16_t family = 0;
  if (of.name.size < sizeof(family)) return false;
  std::memcpy(&family, of.name.bytes, sizeof(family));
  if (family == AF_INET && of.name.size == sizeof(sockaddr_in)) {
    std::memcpy(&out.v4, of.name.bytes, sizeof(out.v4));
    out.v4.sin_port = htons(port);
    out.size = sizeof(out.v4);
    return true;
  }
  if (family == AF_INET6 && of.name.size == sizeof(sockaddr_in6)) {
    std::memcpy(&out.v6, of.name.bytes, sizeof(out.v6));
    out.v6.sin6_port = htons(port);
    out.size = sizeof(out.v6);
    return true;
  }
  return false;
}

socket_address local_address(const fabric_address& of) noexcept {
  socket_address out;
  out.local = {};
  out.local.sun_family = AF_UNIX;
  const int n = std::snprintf(out.local.sun_path + 1, sizeof(out.local.sun_path) - 1,
                              "lci-ofi-%016llx", static_cast<unsigned long long>(of.id));
  out.size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(n));
  return out;
}

[[noreturn]] void throw_errno(const char* call) {
  throw backend_error(std::string("ofi: ") + call +
                      " for the socket that peers watch: " + std::strerror(errno));
}

// The kernel asks after a second without a sign and each second from then on.
void keep_asking(int fd, int questions, int calls) noexcept {
  const auto set = [fd](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, questions);
  set(IPPROTO_TCP, TCP_SYNCNT, calls);
}

}  // namespace

lifeline::lifeline(fabric_address& here, std::size_t ranks)
    : patience_s_(patience_from_environment()), host_(net::connected::host_id("net")), of_(ranks) {
  here.host = host_;
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) throw_errno("epoll_create1");
  listen_at(here);
  socket_address got;
  got.size = sizeof(got.v6);
  if (getsockname(listener_.get(), &got.any, &got.size) != 0) throw_errno("getsockname");
  if (got.any.sa_family == AF_INET) here.lifeline = ntohs(got.v4.sin_port);
  if (got.any.sa_family == AF_INET6) here.lifeline = ntohs(got.v6.sin6_port);
}

void lifeline::listen_at(const fabric_address& here) {
  socket_address at;
  if (!host_address(here, 0, at)) at = local_address(here);
  listener_.reset(socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_) throw_errno("socket");
  is_ours_.reset(listener_.get());
  if (bind(listener_.get(), &at.any, at.size) != 0) throw_errno("bind");
  if (listen(listener_.get(), QUEUE) != 0) throw_errno("listen");
}

base::descriptor lifeline::call(const fabric_address& peer, watched& one) const noexcept {
  socket_address at;
  const bool is_tcp = host_address(peer, peer.lifeline, at);
  if (!is_tcp) {
    if (peer.host != host_ || host_ == 0) return {};
    at = local_address(peer);
  }
  base::descriptor out(socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out) return {};
  // It gives up a second early: its clock for this is coarse, and the polls that notice it need
  // time as well.
  if (is_tcp) keep_asking(out.get(), patience_s_ - MARGIN_S, one.was_up ? CALLS_AGAIN : CALLS);
  // How it ends later, epoll tells.
  if (connect(out.get(), &at.any, at.size) != 0 && errno != EINPROGRESS) one.error = errno;
  return out;
}

bool lifeline::watch(int rank, const fabric_address& peer) noexcept {
  watched& one = of_[static_cast<std::size_t>(rank)];
  one.is_up = false;
  one.error = 0;
  one.socket = call(peer, one);
  if (!one.socket) return false;
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP;
  wanted.data.u32 = static_cast<std::uint32_t>(rank);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, one.socket.get(), &wanted) == 0) return true;
  one.socket.reset();
  return false;
}

int lifeline::wait(epoll_event* events) noexcept {
  return epoll_wait(epoll_.get(), events, BATCH, 0);
}

bool lifeline::has_news(int rank, std::uint32_t events, news& what) noexcept {
  watched& one = of_[static_cast<std::size_t>(rank)];
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0) {
    // Connected. Nothing but the end is of interest from now on.
    one.is_up = one.was_up = true;
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLRDHUP;
    wanted.data.u32 = static_cast<std::uint32_t>(rank);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, one.socket.get(), &wanted);
    return false;
  }
  int error = one.error;
  socklen_t size = sizeof(error);
  if (error == 0) getsockopt(one.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  what = meaning_of(one, error);
  // Closing is not enough where a process that was forked has the socket as well.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
  one.socket.reset();
  return true;
}

lifeline::news lifeline::meaning_of(const watched& one, int error) noexcept {
  switch (error) {
    case 0:  // connected and over between two looks counts, too
    case ECONNRESET:
    case EPIPE:
      return news::ended;
    case ECONNREFUSED:
      return one.was_up ? news::ended : news::refused;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return one.was_up ? news::silent : news::none;
    default:  // of a call: what is lacking is on this host
      return one.is_up ? news::ended : news::none;
  }
}

}  // namespace lci::ofi
