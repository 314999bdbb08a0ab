// Runs the tests of this folder on every rank of a job. Rank 0 prints; the others print failures
// only. All ranks run the same tests in the same order, so a test must not return early on one rank
// alone.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

namespace {

// What ranks other than 0 have to say.
class failures_only_t : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", lci::get_rank_me(), result.file_name(),
                 result.line_number(), result.message());
  }
};

// A rank that waits for others that have failed must not wait for ever.
class petting_t : public testing::EmptyTestEventListener {
 public:
  explicit petting_t(lci::test::watchdog& dog) : dog_(dog) {}

 private:
  void OnTestStart(const testing::TestInfo&) override { dog_.pet(); }
  lci::test::watchdog& dog_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  lci::g_runtime_init();
  lci::test::watchdog dog("collectives, rank " + std::to_string(lci::get_rank_me()));
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new petting_t(dog));
  if (lci::get_rank_me() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new failures_only_t);
  }
  const int status = RUN_ALL_TESTS();
  lci::barrier();
  lci::g_runtime_fina();
  return status;
}
