#include "lci/boot/seal.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/seed.hpp"

namespace lci::boot {
namespace {

constexpr auto JOINER = sealed_stream::side::joiner;
constexpr auto ROOT = sealed_stream::side::root;
const std::string KEY_OF_JOB = "the key of this job";

struct ends {
  explicit ends(const std::string& of_joiner = KEY_OF_JOB, const std::string& of_root = KEY_OF_JOB)
      : joiner(job_key(of_joiner), JOINER), root(job_key(of_root), ROOT) {}
  void greet() {
    std::string plain;
    EXPECT_TRUE(root.open(joiner.greeting(), plain));
    EXPECT_TRUE(joiner.open(root.greeting(), plain));
    EXPECT_TRUE(plain.empty());
  }
  sealed_stream joiner, root;
};

class seal_test : public testing::Test {
 protected:
  seal_test() {
    if (const auto why = keys_unavailable()) skip_ = *why;
  }
  void SetUp() override {
    if (!skip_.empty()) GTEST_SKIP() << skip_;
  }
  std::string skip_;
};

TEST_F(seal_test, open__what_was_sealed_both_ways_in_any_pieces) {
  auto random = test::seeded(51);
  for (const std::size_t length : {0u, 1u, 40u, 16'383u, 16'384u, 16'385u, 100'000u}) {
    ends e;
    e.greet();
    std::string text;
    for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(random());
    std::string wire = e.root.seal(text), plain;
    while (!wire.empty()) {
      const std::size_t piece = std::min<std::size_t>(wire.size(), random() % 5000 + 1);
      ASSERT_TRUE(e.joiner.open(wire.substr(0, piece), plain));
      wire.erase(0, piece);
    }
    EXPECT_EQ(plain, text);
    plain.clear();
    EXPECT_FALSE(e.root.is_proven());
    ASSERT_TRUE(e.root.open(e.joiner.seal("hello"), plain));
    EXPECT_TRUE(e.root.is_proven());
    EXPECT_EQ(plain, "hello");
  }
}

TEST_F(seal_test, open__other_key_is_found_out_on_both_sides) {
  ends e(KEY_OF_JOB, "the key of another job");
  e.greet();
  std::string plain;
  EXPECT_FALSE(e.root.open(e.joiner.seal("hello"), plain));
  EXPECT_NE(e.root.why().find("does not know the key"), std::string::npos) << e.root.why();
  EXPECT_FALSE(e.joiner.open(e.root.seal("welcome"), plain));
  EXPECT_TRUE(plain.empty());
  // It stays refused.
  EXPECT_FALSE(e.root.open("x", plain));
}

TEST_F(seal_test, open__changed_repeated_and_missing_records) {
  for (int what = 0; what < 3; ++what) {
    ends e;
    e.greet();
    const std::string one = e.joiner.seal("one"), two = e.joiner.seal("two");
    std::string plain;
    ASSERT_TRUE(e.root.open(one, plain));
    std::string next = what == 0 ? two : one;
    if (what == 0) next.back() = static_cast<char>(next.back() ^ 1);
    if (what == 2) next = e.joiner.seal("three");
    EXPECT_FALSE(e.root.open(next, plain)) << what;
    EXPECT_EQ(plain, "one");
    EXPECT_NE(e.root.why().find("changed on the way"), std::string::npos) << e.root.why();
  }
}

// What was recorded of one connection opens nothing in another.
TEST_F(seal_test, open__replays_are_refused) {
  ends first, second;
  first.greet();
  const std::string recorded = first.joiner.greeting() + first.joiner.seal("hello");
  std::string plain;
  EXPECT_FALSE(second.root.open(recorded, plain));
  EXPECT_TRUE(plain.empty());
  // Sent back to who said it.
  ends third;
  EXPECT_FALSE(third.joiner.open(third.joiner.greeting(), plain));
}

TEST_F(seal_test, open__strangers_get_no_room) {
  ends e;
  std::string plain;
  ASSERT_TRUE(e.root.open(e.joiner.greeting(), plain));
  EXPECT_FALSE(e.root.open(std::string("\x41\0\0\0", 4), plain));  // 65 bytes to come
  ends f;
  ASSERT_TRUE(f.root.open(f.joiner.greeting(), plain));
  EXPECT_TRUE(f.root.open(std::string("\x40\0\0\0", 4), plain));
  ends g;
  EXPECT_FALSE(g.root.open("G", plain));  // the first byte is enough
}

// Any change of any bytes: nothing opens, unless nothing was changed.
TEST_F(seal_test, open__mutated) {
  auto random = test::seeded(52);
  int opened = 0;
  for (int i = 0; i < 20'000; ++i) {
    ends e;
    std::string plain, greeting = e.joiner.greeting();
    if (random() % 2 == 0)
      greeting[random() % greeting.size()] ^= static_cast<char>(1 << random() % 8);
    e.root.open(greeting, plain);
    if (e.root.is_greeted()) {
      ASSERT_TRUE(e.joiner.open(e.root.greeting(), plain));
      std::string record = e.joiner.seal("hello");
      if (greeting == e.joiner.greeting())
        record[random() % record.size()] ^= static_cast<char>(1 << random() % 8);
      e.root.open(record, plain);
    }
    if (e.root.is_proven()) ++opened;
  }
  EXPECT_EQ(opened, 0);
}

TEST_F(seal_test, key__short_secrets_are_refused_and_made_ones_differ) {
  EXPECT_TRUE(
      test::throws_with<argument_error>([] { job_key("short"); }, {"5 bytes", "expected 16"}));
  const std::string one = make_secret(), two = make_secret();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace lci::boot
