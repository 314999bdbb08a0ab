// Ports of the loopback interface at which nothing listens.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "lci/boot/fd.hpp"

namespace lci::boot {

// Keeps others from that port of the loopback interface: a connection to it is refused. Empty:
// somebody has it.
inline base::descriptor hold_port(int port) {
  base::descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// Below 32768, where Linux takes the ports that nobody asked for by number: other programs of this
// machine get none of these by chance. Each process begins elsewhere.
inline int free_port() {
  constexpr int FIRST = 20000, COUNT = 12000;
  static int next = static_cast<int>(::getpid() * 37L % COUNT);
  for (int tries = 0; tries < COUNT; ++tries) {
    const int port = FIRST + next++ % COUNT;
    if (hold_port(port)) return port;
  }
  ADD_FAILURE() << "no port from " << FIRST << " to " << FIRST + COUNT - 1 << " is free";
  return 0;
}

}  // namespace lci::boot
