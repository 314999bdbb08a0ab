// Names and numbers of TCP endpoints. Threads: any.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace lci::boot {

struct tcp_address {
  sockaddr_storage bytes;
  socklen_t size;
  std::string text;  // "127.0.0.1:4711"
};

// All addresses of `host`. Throws backend_error when it cannot be resolved, when one of them is not
// a loopback address and the job has no key, and when one is a wildcard. `source` is the variable
// that gave the host. With `unknown`, a name that the name service does not know, or not now, is no
// error: the result is empty, and `unknown` says why.
std::vector<tcp_address> resolve(const std::string& host, int port, const std::string& source,
                                 bool has_key, std::string* unknown = nullptr);

// 127.0.0.0/8 or ::1.
bool is_loopback(const sockaddr* address) noexcept;
// 0.0.0.0 or ::, by which no host can be reached and on which every host would be let in.
bool is_wildcard(const sockaddr* address) noexcept;

}  // namespace lci::boot
