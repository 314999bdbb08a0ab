#include "lci/boot/board.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lci/boot/kv_wire.hpp"
#include "lci/boot/pmix_abi.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/boot/rounds.hpp"
#if LCI_HAVE_PMIX_H
#include <pmix_common.h>
#endif

namespace lci::boot {
namespace {

using test::throws_with;

// One rank that remembers its sheets, and counts what is asked of it.
struct memory_board final : board {
  const char* name() const noexcept override { return "memory"; }
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void exchange(unsigned round, const std::string& sheet) override {
    EXPECT_EQ(round, sheets.size());
    sheets.push_back(sheet);
  }
  std::string read(int, unsigned round) override {
    ++reads;
    return sheets.at(round);
  }
  std::vector<std::string> sheets;
  int reads = 0;
};

TEST(board_test, get__newest_value_and_only_after_the_fence) {
  memory_board b;
  board_bootstrap boot(b);
  boot.put("k", "one");
  EXPECT_TRUE(throws_with<argument_error>([&] { boot.get(0, "k"); }, {"memory", "\"k\""}));
  boot.fence();
  EXPECT_EQ(boot.get(0, "k"), "one");
  boot.put("k", "two");
  boot.put("k", "three");
  EXPECT_EQ(boot.get(0, "k"), "one");
  boot.fence();
  boot.fence();
  EXPECT_EQ(boot.get(1, "k"), "three");
  EXPECT_THROW(boot.get(2, "k"), argument_error);
}

// A call of a library makes no rounds.
TEST(board_test, fence_with__rounds_come_before_until_all_is_out) {
  memory_board b;
  board_bootstrap boot(b);
  counted_rounds work;
  boot.fence_with(&work);
  EXPECT_EQ(work.rounds, counted_rounds::ENOUGH);
  boot.fence_with(&work);
  EXPECT_EQ(work.rounds, counted_rounds::ENOUGH);
  boot.fence_with(nullptr);
  EXPECT_EQ(b.sheets.size(), 3u);
}

TEST(board_test, fence_with__what_never_gets_out_is_not_waited_for) {
  struct stuck final : meanwhile {
    bool progress() noexcept override { return false; }
    bool is_all_out() const noexcept override { return false; }
  };
  memory_board b;
  stuck work;
  board_bootstrap(b).fence_with(&work);
  EXPECT_EQ(b.sheets.size(), 1u);
}

TEST(board_test, get__reads_a_sheet_once_and_only_of_whom_is_asked) {
  memory_board b;
  board_bootstrap boot(b);
  boot.put("k", "v");
  boot.fence();
  EXPECT_EQ(b.reads, 0);
  for (int i = 0; i < 5; ++i) boot.get(1, "k");
  EXPECT_EQ(b.reads, 1);
}

TEST(board_test, open__next_bootstrap_does_not_see_the_values_of_the_last) {
  memory_board b;
  {
    board_bootstrap first(b);
    first.put("old", "v");
    first.fence();
  }
  board_bootstrap second(b);
  second.put("new", "v");
  second.fence();
  EXPECT_EQ(second.get(1, "new"), "v");
  EXPECT_THROW(second.get(1, "old"), argument_error);
}

TEST(board_test, get__sheets_of_somebody_else_are_refused) {
  memory_board b;
  board_bootstrap boot(b);
  std::string sheet;
  kv::encode_put(sheet, "k", "v");
  for (const std::string& wrong :
       {sheet + "x", sheet.substr(0, sheet.size() - 1), std::string("x")}) {
    b.sheets.push_back(wrong);
    b.next_round();
    EXPECT_TRUE(throws_with<backend_error>([&] { boot.get(1, "k"); },
                                           {"rank 1", "does not parse", "same version"}));
  }
}

TEST(board_test, open__a_forked_process_is_no_rank) {
  static const auto make = []() -> std::unique_ptr<board> {
    return std::make_unique<memory_board>();
  };
  board_cache cache;
  const auto boot = open_on_board(cache, "memory", make);
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      open_on_board(cache, "memory", make);
    } catch (const backend_error& error) {
      if (std::string(error.what()).find("was forked from a rank") != std::string::npos) status = 0;
    }
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

#if LCI_HAVE_PMIX_H
TEST(pmix_abi_test, declarations__are_those_of_the_header) {
  namespace abi = pmix_abi;
  static_assert(sizeof(abi::proc) == sizeof(pmix_proc_t));
  static_assert(sizeof(abi::value) == sizeof(pmix_value_t));
  static_assert(sizeof(abi::info) == sizeof(pmix_info_t));
  static_assert(sizeof(abi::byte_object) == sizeof(pmix_byte_object_t));
  static_assert(offsetof(abi::proc, rank) == offsetof(pmix_proc_t, rank));
  static_assert(offsetof(abi::value, data) == offsetof(pmix_value_t, data));
  static_assert(offsetof(abi::info, flags) == offsetof(pmix_info_t, flags));
  static_assert(offsetof(abi::info, value) == offsetof(pmix_info_t, value));
  EXPECT_EQ(abi::RANK_WILDCARD, static_cast<std::uint32_t>(PMIX_RANK_WILDCARD));
  EXPECT_EQ(abi::TYPE_BOOL, PMIX_BOOL);
  EXPECT_EQ(abi::TYPE_INT, PMIX_INT);
  EXPECT_EQ(abi::TYPE_UINT32, PMIX_UINT32);
  EXPECT_EQ(abi::TYPE_BYTES, PMIX_BYTE_OBJECT);
  EXPECT_EQ(abi::SCOPE_GLOBAL, PMIX_GLOBAL);
  EXPECT_STREQ(abi::JOB_SIZE, PMIX_JOB_SIZE);
  EXPECT_STREQ(abi::COLLECT_DATA, PMIX_COLLECT_DATA);
  EXPECT_STREQ(abi::TIMEOUT, PMIX_TIMEOUT);
}
#endif

}  // namespace
}  // namespace lci::boot
