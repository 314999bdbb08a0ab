#include "lci/boot/tcp_address.hpp"

#include <netdb.h>

#include <cstring>
#include <memory>

#include "lci/errors.hpp"

namespace lci::boot {

bool is_loopback(const sockaddr* address) noexcept {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
  }
  return false;
}

bool is_wildcard(const sockaddr* address) noexcept {
  if (address->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == INADDR_ANY;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

namespace {

// What a name service answers that may know the name later.
bool may_be_known_later(int rc) noexcept {
  return rc == EAI_AGAIN || rc == EAI_NONAME || rc == EAI_NODATA || rc == EAI_FAIL;
}

[[noreturn]] void refuse_wildcard(const std::string& host, const std::string& source) {
  throw backend_error("tcp: " + source + " \"" + host +
                      "\" stands for all addresses of a host: expected one of rank 0's");
}

[[noreturn]] void refuse_address(const std::string& host, const std::string& source,
                                 const char* number) {
  throw backend_error("tcp: " + source + " \"" + host + "\" is " + number +
                      ", not a loopback address: without a key of the job anyone in the network "
                      "could join, so only "
                      "127.0.0.0/8 and ::1 are accepted; give all ranks one key in "
                      "LCT_PMI_TCP_KEY, or in a file that "
                      "LCT_PMI_TCP_KEY_FILE names (openssl rand -hex 32)");
}

}  // namespace

std::vector<tcp_address> resolve(const std::string& host, int port, const std::string& source,
                                 bool has_key, std::string* unknown) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int rc = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw);
  if (unknown != nullptr && may_be_known_later(rc)) {
    *unknown = "\"" + host + "\": " + ::gai_strerror(rc);
    return {};
  }
  if (rc != 0) throw backend_error("tcp: " + source + " \"" + host + "\": " + ::gai_strerror(rc));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  std::vector<tcp_address> out;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    char number[INET6_ADDRSTRLEN + 16] = "?";
    ::getnameinfo(a->ai_addr, a->ai_addrlen, number, sizeof number, nullptr, 0, NI_NUMERICHOST);
    if (is_wildcard(a->ai_addr)) refuse_wildcard(host, source);
    if (!has_key && !is_loopback(a->ai_addr)) refuse_address(host, source, number);
    tcp_address entry{};
    std::memcpy(&entry.bytes, a->ai_addr, a->ai_addrlen);
    entry.size = a->ai_addrlen;
    entry.text.append(number).append(" port ").append(std::to_string(port));
    out.push_back(entry);
  }
  if (out.empty()) throw backend_error("tcp: " + source + " \"" + host + "\" has no address");
  return out;
}

}  // namespace lci::boot
