#include "lci/boot/kv_wire.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/seed.hpp"

namespace lci::boot::kv {
namespace {

std::string any_bytes(std::mt19937_64& random, std::size_t size) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

TEST(kv_wire, frames__round_trip_whole) {
  std::string bytes;
  encode_hello(bytes, 3, 8);
  encode_welcome(bytes, 3, 8);
  encode_put(bytes, "key", std::string("\0\xff", 2));
  encode_arrive(bytes, 77);
  encode_value(bytes, 5, "k", "");
  encode_released(bytes, 78);
  encode_fail(bytes, "why");
  encode_leave(bytes);
  encode_ended(bytes, 6, "how");
  encode_left(bytes, std::vector<int>{4, 7});
  splitter in;
  in.feed(bytes);
  auto f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::hello);
  EXPECT_EQ(decode_hello(f->body)->rank, 3);
  EXPECT_EQ(decode_hello(f->body)->size, 8);
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::welcome);
  EXPECT_EQ(decode_welcome(f->body)->size, 8);
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::put);
  EXPECT_EQ(decode_put(f->body)->key, "key");
  EXPECT_EQ(decode_put(f->body)->value, std::string("\0\xff", 2));
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::arrive);
  EXPECT_EQ(decode_round(f->body), 77u);
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::value);
  EXPECT_EQ(decode_value(f->body)->rank, 5);
  EXPECT_EQ(decode_value(f->body)->value, "");
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::released);
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::fail);
  EXPECT_EQ(f->body, "why");
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::leave);
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::gone);
  EXPECT_EQ(decode_ended(f->body)->rank, 6);
  EXPECT_EQ(decode_ended(f->body)->why, "how");
  EXPECT_FALSE(decode_ended(f->body.substr(0, 3))) << "no rank";
  EXPECT_FALSE(decode_ended("\xff\xff\xff\xff")) << "no such rank";
  f = in.next();
  ASSERT_TRUE(f && f->type == frame_type::left);
  EXPECT_EQ(decode_left(f->body), (std::vector<int>{4, 7}));
  EXPECT_FALSE(decode_left(f->body.substr(0, 7))) << "half a rank";
  EXPECT_FALSE(decode_left("")) << "nobody";
  EXPECT_FALSE(decode_left("\xff\xff\xff\xff")) << "no such rank";
  EXPECT_FALSE(in.next());
  EXPECT_FALSE(in.is_broken());
}

TEST(kv_wire, left__many_ranks_take_several_frames) {
  std::vector<int> ranks(2 * MAX_LEFT + 1), seen;
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(3 * i);
  std::string bytes;
  encode_left(bytes, ranks);
  splitter in;
  in.feed(bytes);
  int frames = 0;
  while (const auto f = in.next()) {
    ASSERT_EQ(f->type, frame_type::left);
    const auto some = decode_left(f->body);
    ASSERT_TRUE(some);
    seen.insert(seen.end(), some->begin(), some->end());
    ++frames;
  }
  EXPECT_FALSE(in.is_broken());
  EXPECT_EQ(frames, 3);
  EXPECT_EQ(seen, ranks);
}

TEST(kv_wire, splitter__bytes_one_by_one) {
  std::string bytes;
  for (std::uint32_t i = 0; i < 20; ++i) encode_put(bytes, "key" + std::to_string(i), "value");
  splitter in;
  std::uint32_t seen = 0;
  for (const char c : bytes) {
    in.feed(std::string_view(&c, 1));
    while (const auto f = in.next()) {
      EXPECT_EQ(decode_put(f->body)->key, "key" + std::to_string(seen));
      ++seen;
    }
  }
  EXPECT_EQ(seen, 20u);
}

TEST(kv_wire, largest_value__fits_and_one_more_does_not) {
  std::string bytes;
  encode_value(bytes, 1, std::string(MAX_KEY, 'k'), std::string(MAX_VALUE, 'v'));
  splitter in;
  in.feed(bytes);
  const auto f = in.next();
  ASSERT_TRUE(f);
  ASSERT_TRUE(decode_value(f->body));
  EXPECT_EQ(decode_value(f->body)->value.size(), MAX_VALUE);

  std::string more;
  encode_put(more, "k", std::string(MAX_VALUE + 1, 'v'));
  splitter other;
  other.feed(more);
  const auto g = other.next();
  EXPECT_TRUE(!g || !decode_put(g->body));
}

TEST(kv_wire, splitter__foreign_protocol_is_found_out_by_its_first_bytes) {
  const std::string tls("\x16\x03\x01\x02\x00\x01", 6);
  for (const std::string& text : {std::string("GET / HTTP/1.1"), std::string("SSH-2.0"), tls}) {
    splitter in;
    in.feed(text);
    EXPECT_FALSE(in.next()) << text;
    EXPECT_TRUE(in.is_broken()) << text;
  }
}

TEST(kv_wire, splitter__length_beyond_the_type_is_not_waited_for) {
  std::string bytes;
  encode_arrive(bytes, 1);
  bytes[0] = 5;  // an arrive has four bytes
  splitter in;
  in.feed(bytes.substr(0, 5));
  EXPECT_FALSE(in.next());
  EXPECT_TRUE(in.is_broken());
}

TEST(kv_wire, splitter__broken_stays_broken) {
  splitter in;
  in.feed("xxxxxxxx");
  EXPECT_FALSE(in.next());
  std::string good;
  encode_arrive(good, 1);
  in.feed(good);
  EXPECT_FALSE(in.next());
  EXPECT_TRUE(in.is_broken());
}

TEST(kv_wire, decode_hello__each_field_is_checked) {
  std::string good;
  encode_hello(good, 1, 2);
  const std::string body = good.substr(HEADER);
  ASSERT_TRUE(decode_hello(body));
  for (const std::size_t at : {0u, 3u, 4u, 6u}) {  // magic, version, reserved
    std::string bad = body;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    EXPECT_FALSE(decode_hello(bad)) << at;
  }
  std::string rank_too_large, no_ranks;
  encode_hello(rank_too_large, 2, 2);
  encode_hello(no_ranks, 0, 0);
  EXPECT_FALSE(decode_hello(rank_too_large.substr(HEADER)));
  EXPECT_FALSE(decode_hello(no_ranks.substr(HEADER)));
  for (std::size_t n = 0; n < body.size(); ++n) EXPECT_FALSE(decode_hello(body.substr(0, n))) << n;
  EXPECT_FALSE(decode_hello(body + "x"));
}

TEST(kv_wire, decode_put__key_length_is_checked) {
  EXPECT_FALSE(decode_put(std::string("\0\0value", 7)));  // empty key
  EXPECT_FALSE(decode_put(std::string("\5\0key", 5)));    // key longer than the body
  EXPECT_FALSE(decode_put(std::string("\1", 1)));
  EXPECT_FALSE(decode_put(std::string("\0\1", 2) + std::string(256, 'k')));  // beyond MAX_KEY
  EXPECT_TRUE(decode_put(std::string("\3\0key", 5)));
}

// Random bytes, and valid streams with random damage: nothing is read outside (the sanitizers
// watch), nothing but whole, small frames comes out, and it ends.
TEST(kv_wire, decoders__survive_any_bytes) {
  auto random = test::seeded(2);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes;
    if (i % 2 == 0) {
      bytes = any_bytes(random, random() % 200);
    } else {
      encode_hello(bytes, static_cast<int>(random() % 4), 4);
      encode_put(bytes, any_bytes(random, 1 + random() % 20), any_bytes(random, random() % 100));
      encode_value(bytes, 2, "k", any_bytes(random, random() % 100));
      encode_ended(bytes, 2, any_bytes(random, random() % 100));
      encode_left(bytes, std::vector<int>(random() % 5, 1));
      encode_arrive(bytes, static_cast<std::uint32_t>(random()));
      for (auto n = random() % 4; n > 0; --n)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      bytes.resize(random() % (bytes.size() + 1));
    }
    splitter in;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 50, bytes.size() - at);
      in.feed(std::string_view(bytes).substr(at, n));
      at += n;
      while (const auto f = in.next()) {
        ASSERT_LE(f->body.size(), MAX_BODY);
        decode_hello(f->body);
        decode_welcome(f->body);
        const auto v = decode_value(f->body);
        ASSERT_TRUE(!v || v->key.size() <= MAX_KEY);
        const auto p = decode_put(f->body);
        ASSERT_TRUE(!p || !p->key.empty());
        decode_round(f->body);
        const auto g = decode_ended(f->body);
        ASSERT_TRUE(!g || g->rank < MAX_RANKS);
        for (const int rank : decode_left(f->body).value_or(std::vector<int>()))
          ASSERT_LT(rank, MAX_RANKS);
      }
    }
  }
}

}  // namespace
}  // namespace lci::boot::kv
