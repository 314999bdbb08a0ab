#include "lci/transport/url.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "lci/errors.hpp"
#include "tests/support/seed.hpp"

namespace lci::transports {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string ID(32, 'a'), KEY(64, '7');

url sample() {
  url out;
  out.address = "127.0.0.1";
  out.port = 4711;
  out.id = ID;
  out.key = KEY;
  out.providers = {"shm", "ofi"};
  out.until = 1'790'000'000;
  return out;
}

std::string refusal(const std::string& text) {
  try {
    return "read as " + text_of(parse_url(text));
  } catch (const argument_error& e) {
    return e.what();
  }
}

TEST(url, parse__what_text_of_has_written) {
  EXPECT_EQ(text_of(sample()),
            "lci://127.0.0.1:4711/?v=1&id=" + ID + "&k=" + KEY + "&p=shm,ofi&until=1790000000");
  EXPECT_EQ(text_of(parse_url(text_of(sample()))), text_of(sample()));
  url least = sample();
  least.address = "fe80::1";
  least.key.clear();
  least.providers.clear();
  least.until = 0;
  const url read = parse_url(text_of(least));
  EXPECT_EQ(read.address, "fe80::1");
  EXPECT_TRUE(read.key.empty() && read.providers.empty() && read.until == 0);
}

TEST(url, parse__parts_of_later_versions_are_passed_over) {
  EXPECT_EQ(parse_url(text_of(sample()) + "&new=thing").port, 4711);
}

TEST(url, parse__refusals_say_what_is_wrong_and_never_the_secret) {
  const std::string right = text_of(sample());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = right;
    return out.replace(out.find(from), from.size(), to);
  };
  EXPECT_THAT(refusal(""), HasSubstr("lci://"));
  EXPECT_THAT(refusal(with("lci", "http")), HasSubstr("lci://"));
  EXPECT_THAT(refusal(with(":4711", "")), HasSubstr("port"));
  EXPECT_THAT(refusal(with("4711", "0")), HasSubstr("1..65535"));
  EXPECT_THAT(refusal(with("4711", "65536")), HasSubstr("1..65535"));
  EXPECT_THAT(refusal(with("127.0.0.1", "localhost")), HasSubstr("numeric"));
  EXPECT_THAT(refusal(with("127.0.0.1", "[127.0.0.1]")), HasSubstr("numeric"));
  EXPECT_THAT(refusal(with("v=1", "v=2")), HasSubstr("version"));
  EXPECT_THAT(refusal(with("v=1", "w=1")), HasSubstr("version"));
  EXPECT_THAT(refusal(with("&p=", "&v=1&p=")), HasSubstr("twice"));
  EXPECT_THAT(refusal(with("id=a", "id=A")), HasSubstr("id"));
  EXPECT_THAT(refusal(with("k=7", "k=x")), HasSubstr("key"));
  EXPECT_THAT(refusal(with("shm,", "shm,,")), HasSubstr("providers"));
  EXPECT_THAT(refusal(with("until=1", "until=-1")), HasSubstr("end"));
  EXPECT_THAT(refusal(right + std::string(2000, 'x')), HasSubstr("bytes"));
  EXPECT_THAT(refusal(with("/?", "/")), HasSubstr("parts"));
  for (const char* change : {"k=7", "v=1", "id=a"})
    EXPECT_THAT(refusal(with(change, "k=zz")), Not(HasSubstr("7777")));
}

TEST(url, parse__changed_at_random_is_read_or_refused) {
  auto random = lci::test::seeded(2101);
  const std::string right = text_of(sample());
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = right;
    for (auto left = random() % 4 + 1; left > 0; --left) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8 + 1);
          break;
        default:
          text.insert(at, 1, static_cast<char>(random()));
      }
      if (text.empty()) text = "l";
    }
    try {
      const url read = parse_url(text);
      EXPECT_EQ(text_of(parse_url(text_of(read))), text_of(read)) << text;
    } catch (const argument_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 15'000);
}

TEST(url, address_of__numbers_that_a_peer_can_call) {
  const socket_address v4 = address_of("127.0.0.1", 4711), v6 = address_of("::1", 4711);
  EXPECT_EQ(v4.bytes.ss_family, AF_INET);
  EXPECT_EQ(v4.size, sizeof(sockaddr_in));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(&v4.bytes)->sin_port), 4711);
  EXPECT_EQ(v6.bytes.ss_family, AF_INET6);
  EXPECT_EQ(v6.size, sizeof(sockaddr_in6));
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in6*>(&v6.bytes)->sin6_port), 4711);
  for (const char* wrong : {"localhost", "", "0.0.0.0", "::"})
    EXPECT_THROW(address_of(wrong, 4711), argument_error) << wrong;
}

}  // namespace
}  // namespace lci::transports
