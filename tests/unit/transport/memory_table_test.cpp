// What a memory refuses after its keys were withdrawn one by one.
#include "lci/transport/memory_table.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <utility>

#include "lci/errors.hpp"
#include "lci/transport/hub.hpp"

namespace lci::transports {
namespace {

TEST(memory_table, withdrawn__in_any_order) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  char bytes[8] = {};
  const std::shared_ptr<memory_state> one = memory_table::add(bytes, sizeof bytes);
  key_options limited;
  limited.valid_s = 3600;
  std::vector<memory_key> keys;
  for (int i = 0; i < 5; ++i) keys.push_back(*read_key(one->give_key(limited)));
  for (const std::size_t i : {1, 2, 0, 4}) {
    one->withdraw(keys[i]);
    EXPECT_EQ(one->refusal_of(keys[i]), "it was revoked");
    EXPECT_EQ(one->refusal_of(keys[3]), "");
  }
  for (const std::size_t i : {0, 1, 2, 4}) EXPECT_EQ(one->refusal_of(keys[i]), "it was revoked");
  EXPECT_EQ(one->refusal_of(*read_key(one->give_key(limited))), "");
  memory_table::remove(*one);
}

// What a key cannot keep is refused, not cut.
TEST(memory_table, give_key__time_beyond_all_clocks) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  char bytes[8] = {};
  const std::shared_ptr<memory_state> one = memory_table::add(bytes, sizeof bytes);
  key_options options;
  options.valid_s = 1e9;
  const std::uint64_t before = clock_ms();
  const memory_key key = *read_key(one->give_key(options));
  EXPECT_EQ(one->refusal_of(key), "");
  EXPECT_GE(key.ends_ms, before + 1'000'000'000'000);
  using limits = std::numeric_limits<double>;
  const std::pair<double, const char*> refused[] = {
      {std::nextafter(1e9, 1e10), "1000000000.0000001"},
      {1e300, "1e+300"},
      {limits::infinity(), "inf"},
      {-limits::infinity(), "-inf"},
      {limits::quiet_NaN(), "nan"},
      {-1e-300, "-1e-300"}};
  for (const auto& [valid_s, text] : refused) {
    options.valid_s = valid_s;
    try {
      one->give_key(options);
      ADD_FAILURE() << text;
    } catch (const argument_error& e) {
      EXPECT_EQ(e.what(),
                std::string("remote_key: valid_s is ") + text + "; expected 0 to 1e9 seconds");
    }
  }
  memory_table::remove(*one);
}

TEST(memory_table, give_key__a_child_gets_one_of_its_own) {
  if (const auto why = hub::why_unsupported()) GTEST_SKIP() << *why;
  char bytes[8] = {};
  const std::shared_ptr<memory_state> one = memory_table::add(bytes, sizeof bytes);
  const std::string of_parent = one->give_key({});
  EXPECT_EQ(one->give_key({}), of_parent);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string why;
    const std::string text = one->give_key({});
    const bool is_good = memory_table::admit(text, why) && text == one->give_key({});
    ::_exit(is_good && !memory_table::admit(of_parent, why) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  memory_table::remove(*one);
}

}  // namespace
}  // namespace lci::transports
