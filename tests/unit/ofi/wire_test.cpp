#include "backends/ofi/wire.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace lci::ofi {
namespace {

fabric_address some_address(std::size_t name) {
  fabric_address out;
  out.id = 0x0123456789abcdefull;
  out.host = 42;
  out.lifeline = 47001;
  out.name.size = static_cast<std::uint16_t>(name);
  for (std::size_t i = 0; i < name; ++i) out.name.bytes[i] = static_cast<std::uint8_t>(255 - i);
  return out;
}

}  // namespace

TEST(fabric_address, text__comes_back_as_it_was_and_fits) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{16}, MAX_NAME}) {
    const fabric_address there = some_address(size);
    EXPECT_LE(there.text().size(), 200u);
    fabric_address back;
    ASSERT_TRUE(fabric_address::parse(there.text(), back));
    EXPECT_EQ(back.id, there.id);
    EXPECT_EQ(back.host, there.host);
    EXPECT_EQ(back.lifeline, there.lifeline);
    EXPECT_TRUE(back.name == there.name);
  }
}

TEST(fabric_address, parse__refuses_what_makes_no_sense) {
  const std::string good = some_address(16).text();
  fabric_address out;
  for (const std::string& bad :
       {std::string(), std::string("ofi1:"), "ibv1:" + good.substr(5),
        good.substr(0, good.size() - 1), good + "g0", good.substr(0, 5 + 36),
        good + std::string(2 * MAX_NAME, '0'), " " + good})
    EXPECT_FALSE(fabric_address::parse(bad, out)) << bad;
}

TEST(hello, decode__refuses_other_sizes_versions_and_names) {
  hello said;
  said.name.size = 3;
  const auto* bytes = reinterpret_cast<const std::byte*>(&said);
  hello out;
  EXPECT_TRUE(decode(bytes, sizeof(said), out));
  EXPECT_FALSE(decode(bytes, sizeof(said) - 1, out));
  EXPECT_FALSE(decode(bytes, 0, out));
  said.version = WIRE_VERSION + 1;
  EXPECT_FALSE(decode(bytes, sizeof(said), out));
  said.version = WIRE_VERSION;
  said.magic ^= 1;
  EXPECT_FALSE(decode(bytes, sizeof(said), out));
  said.magic ^= 1;
  for (const std::uint16_t size : {std::uint16_t{0}, std::uint16_t{MAX_NAME + 1}}) {
    said.name.size = size;
    EXPECT_FALSE(decode(bytes, sizeof(said), out)) << size;
  }
}

namespace {

fabric_address at_host(std::uint64_t host, const char* address) {
  fabric_address out;
  out.host = host;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
    out.name.size = sizeof(v4);
    std::memcpy(out.name.bytes, &v4, sizeof(v4));
  } else if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1) {
    out.name.size = sizeof(v6);
    std::memcpy(out.name.bytes, &v6, sizeof(v6));
  } else {
    out.name.size = static_cast<std::uint16_t>(std::strlen(address));
    std::memcpy(out.name.bytes, address, out.name.size);
  }
  return out;
}

}  // namespace

TEST(address, why_apart__a_loopback_address_is_of_its_host_alone) {
  for (const char* own : {"127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_THAT(at_host(1, own).why_apart(at_host(2, "10.0.0.2")),
                testing::StartsWith("this rank"));
    EXPECT_THAT(at_host(1, "10.0.0.1").why_apart(at_host(2, own)),
                testing::StartsWith("that rank"));
    EXPECT_EQ(at_host(1, own).why_apart(at_host(1, own)), "");
  }
  EXPECT_EQ(at_host(1, "10.0.0.1").why_apart(at_host(2, "fe80::1")), "");
  EXPECT_EQ(at_host(1, "fake://127").why_apart(at_host(2, "x")), "");
}

TEST(note, decode__refuses_other_sizes_and_kinds) {
  note said;
  const auto* bytes = reinterpret_cast<const std::byte*>(&said);
  note out;
  EXPECT_TRUE(decode(bytes, sizeof(said), out));
  EXPECT_FALSE(decode(bytes, sizeof(said) + 1, out));
  for (const std::uint32_t kind : {0u, 11u, ~0u}) {
    said.what = static_cast<note::kind>(kind);
    EXPECT_FALSE(decode(bytes, sizeof(said), out)) << kind;
  }
}

TEST(word, parts__come_back) {
  for (const std::uint32_t imm : {0u, 1u, ~0u}) {
    for (const int rank : {0, 7, (1 << 30) - 1}) {
      const word all(word::make(rank, word::kind::note, imm));
      EXPECT_EQ(all.rank(), static_cast<std::uint32_t>(rank));
      EXPECT_EQ(all.imm(), imm);
      EXPECT_TRUE(all.is(word::kind::note));
      EXPECT_FALSE(all.is(word::kind::message));
    }
  }
}

TEST(is_same_address, compares__what_says_where_and_nothing_else) {
  const auto name_of = [](const auto& address, std::size_t size) {
    endpoint_name out;
    out.size = static_cast<std::uint16_t>(size);
    std::memcpy(out.bytes, &address, size);
    return out;
  };
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = 1;
  a.sin_addr.s_addr = 2;
  sockaddr_in b = a;
  b.sin_zero[3] = 7;
  EXPECT_TRUE(is_same_address(name_of(a, sizeof(a)), name_of(b, sizeof(b))));
  EXPECT_FALSE(is_same_address(name_of(a, sizeof(a)), name_of(b, sizeof(b) - 1)));
  b.sin_port = 3;
  EXPECT_FALSE(is_same_address(name_of(a, sizeof(a)), name_of(b, sizeof(b))));
  b = a;
  b.sin_addr.s_addr = 4;
  EXPECT_FALSE(is_same_address(name_of(a, sizeof(a)), name_of(b, sizeof(b))));
  b = a;
  b.sin_family = AF_UNIX;
  EXPECT_FALSE(is_same_address(name_of(b, sizeof(b)), name_of(b, sizeof(b))));
  sockaddr_in6 c{};
  c.sin6_family = AF_INET6;
  c.sin6_port = 1;
  sockaddr_in6 d = c;
  d.sin6_flowinfo = 9;
  EXPECT_TRUE(is_same_address(name_of(c, sizeof(c)), name_of(d, sizeof(d))));
  EXPECT_FALSE(is_same_address(name_of(a, sizeof(a)), name_of(c, sizeof(c))));
  d.sin6_addr.s6_addr[15] = 1;
  EXPECT_FALSE(is_same_address(name_of(c, sizeof(c)), name_of(d, sizeof(d))));
  EXPECT_FALSE(is_same_address({}, {}));
}

}  // namespace lci::ofi
