#include "lci/transport/memory_key.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "lci/transport/hub.hpp"
#include "tests/support/sanitized.hpp"

namespace lci::transports {
namespace {

memory_key some_key() {
  memory_key key;
  key.slot = 5;
  key.generation = 2;
  key.number = 9;
  key.address = 0x7f0012345678;
  key.size = 1 << 20;
  key.ends_ms = 1234567890123;
  key.rights = memory_key::MAY_WRITE;
  return key;
}

TEST(memory_key, read_key__what_write_key_has_written) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  const std::string text = write_key(some_key());
  EXPECT_TRUE(is_own(text));
  const auto back = read_key(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->slot, 5u);
  EXPECT_EQ(back->generation, 2u);
  EXPECT_EQ(back->number, 9u);
  EXPECT_EQ(back->address, 0x7f0012345678u);
  EXPECT_EQ(back->size, 1u << 20);
  EXPECT_EQ(back->ends_ms, 1234567890123u);
  EXPECT_EQ(back->rights, memory_key::MAY_WRITE);
  EXPECT_EQ(write_key(*back), text);
}

TEST(memory_key, is_own__nothing_altered) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  std::mt19937_64 random(4);
  const std::string good = write_key(some_key());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char other : {'0', 'f', 'A', 'x', '\0'}) {
      std::string bad = good;
      bad[at] = other;
      EXPECT_EQ(is_own(bad), bad == good) << at;
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(is_own(good.substr(0, size)));
    EXPECT_FALSE(read_key(good.substr(0, size)));
  }
  EXPECT_FALSE(is_own(good + "0"));
  for (int i = 0; i < (lci::test::IS_SANITIZED ? 10000 : 100000); ++i) {
    std::string bad(good.substr(0, 6));
    while (bad.size() < good.size()) bad += "0123456789abcdef"[random() % 16];
    EXPECT_FALSE(is_own(bad));
  }
}

TEST(memory_key, is_own__not_in_a_child) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  const std::string text = write_key(some_key());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_own(text) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace lci::transports
