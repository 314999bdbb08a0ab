// The patterns, with ends that write down how they are called.
#include "tools/perf/worker.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lci_perf
