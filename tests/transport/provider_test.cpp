// Which network carries a connection: the one that was asked for, and no other.
#include <cstdio>
#include <cstdlib>

#include "both_ends.hpp"

namespace transport_test {
namespace {

// Prints it, for tests of one network that have to fail where another one was used, or none.
TEST(provider, asked_for__carries_what_is_written) {
  const char* const name = std::getenv("LCI_TEST_PROVIDER");
  if (name == nullptr) GTEST_SKIP() << "none was asked for";
  both_ends e;
  e.connect();
  std::vector<std::uint8_t> here = pattern(1 << 20, 2), there(1 << 20);
  lci::memory source(here.data(), here.size()), target(there.data(), there.size());
  ASSERT_TRUE(e.run_both(e.a.write(source.view(), target.remote(), true, 1)));
  e.note_of(e.b);
  EXPECT_EQ(there, here);
  const std::string carrier = std::string("1 peer over ") + name;
  for (lci::transport* one : {&e.a, &e.b})
    EXPECT_NE(one->describe().find(carrier), std::string::npos) << one->describe();
  std::printf("%s\n", e.a.describe().c_str());
}

}  // namespace
}  // namespace transport_test
