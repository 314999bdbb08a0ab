#include "lci/boot/tcp_variables.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <vector>

#include "tests/support/scoped_env.hpp"

namespace lci::boot {
namespace {

class tcp_variables_test : public testing::Test {
 protected:
  tcp_variables_test() {
    for (const char* prefix : {"LCT_", "LCI_", ""}) {
      vars_.unset(std::string(prefix) + "MASTER_ADDR");
      vars_.unset(std::string(prefix) + "MASTER_PORT");
    }
    for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "LCT_PMI_TCP_TIMEOUT_SEC",
                             "LCT_PMI_TCP_KEY", "LCT_PMI_TCP_KEY_FILE", "LCI_INIT_ATTACH_DEBUGGER"})
      vars_.unset(name);
    vars_.set("RANK", "1");
    vars_.set("WORLD_SIZE", "4");
  }
  void pair(const std::string& prefix, const std::string& address, const std::string& port) {
    vars_.set(prefix + "MASTER_ADDR", address);
    vars_.set(prefix + "MASTER_PORT", port);
  }
  // Not available, for a reason that holds each of the texts.
  void expect_refused(std::initializer_list<const char*> texts) {
    std::string why;
    EXPECT_FALSE(read_tcp_variables(why));
    for (const char* text : texts) EXPECT_NE(why.find(text), std::string::npos) << why;
  }
  test::scoped_env vars_;
  std::string why_;
};

TEST_F(tcp_variables_test, read__torchrun_style) {
  pair("", "127.0.0.1", "29500");
  vars_.set("LOCAL_RANK", "1");
  vars_.set("LOCAL_WORLD_SIZE", "4");
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "5");
  const auto v = read_tcp_variables(why_);
  ASSERT_TRUE(v) << why_;
  EXPECT_EQ(v->rank, 1);
  EXPECT_EQ(v->size, 4);
  EXPECT_EQ(v->address, "127.0.0.1");
  EXPECT_EQ(v->port, 29500);
  EXPECT_EQ(v->source, "MASTER_ADDR");
  EXPECT_EQ(v->limit, std::chrono::seconds(5));
}

TEST_F(tcp_variables_test, read__timeout_defaults_to_a_minute) {
  pair("", "localhost", "1");
  EXPECT_EQ(read_tcp_variables(why_)->limit, std::chrono::seconds(60));
}

// A rank that was let go on waits for those that a developer still looks at.
TEST_F(tcp_variables_test, read__timeout_is_a_day_where_ranks_wait_for_a_debugger) {
  pair("", "localhost", "1");
  for (const char* how : {"1", "sigstop"}) {
    vars_.set("LCI_INIT_ATTACH_DEBUGGER", how);
    EXPECT_EQ(read_tcp_variables(why_)->limit, std::chrono::hours(24)) << how;
  }
  vars_.set("LCT_PMI_TCP_TIMEOUT_SEC", "5");
  EXPECT_EQ(read_tcp_variables(why_)->limit, std::chrono::seconds(5));
  vars_.unset("LCT_PMI_TCP_TIMEOUT_SEC");
  vars_.set("LCI_INIT_ATTACH_DEBUGGER", "0");
  EXPECT_EQ(read_tcp_variables(why_)->limit, std::chrono::minutes(1));
}

TEST_F(tcp_variables_test, read__first_complete_pair_wins) {
  pair("", "c", "3");
  EXPECT_EQ(read_tcp_variables(why_)->address, "c");
  pair("LCI_", "b", "2");
  EXPECT_EQ(read_tcp_variables(why_)->address, "b");
  EXPECT_EQ(read_tcp_variables(why_)->port, 2);
  pair("LCT_", "a", "1");
  EXPECT_EQ(read_tcp_variables(why_)->address, "a");
}

TEST_F(tcp_variables_test, read__pairs_are_never_mixed) {
  vars_.set("LCT_MASTER_ADDR", "127.0.0.1");
  vars_.set("MASTER_PORT", "29500");
  expect_refused({"no pair", "LCT_MASTER_ADDR is set without LCT_MASTER_PORT",
                  "MASTER_PORT is set without MASTER_ADDR"});
  // An incomplete pair does not hide a complete one behind it.
  vars_.set("MASTER_ADDR", "127.0.0.2");
  const auto v = read_tcp_variables(why_);
  ASSERT_TRUE(v) << why_;
  EXPECT_EQ(v->address, "127.0.0.2");
}

TEST_F(tcp_variables_test, read__missing_variables_are_named) {
  expect_refused({"MASTER_ADDR"});
  pair("", "127.0.0.1", "1");
  vars_.unset("RANK");
  expect_refused({"RANK is not set"});
  vars_.set("RANK", "0");
  vars_.unset("WORLD_SIZE");
  expect_refused({"WORLD_SIZE is not set"});
}

TEST_F(tcp_variables_test, read__nonsense_is_named_with_its_range) {
  pair("", "127.0.0.1", "29500");
  const std::vector<std::array<const char*, 3>> bad = {
      {"RANK", "4", "from 0 to 3"},
      {"RANK", "-1", "from 0 to 3"},
      {"WORLD_SIZE", "0", "from 1"},
      {"WORLD_SIZE", "many", "from 1"},
      {"MASTER_PORT", "0", "from 1 to 65535"},
      {"MASTER_PORT", "65536", "from 1 to 65535"},
      {"LOCAL_RANK", "4", "from 0 to 3"},
      {"LOCAL_WORLD_SIZE", "5", "from 1 to 4"},
      {"LCT_PMI_TCP_TIMEOUT_SEC", "0", "from 1 to 86400"},
      {"LCT_PMI_TCP_TIMEOUT_SEC", "86401", "from 1 to 86400"}};
  for (const auto& [name, value, range] : bad) {
    test::scoped_env one;
    one.set(name, value);
    expect_refused({name, value, range});
  }
  std::string why;
  EXPECT_TRUE(read_tcp_variables(why)) << why;
}

TEST_F(tcp_variables_test, read__local_rank_must_fit_local_size) {
  pair("", "127.0.0.1", "29500");
  vars_.set("LOCAL_WORLD_SIZE", "2");
  vars_.set("LOCAL_RANK", "2");
  expect_refused({"LOCAL_RANK", "from 0 to 1"});
}

TEST_F(tcp_variables_test, key__from_a_variable_or_a_private_file) {
#if !LCI_HAVE_SODIUM
  GTEST_SKIP() << "this build has no libsodium (libsodium-dev)";
#endif
  pair("", "127.0.0.1", "29500");
  EXPECT_EQ(read_tcp_variables(why_)->secret, "");
  vars_.set("LCT_PMI_TCP_KEY", "sixteen letters!");
  EXPECT_EQ(read_tcp_variables(why_)->secret, "sixteen letters!");
  vars_.set("LCT_PMI_TCP_KEY", "fifteen letters");
  expect_refused({"LCT_PMI_TCP_KEY", "15 bytes", "expected 16"});
  const std::string path = testing::TempDir() + "lci_key_" + std::to_string(::getpid());
  vars_.set("LCT_PMI_TCP_KEY_FILE", path);
  expect_refused({"LCT_PMI_TCP_KEY and LCT_PMI_TCP_KEY_FILE", "only one"});
  vars_.unset("LCT_PMI_TCP_KEY");
  expect_refused({"LCT_PMI_TCP_KEY_FILE", path.c_str(), "No such file"});
  std::ofstream(path) << "a key that lies in a file\n";
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  expect_refused({"LCT_PMI_TCP_KEY_FILE", path.c_str(), "only its owner"});
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(read_tcp_variables(why_)->secret, "a key that lies in a file");
  std::ofstream(path) << "\n";
  expect_refused({"LCT_PMI_TCP_KEY_FILE", "0 bytes"});
  ::unlink(path.c_str());
  vars_.set("LCT_PMI_TCP_KEY_FILE", testing::TempDir());
  expect_refused({"LCT_PMI_TCP_KEY_FILE"});
}

}  // namespace
}  // namespace lci::boot
