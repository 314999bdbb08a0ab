// Send and receive of 8 bytes: one way, and a stream with a window of receives posted ahead.
// Threads: one per process.
#include "bench/micro/programs.hpp"
#include "bench/micro/session.hpp"

namespace bench {

namespace {

constexpr int BLOCKS = 60;
constexpr int ROUNDS = 1000;
constexpr int WINDOW = 64;
constexpr int WINDOWS = 500;

// Completed receives: a counter object, and how many were already waited for.
struct receives {
  receives() : done(lci::alloc_counter()) {}
  ~receives() { lci::free_comp(&done); }

  void start(int peer, std::uint64_t* into) {
    if (post(lci::post_recv_x(peer, into, sizeof *into, 0, done))) ++expected;
  }
  void wait() const {
    while (lci::counter_get(done) < expected) lci::progress();
  }
  lci::comp_t done;
  std::int64_t expected = 0;
};

void send(int peer, std::uint64_t* payload) {
  post(lci::post_send_x(peer, payload, sizeof *payload, 0, lci::COMP_NULL));
}

}  // namespace

int sendrecv_latency(const arguments&) {
  session s;
  receives in;
  std::uint64_t payload = 0;
  std::uint64_t incoming = 0;
  const auto round_trips = [&] {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; ++i) {
      in.start(s.peer(), &incoming);
      if (s.both().is_first()) send(s.peer(), &payload);
      in.wait();
      if (!s.both().is_first()) send(s.peer(), &payload);
    }
    return static_cast<double>(now_ns() - start) / (2.0 * ROUNDS);
  };
  round_trips();
  const result r = in_units_of_r(s.both(), "sendrecv_latency", "lci", "8 B", BLOCKS, round_trips);
  if (s.both().is_first()) report(r);
  lci::barrier();
  return 0;
}

int sendrecv_rate(const arguments&) {
  session s;
  receives in;
  std::uint64_t payload = 0;
  std::uint64_t incoming[WINDOW] = {};
  std::uint64_t credit = 0;
  // The sender waits for an answer after each window, as in the usual message rate benchmarks.
  const auto windows = [&] {
    const std::uint64_t start = now_ns();
    for (int w = 0; w < WINDOWS; ++w) {
      if (s.both().is_first()) {
        for (int i = 0; i < WINDOW; ++i) send(s.peer(), &payload);
        in.start(s.peer(), &credit);
        in.wait();
      } else {
        for (auto& into : incoming) in.start(s.peer(), &into);
        in.wait();
        send(s.peer(), &payload);
      }
    }
    return static_cast<double>(now_ns() - start) / (1.0 * WINDOW * WINDOWS);
  };
  windows();
  result r = in_units_of_r(s.both(), "sendrecv_rate", "lci", "8 B", BLOCKS / 3, windows);
  r.value = 1e3 / r.value;
  std::swap(r.low = 1e3 / r.low, r.high = 1e3 / r.high);
  r.unit = "M/s";
  if (s.both().is_first()) report(r);
  lci::barrier();
  return 0;
}

}  // namespace bench
