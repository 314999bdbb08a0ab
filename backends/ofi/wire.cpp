#include "backends/ofi/wire.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lci/net/connected/address_text.hpp"

namespace lci::ofi {
namespace {

constexpr std::string_view PREFIX = "ofi1:";
constexpr std::size_t FIXED = 2 * sizeof(std::uint64_t) + sizeof(std::uint16_t);
// A name as an address of that family. False where it is none.
template <class Address>
bool read(const endpoint_name& from, sa_family_t family, Address& out) noexcept {
  sa_family_t its = 0;
  if (from.size != sizeof(out)) return false;
  std::memcpy(&its, from.bytes, sizeof(its));
  std::memcpy(&out, from.bytes, sizeof(out));
  return its == family;
}

// Addresses of other kinds are of no host.
bool is_loopback(const endpoint_name& name) noexcept {
  sockaddr_in v4;
  sockaddr_in6 v6;
  if (read(name, AF_INET, v4)) return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  return read(name, AF_INET6, v6) && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

}  // namespace

bool is_same_address(const endpoint_name& a, const endpoint_name& b) noexcept {
  sockaddr_in a4, b4;
  if (read(a, AF_INET, a4) && read(b, AF_INET, b4))
    return a4.sin_port == b4.sin_port && a4.sin_addr.s_addr == b4.sin_addr.s_addr;
  sockaddr_in6 a6, b6;
  return read(a, AF_INET6, a6) && read(b, AF_INET6, b6) && a6.sin6_port == b6.sin6_port &&
         std::memcmp(&a6.sin6_addr, &b6.sin6_addr, sizeof(a6.sin6_addr)) == 0;
}

std::string fabric_address::why_apart(const fabric_address& peer) const {
  if (host == peer.host) return {};
  for (const bool is_ours : {true, false})
    if (is_loopback(is_ours ? name : peer.name))
      return std::string(is_ours ? "this rank" : "that rank") +
             " has only a loopback address, and the other one is on another host or in another "
             "container: a network interface has to be up there";
  return {};
}

std::string fabric_address::text() const {
  std::string bytes(FIXED + name.size, '\0');
  std::memcpy(bytes.data(), &id, sizeof(id));
  std::memcpy(bytes.data() + 8, &host, sizeof(host));
  std::memcpy(bytes.data() + 16, &lifeline, sizeof(lifeline));
  std::memcpy(bytes.data() + FIXED, name.bytes, name.size);
  return net::connected::text_of(PREFIX, bytes.data(), bytes.size());
}

bool fabric_address::parse(std::string_view text, fabric_address& out) noexcept {
  unsigned char bytes[FIXED + MAX_NAME];
  const std::size_t size = net::connected::bytes_of(PREFIX, text, bytes, sizeof(bytes));
  if (size <= FIXED) return false;
  std::memcpy(&out.id, bytes, sizeof(out.id));
  std::memcpy(&out.host, bytes + 8, sizeof(out.host));
  std::memcpy(&out.lifeline, bytes + 16, sizeof(out.lifeline));
  out.name.size = static_cast<std::uint16_t>(size - FIXED);
  std::memcpy(out.name.bytes, bytes + FIXED, out.name.size);
  return true;
}

}  // namespace lci::ofi
