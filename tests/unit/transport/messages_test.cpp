#include "lci/transport/messages.hpp"

#include <gtest/gtest.h>

#include <random>

namespace lci::transports {
namespace {

std::vector<link_message> all_kinds() {
  answer good;
  good.number = 7;
  good.is_good = true;
  good.memory = 0x100000002;
  good.address = 0x7fff00001000;
  good.size = 4096;
  good.rights = 3;
  good.left_ms = 1000;
  good.rmr.base = 0x7fff00000000;
  good.rmr.mr_base = 1234567;
  good.rmr.opaque_rkey = 99;
  answer bad;
  bad.reason = "it was revoked";
  return {hello{1, 5},
          ask{3, "lcik1-00"},
          good,
          bad,
          withdrawn{77, 3},
          released{3, 5},
          bell{true, true, 4, 3, 1ULL << 40}};
}

TEST(messages, decode__what_encode_has_written) {
  for (const link_message& one : all_kinds()) {
    const std::string bytes = encode(one);
    const auto back = decode(bytes);
    ASSERT_TRUE(back) << one.index();
    EXPECT_EQ(back->index(), one.index());
    EXPECT_EQ(encode(*back), bytes);
  }
}

TEST(messages, encode__cuts_long_reasons) {
  answer one;
  one.reason = std::string(10000, 'x');
  EXPECT_LT(encode(one).size(), 400u);
}

TEST(messages, decode__refuses_all_but_whole_messages) {
  EXPECT_FALSE(decode(""));
  EXPECT_FALSE(decode("\x63"));
  for (const link_message& one : all_kinds()) {
    const std::string bytes = encode(one);
    const bool has_text = std::holds_alternative<ask>(one) || std::holds_alternative<answer>(one);
    if (!has_text) {
      EXPECT_FALSE(decode(bytes + "x"));
    }
    const std::size_t fixed = std::holds_alternative<ask>(one)      ? 5
                              : std::holds_alternative<answer>(one) ? 63
                                                                    : bytes.size();
    for (std::size_t size = 0; size < fixed; ++size)
      EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << one.index() << " " << size;
  }
}

TEST(messages, decode__survives_anything) {
  std::mt19937_64 random(3);
  const std::vector<link_message> kinds = all_kinds();
  for (int i = 0; i < 100000; ++i) {
    std::string bytes = encode(kinds[random() % kinds.size()]);
    for (std::uint64_t n = random() % 4; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 2));
    if (const auto one = decode(bytes)) {
      EXPECT_LE(encode(*one).size(), bytes.size());
    }
  }
}

}  // namespace
}  // namespace lci::transports
