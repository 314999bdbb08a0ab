#include "backends/ofi/nic_info.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdio>
#include <cstring>

#include "lci/net/connected/address_text.hpp"

namespace lci::ofi {
namespace {

std::string text_of(const sockaddr_in& address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
  return text;
}

std::string text_of(const sockaddr_in6& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
  return text;
}

// Up to its end, which not every provider writes.
std::string text_in(const char* bytes, std::size_t size) {
  std::string out(bytes, strnlen(bytes, size));
  for (char& one : out)
    if (one < ' ' || one > '~') one = '?';
  return out;
}

// FI_SOCKADDR leaves it to the address to say which it is.
bool is_of(const fi_info& info, std::uint32_t format, sa_family_t family, std::size_t size) {
  if (info.src_addrlen < size) return false;
  if (info.addr_format == format) return true;
  return info.addr_format == FI_SOCKADDR &&
         static_cast<const sockaddr*>(info.src_addr)->sa_family == family;
}

}  // namespace

std::string address_text(const fi_info& info) {
  if (info.src_addr == nullptr || info.src_addrlen == 0) return {};
  if (is_of(info, FI_SOCKADDR_IN, AF_INET, sizeof(sockaddr_in)))
    return text_of(*static_cast<const sockaddr_in*>(info.src_addr));
  if (is_of(info, FI_SOCKADDR_IN6, AF_INET6, sizeof(sockaddr_in6)))
    return text_of(*static_cast<const sockaddr_in6*>(info.src_addr));
  if (info.addr_format == FI_ADDR_STR)
    return text_in(static_cast<const char*>(info.src_addr), info.src_addrlen);
  return net::connected::text_of("0x", info.src_addr, info.src_addrlen);
}

std::string pci_address(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr) return {};
  const fi_bus_attr& bus = *info.nic->bus_attr;
  if (bus.bus_type != FI_BUS_PCI) return {};
  const fi_pci_attr& at = bus.attr.pci;
  char text[16];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", at.domain_id, at.bus_id, at.device_id,
                at.function_id);
  return text;
}

}  // namespace lci::ofi
