// The patterns, with ends that write down how they are called.
#include "tools/perf/worker.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>

namespace lci_perf {
namespace {

// An end whose other end is always there.
struct noted_port {
  std::string calls;
  void start(char*, std::size_t) { calls += "start "; }
  void finish() { calls += "finish "; }
  void expect(char*, std::size_t) { calls += "expect "; }
  void wait() { calls += "wait "; }
  void send(char*, std::size_t) { calls += "send "; }
  void recv(char*, std::size_t) { calls += "recv "; }
};
struct launched_port : noted_port {
  void launch() { calls += "launch "; }
};

template <class Port>
std::string calls_of_overlap() {
  const auto page = std::make_unique<board>();
  seat first(*page, 0, true);
  Port port;
  overlapped(first, port, nullptr, nullptr, {measure::overlap, operation::sendrecv, 8, 1, 1, 0});
  return port.calls;
}

// What only begins when it is launched could not be hidden behind the computation.
TEST(perf_worker, overlapped__launches_before_it_computes) {
  EXPECT_EQ(calls_of_overlap<noted_port>(), "start finish recv start finish recv ");
  EXPECT_EQ(calls_of_overlap<launched_port>(),
            "start launch finish recv start launch finish recv ");
}

// A seat that is asked how much has arrived sees each long message.
struct counted_port : noted_port {
  explicit counted_port(const seat& s) : mine(s) {}
  void recv(char*, std::size_t) { calls += std::to_string(mine.mine().messages) + " "; }
  const seat& mine;
};

TEST(perf_worker, round_trips__count_each_long_message) {
  const auto page = std::make_unique<board>();
  seat first(*page, 0, true);
  counted_port port(first);
  round_trips(first, port, nullptr, nullptr, {measure::latency, operation::am, 64 << 20, 3, 1, 0});
  EXPECT_EQ(port.calls, "send 0 send 1 send 2 ");
  EXPECT_EQ(first.mine().messages, 3u);
}

// What a library does with its objects of a process: it waits for the other processes.
struct never_freed {
  ~never_freed() { std::_Exit(3); }
};
void fail_in_a_seat(board& page, const char* reason) {
  try {
    const never_freed all;
    run_seats(page, 0, [reason](int, bool) { throw std::runtime_error(reason); });
  } catch (const std::exception&) {
    std::_Exit(4);
  }
}

TEST(perf_worker, run_seats__the_first_failure_is_said_before_anything_is_freed) {
  void* const at =
      mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  board& page = *static_cast<board*>(at);
  page.pairs = 1;
  for (const std::uint32_t is_threads : {0u, 1u}) {
    page.is_threads = is_threads;
    EXPECT_EXIT(fail_in_a_seat(page, is_threads == 0 ? "no room" : "the other ended"),
                testing::ExitedWithCode(1), "");
  }
  EXPECT_STREQ(page.error, "no room");
  munmap(at, sizeof(board));
}

}  // namespace
}  // namespace lci_perf
