// The part of the suite that needs nothing of the other ranks but their addresses, as a job of
// whatever launcher: so it runs across machines. The provider is the first word after the options.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

#include "lci/boot/choose.hpp"
#include "tests/contract/rank_bodies.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using namespace lci::test;

// A job of the library's own bootstrap. Each test has names of its own, because what another one
// has put stays.
class booted_job final : public rank_job {
 public:
  booted_job(lci::boot::bootstrap& boot, std::string name)
      : boot_(boot), name_(std::move(name) + "/") {}
  int rank() const noexcept override { return boot_.rank(); }
  int size() const noexcept override { return boot_.size(); }
  void publish(std::string_view name, std::string_view text) override {
    boot_.put(name_ + std::string(name), std::string(text));
  }
  std::string lookup(int rank, std::string_view name) const override {
    return boot_.get(rank, name_ + std::string(name));
  }
  // A fence waits, and who meets another for the first time needs its progress.
  void barrier(std::string_view, const std::function<void()>& meanwhile,
               const std::vector<int>&) override {
    std::atomic<bool> is_over{false};
    std::thread waiting([&] {
      boot_.fence();
      is_over.store(true, std::memory_order_release);
    });
    while (!is_over.load(std::memory_order_acquire)) meanwhile();
    waiting.join();
  }

 private:
  lci::boot::bootstrap& boot_;
  const std::string name_;
};

std::unique_ptr<lci::boot::bootstrap> boot;
std::string provider;

class far_ranks : public testing::Test {
 protected:
  booted_job job_{*boot, testing::UnitTest::GetInstance()->current_test_info()->name()};
};

TEST_F(far_ranks, exchange) { EXPECT_EQ(exchange(job_, provider, 3000), 0); }
TEST_F(far_ranks, remote_memory) { EXPECT_EQ(remote_memory(job_, provider), 0); }
TEST_F(far_ranks, every_verb) { EXPECT_EQ(every_verb(job_, provider, 300), 0); }

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s [options of GoogleTest] <provider>\n", argv[0]);
    return 2;
  }
  provider = argv[1];
  lci::boot::board_cache cache;
  boot = lci::boot::open_bootstrap(cache);
  watchdog dog("contract across machines, rank " + std::to_string(boot->rank()));
  const int status = RUN_ALL_TESTS();
  boot->leave();
  boot.reset();
  return status;
}
