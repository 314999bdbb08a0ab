// Active messages of 8 bytes to a handler: one way, and a stream. Also the raw hand-over (R) alone.
// Threads: one per process.
#include "bench/micro/programs.hpp"
#include "bench/micro/session.hpp"

namespace bench {

namespace {

constexpr int BLOCKS = 60;
constexpr int ROUNDS = 1000;
constexpr std::uint64_t STREAM = 200'000;

std::uint64_t arrived = 0;  // handlers run in the thread that makes progress, which is the only one

void on_message(lci::status_t message) {
  lci::put_upacket(message.get_buffer());
  ++arrived;
}

// A handler on both sides, freed with the object.
struct handler {
  handler() : comp(lci::alloc_handler_x(on_message).zero_copy_am(true)()) {
    number = lci::register_rcomp(comp);
    lci::barrier();
  }
  ~handler() {
    lci::barrier();
    lci::deregister_rcomp(number);
    lci::free_comp(&comp);
  }
  lci::comp_t comp;
  lci::rcomp_t number = 0;
};

void send(int peer, std::uint64_t* payload, lci::rcomp_t to) {
  post(lci::post_am_x(peer, payload, sizeof *payload, lci::COMP_NULL, to));
}

void wait_until(std::uint64_t count) {
  while (arrived < count) lci::progress();
}

}  // namespace

int raw_handover(const arguments&) {
  session s;
  std::vector<double> values;
  for (int i = 0; i < 4 * BLOCKS; ++i) values.push_back(s.both().handover_ns());
  const double r = median(values);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (s.both().is_first()) report({"raw_handover", "cpu", "8 B", r, "ns", r, 1, *low, *high});
  return 0;
}

int am_latency(const arguments&) {
  session s;
  handler to;
  std::uint64_t payload = 0;
  std::uint64_t expected = 0;
  const auto round_trips = [&] {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; ++i) {
      if (s.both().is_first()) send(s.peer(), &payload, to.number);
      wait_until(++expected);
      if (!s.both().is_first()) send(s.peer(), &payload, to.number);
    }
    return static_cast<double>(now_ns() - start) / (2.0 * ROUNDS);
  };
  round_trips();  // first contact
  const result r = in_units_of_r(s.both(), "am_latency", "lci", "8 B", BLOCKS, round_trips);
  if (s.both().is_first()) report(r);
  return 0;
}

int am_rate(const arguments&) {
  session s;
  handler to;
  std::uint64_t payload = 0;
  std::uint64_t expected = 0;
  std::uint64_t rounds = 0;
  // From the first post until the last message has been handled: nanoseconds per message.
  const auto stream = [&] {
    const std::uint64_t start = now_ns();
    ++rounds;
    if (s.both().is_first()) {
      for (std::uint64_t i = 0; i < STREAM; ++i) send(s.peer(), &payload, to.number);
      while (!s.both().signalled(rounds)) lci::progress();
    } else {
      expected += STREAM;
      wait_until(expected);
      s.both().signal(rounds);
    }
    return static_cast<double>(now_ns() - start) / STREAM;
  };
  stream();
  result r = in_units_of_r(s.both(), "am_rate", "lci", "8 B", BLOCKS / 3, stream);
  // Easier to read as a rate: millions per second are thousands over nanoseconds.
  r.value = 1e3 / r.value;
  std::swap(r.low = 1e3 / r.low, r.high = 1e3 / r.high);
  r.unit = "M/s";
  if (s.both().is_first()) report(r);
  return 0;
}

}  // namespace bench
