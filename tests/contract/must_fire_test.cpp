// The guards of the suite themselves: each is put in front of a fabric with the fault that it is
// there for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/contract/stress.hpp"
#include "tests/contract/suite.hpp"
#include "tests/contract/verifier.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/process_harness.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {
namespace {

std::unique_ptr<group> faulty(const sim_options& options,
                              std::shared_ptr<sim_world>* keep = nullptr) {
  auto world = std::make_shared<sim_world>(2, options);
  if (keep != nullptr) *keep = world;
  return std::make_unique<group>(
      2, 1, [world](int rank, const net::fabric_config& c) { return world->open(rank, c); });
}

// The kinds of fault in a report: the words before the colons.
std::string kinds(const std::vector<std::string>& report) {
  std::string all;
  for (const std::string& line : report) all += line.substr(0, line.find(':')) + ";";
  return all;
}

const stress_plan SHORT{.threads = 2, .per_thread = 1500, .may_lose = true};

}  // namespace

TEST(stress_verifier, reports_every_thousandth_message_dropped) {
  std::shared_ptr<sim_world> world;
  auto g = faulty({.drop_every = 1000}, &world);
  const auto report = run_stress(*g, SHORT);
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0].find("lost: " + std::to_string(world->counters().dropped)), 0u) << report[0];
  EXPECT_EQ(world->counters().dropped, 6u);
}

TEST(stress_verifier, reports_duplicates) {
  EXPECT_EQ(kinds(run_stress(*faulty({.duplicate_one_in = 500}), SHORT)), "repeated;");
}

TEST(stress_verifier, reports_damage) {
  // A flipped bit makes one damaged message, which is then also a lost one; one in the unstamped
  // rest is not seen.
  EXPECT_EQ(kinds(run_stress(*faulty({.corrupt_one_in = 50}), SHORT)), "damaged;lost;");
}

TEST(stress_verifier, reports_disorder) {
  sim_options options{.reorder_one_in = 20};
  options.caps.ordered = false;
  auto g = faulty(options);
  stream_verifier strict(true);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto stamp = stream_verifier::stamp(0, 0, i);
    g->at(1).seen().on_arrival = [&](const net::arrival& m) {
      strict.check(m.data, m.size);
      return net::verdict::taken;
    };
    g->post([&] { return g->at(0).to().send_inline(1, i, nullptr, 0, &stamp, sizeof stamp); });
  }
  g->settle();
  EXPECT_EQ(kinds(strict.report(1, 1, 2000)), "out of order;");
}

TEST(stress_verifier, is_silent_on_a_good_fabric) {
  EXPECT_EQ(run_stress(*faulty({}), SHORT), std::vector<std::string>{});
}

TEST(stress_verifier, reports_short_messages) {
  stream_verifier v(true);
  const std::byte four[4]{};
  v.check(four, sizeof four);
  EXPECT_EQ(kinds(v.report(0, 0, 0)), "short;");
}

TEST(left_shared_memory_files, are_those_that_no_process_has) {
  const auto before = shared_memory_files();
  const std::string name = "lci-left-" + std::to_string(::getpid()), path = "/dev/shm/" + name;
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) GTEST_SKIP() << "no file can be made under /dev/shm";
  EXPECT_EQ(::ftruncate(fd, 4096), 0);
  const auto is_left = [&] {
    const auto left = left_shared_memory_files(before);
    return std::find(left.begin(), left.end(), name) != left.end();
  };
  EXPECT_FALSE(is_left()) << "it is open";
  void* const mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(fd);
  EXPECT_FALSE(is_left()) << "it is mapped";
  ::munmap(mapped, 4096);
  EXPECT_TRUE(is_left());
  ::unlink(path.c_str());
}

TEST(recorder, fails_on_a_completion_without_context) {
  recorder r;
  EXPECT_TRUE(must_fire([&] { r.on_complete(nullptr); }, "without a context"));
  EXPECT_TRUE(must_fire([&] { r.on_error(0, nullptr, ""); }, "without a reason"));
}

TEST(group, post__fails_on_an_answer_that_is_none) {
  auto g = faulty({});
  EXPECT_TRUE(throws_with<std::runtime_error>(
      [&] { g->post([] { return errorcode_t::done_backlog; }); }, {"no backend gives"}));
}

}  // namespace lci::test
