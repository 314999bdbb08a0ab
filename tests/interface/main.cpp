// The program that every rank of the interface suite runs:
//   lcrun -n 2 interface [--devices=D] [--threads=T] [--long] [--away] [GoogleTest flags]
// --away: with every attribute away from its default.
// The backend is whatever the environment chooses (LCI_ATTR_BACKEND). Exit status 0 only if every
// test of this rank passed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "away.hpp"
#include "tests/support/watchdog.hpp"
#include "world.hpp"

namespace interface_test {
namespace {

// Before each test: all ranks meet, the test's device is chosen, the watchdog starts over.
class in_step : public testing::EmptyTestEventListener {
 public:
  explicit in_step(int rank)
      : watchdog_(
            "interface suite, rank " + std::to_string(rank), [this] { print_current(); },
            world().long_mode ? std::chrono::seconds(600) : lci::test::watchdog::default_limit()) {}

  void OnTestStart(const testing::TestInfo& info) override {
    world_t& w = world();
    current_ = std::string(info.test_suite_name()) + "." + info.name();
    w.device = w.devices[number_++ % w.devices.size()];
    watchdog_.pet();
    // What others still wait for may have to leave from the device of the test before.
    barrier_over(w.devices);
  }

 private:
  void print_current() {
    std::fprintf(stderr, "rank %d was in %s\n", world().rank, current_.c_str());
  }

  std::size_t number_ = 0;
  std::string current_ = "start-up";
  lci::test::watchdog watchdog_;
};

// Takes our flags out of the command line.
int number_flag(int argc, char** argv, const char* name, int fallback) {
  const std::size_t length = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, length) == 0) return std::atoi(argv[i] + length);
  }
  return fallback;
}

bool has_flag(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return true;
  }
  return false;
}

void open_world(int devices) {
  world_t& w = world();
  const lci::runtime_t runtime = lci::g_runtime_init();
  w.rank = lci::get_rank_me();
  w.n = lci::get_rank_n();
  w.devices.push_back(lci::get_default_device());
  while (static_cast<int>(w.devices.size()) < devices) w.devices.push_back(lci::alloc_device());
  w.device = w.devices.front();
  w.inject = lci::get_default_net_context_x().runtime(runtime)().get_attr_max_inject_size();
  w.bcopy = lci::get_max_bcopy_size();
}

void close_world() {
  world_t& w = world();
  w.device = w.devices.front();
  barrier_over(w.devices);
  while (w.devices.size() > 1) {
    lci::free_device(&w.devices.back());
    w.devices.pop_back();
  }
  lci::g_runtime_fina();
}

}  // namespace
}  // namespace interface_test

int main(int argc, char** argv) {
  using namespace interface_test;
  const bool is_away = has_flag(argc, argv, "--away");
  if (is_away) set_attributes_away();
  // One report is enough to read; failures of the other ranks are still printed.
  lci::global_initialize();
  if (lci::get_rank_me() != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  world().threads = number_flag(argc, argv, "--threads=", 4);
  world().long_mode = has_flag(argc, argv, "--long");
  if (const std::string near = is_away ? near_attributes() : ""; !near.empty()) {
    std::fprintf(stderr, "at their defaults in spite of --away:%s\n", near.c_str());
    return 1;
  }
  open_world(number_flag(argc, argv, "--devices=", 1));
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  listeners.Append(new in_step(world().rank));
  const int failed = RUN_ALL_TESTS();
  close_world();
  lci::global_finalize();
  return failed;
}
