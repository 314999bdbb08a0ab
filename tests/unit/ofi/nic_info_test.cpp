#include "backends/ofi/nic_info.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace lci::ofi {
namespace {

// What is said of that address.
template <class T>
std::string said_of(std::uint32_t format, const T& address, std::size_t size = sizeof(T)) {
  fi_info info{};
  info.addr_format = format;
  info.src_addr = const_cast<T*>(&address);  // only read
  info.src_addrlen = size;
  return address_text(info);
}

sockaddr_in four() {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(0x0a010203);
  return out;
}

}  // namespace

TEST(card_test, address_text__of_each_format) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "fe80::1:2", &six.sin6_addr);
  EXPECT_EQ(said_of(FI_SOCKADDR_IN, four()), "10.1.2.3");
  EXPECT_EQ(said_of(FI_SOCKADDR_IN6, six), "fe80::1:2");
  EXPECT_EQ(said_of(FI_SOCKADDR, four()), "10.1.2.3");
  EXPECT_EQ(said_of(FI_SOCKADDR, six), "fe80::1:2");
  EXPECT_EQ(said_of(FI_ADDR_STR, "fi_shm://7\n"), "fi_shm://7?");
  EXPECT_EQ(said_of(FI_ADDR_EFA, std::uint32_t{0}), "0x00000000");
}

TEST(card_test, address_text__of_what_is_shorter_than_it_says) {
  EXPECT_EQ(said_of(FI_SOCKADDR_IN, four(), 4), "0x02000000");
  const char endless[3] = {'a', 'b', 'c'};
  EXPECT_EQ(said_of(FI_ADDR_STR, endless), "abc");
  EXPECT_EQ(address_text(fi_info{}), "");
}

TEST(card_test, pci_address__only_of_a_card_on_that_bus) {
  fi_info info{};
  EXPECT_EQ(pci_address(info), "");
  fid_nic nic{};
  info.nic = &nic;
  EXPECT_EQ(pci_address(info), "");
  fi_bus_attr bus{};
  nic.bus_attr = &bus;
  bus.bus_type = FI_BUS_UNKNOWN;
  bus.attr.pci = {1, 0x3b, 0x1f, 7};
  EXPECT_EQ(pci_address(info), "");
  bus.bus_type = FI_BUS_PCI;
  EXPECT_EQ(pci_address(info), "0001:3b:1f.7");
}

}  // namespace lci::ofi
