// The cost of a process: the time that a job of many takes to start, synchronise and stop, and the
// memory that a process holds at the start and for each peer it communicates with. Run with any
// number of processes. Threads: one per process.
#include <cstring>
#include <fstream>

#include "bench/micro/programs.hpp"
#include "bench/micro/session.hpp"

namespace bench {

namespace {

// Kilobytes in one line of the kernel's memory account of this process: "Rss", "Pss", ...
double kilobytes(const std::string& name) {
  std::ifstream account("/proc/self/smaps_rollup");
  for (std::string key; account >> key;) {
    double value = 0;
    if (key == name + ":") return account >> value, value;
    account.ignore(1000, '\n');
  }
  return 0;
}

struct footprint {
  double rss = kilobytes("Rss");
  double pss = kilobytes("Pss");  // shared pages are divided among their users
};

// The largest value of all processes, on every process.
double largest(double mine) {
  std::vector<double> all(static_cast<std::size_t>(lci::get_rank_n()));
  lci::allgather(&mine, all.data(), sizeof mine);
  return *std::max_element(all.begin(), all.end());
}

void report_kib(const char* what, double kib) {
  const double all = largest(kib);
  if (lci::get_rank_me() == 0) report({"memory", "lci", what, all, "KiB"});
}

std::uint64_t arrived = 0;
void on_message(lci::status_t message) {
  lci::put_upacket(message.get_buffer());
  ++arrived;
}

// Small messages to and from the peers at these distances, all processes alike.
void talk(int nearest, int farthest, lci::rcomp_t to) {
  constexpr int messages = 100;
  const int n = lci::get_rank_n();
  // The total so far: messages of a peer that is ahead may have arrived already.
  static std::uint64_t expected = 0;
  expected += static_cast<std::uint64_t>(farthest - nearest + 1) * messages;
  std::uint64_t payload = 0;
  for (int distance = nearest; distance <= farthest; ++distance) {
    const int peer = (lci::get_rank_me() + distance) % n;
    for (int i = 0; i < messages; ++i) {
      post(lci::post_am_x(peer, &payload, sizeof payload, lci::COMP_NULL, to));
    }
  }
  while (arrived < expected) lci::progress();
  lci::barrier();
}

}  // namespace

// BENCH_START_NS is when the launcher was started, on this host's monotonic clock.
int startup(const arguments&) {
  const std::uint64_t in_main = now_ns();
  const char* const given = std::getenv("BENCH_START_NS");
  const std::uint64_t start = given != nullptr ? std::strtoull(given, nullptr, 10) : in_main;
  lci::g_runtime_init();
  const std::uint64_t initialised = now_ns();
  lci::barrier();
  const std::uint64_t met = now_ns();
  const bool first = lci::get_rank_me() == 0;
  const struct {
    const char* what;
    std::uint64_t when;
  } steps[] = {{"1 all in main", in_main}, {"2 all initialised", initialised}, {"3 all met", met}};
  for (const auto& step : steps) {
    const double ms = largest(static_cast<double>(step.when - start) / 1e6);
    if (first) report({"startup", "lci", step.what, ms, "ms"});
  }
  lci::g_runtime_fina();
  if (first) {
    const double ms = static_cast<double>(now_ns() - start) / 1e6;
    report({"startup", "lci", "4 rank 0 has stopped", ms, "ms"});
  }
  return 0;
}

int memory(const arguments&) {
  const footprint bare;
  lci::g_runtime_init();
  const footprint ready;
  const int peers = lci::get_rank_n() - 1;
  if (peers < 3) throw std::runtime_error("memory wants at least 4 processes");
  report_kib("rss before init", bare.rss);
  report_kib("rss at start", ready.rss);
  report_kib("pss at start", ready.pss);

  lci::comp_t handler = lci::alloc_handler_x(on_message).zero_copy_am(true)();
  const lci::rcomp_t to = lci::register_rcomp(handler);
  lci::barrier();
  // Collectives have already connected the nearest peers; the others are first contacts. The first
  // of these also pays for what all later ones share.
  talk(1, 1, to);
  const footprint one;
  talk(2, peers, to);
  const footprint all;
  report_kib("rss per peer", (all.rss - one.rss) / (peers - 1));
  report_kib("pss per peer", (all.pss - one.pss) / (peers - 1));
  report_kib("rss after all", all.rss);
  lci::barrier();
  lci::free_comp(&handler);
  lci::g_runtime_fina();
  return 0;
}

}  // namespace bench
