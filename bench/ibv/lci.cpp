// bench_ibv send|am|put|block ITERATIONS [mean], under lcrun -n 2: what ib_send_lat, ib_write_bw
// and fi_pingpong measure, over lci. Prints one number: the median of microseconds one way for 8
// bytes; or MB/s of puts of 64 KiB, or of 1 MiB sent back and forth.
//
// As in those programs: half of a round trip, each timed separately; one region that is registered
// once, up to 128 writes under way, from the first post to the last completion. Threads: one per
// process.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "lci.hpp"

namespace {

constexpr std::size_t BLOCK = 65536;
constexpr std::size_t LARGE = 1 << 20;
constexpr std::int64_t MOST_UNDER_WAY = 128;
constexpr int WARM_UP = 100;

bool takes_mean = false;  // as fi_pingpong does; else the median of round trips

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// Posts until accepted. True: posted, so its completion object will be signalled.
template <class Op>
bool post(const Op& op) {
  for (;;) {
    const lci::status_t status = op();
    if (!status.is_retry()) return status.is_posted();
    lci::progress();
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Rank 0 sends, rank 1 sends back; `send` and `wait` are the two halves of it.
template <class Send, class Wait>
double one_way_us(int iterations, Send send, Wait wait) {
  // The clock is read once a round trip, as the rival does.
  std::vector<double> times(static_cast<std::size_t>(iterations) + 1);
  for (int i = -WARM_UP; i < iterations; ++i) {
    if (i >= 0) times[static_cast<std::size_t>(i)] = now_us();
    if (lci::get_rank_me() == 0) send();
    wait();
    if (lci::get_rank_me() == 1) send();
  }
  times.back() = now_us();
  std::adjacent_difference(times.begin(), times.end(), times.begin(),
                           [](double end, double start) { return (end - start) / 2; });
  times.erase(times.begin());  // no difference
  return takes_mean ? std::accumulate(times.begin(), times.end(), 0.0) / iterations : median(times);
}

double send_us(int iterations, std::size_t size) {
  const int peer = 1 - lci::get_rank_me();
  std::vector<char> out(size), in(size);
  lci::mr_t regions[] = {lci::register_memory(out.data(), size),
                         lci::register_memory(in.data(), size)};
  lci::comp_t arrived = lci::alloc_counter();
  std::int64_t expected = 0;
  const auto expect = [&] {
    if (lci::post_recv_x(peer, in.data(), size, 0, arrived).mr(regions[1])().is_posted())
      ++expected;
  };
  const auto throw_it = [&] {
    lci::post_send_x op(peer, out.data(), size, 0, lci::COMP_NULL);
    post(op.mr(regions[0]));
  };
  expect();  // before it is sent, as the rival does
  lci::barrier();
  const double result = one_way_us(iterations, throw_it, [&] {
    while (lci::counter_get(arrived) < expected) lci::progress();
    expect();
  });
  // The last receive waits for this.
  throw_it();
  while (lci::counter_get(arrived) < expected) lci::progress();
  lci::barrier();
  lci::free_comp(&arrived);
  for (lci::mr_t& region : regions) lci::deregister_memory(&region);
  return result;
}

int messages = 0;  // handlers run in the thread that makes progress, which is the only one

double am_us(int iterations) {
  const int peer = 1 - lci::get_rank_me();
  std::uint64_t out = 0;
  lci::comp_t handler = lci::alloc_handler_x([](lci::status_t s) {
                          lci::put_upacket(s.get_buffer());
                          ++messages;
                        }).zero_copy_am(true)();
  const lci::rcomp_t number = lci::register_rcomp(handler);
  lci::barrier();
  int expected = 0;
  const double result = one_way_us(
      iterations, [&] { post(lci::post_am_x(peer, &out, sizeof out, lci::COMP_NULL, number)); },
      [&] {
        ++expected;
        while (messages < expected) lci::progress();
      });
  lci::barrier();
  lci::deregister_rcomp(number);
  lci::free_comp(&handler);
  return result;
}

double put_mb_per_s(int iterations) {
  std::vector<char> memory(BLOCK);
  lci::mr_t region = lci::register_memory(memory.data(), memory.size());
  const lci::rmr_t mine = lci::get_rmr(region);
  lci::rmr_t keys[2];
  lci::allgather(&mine, keys, sizeof mine);
  lci::comp_t complete = lci::alloc_counter();
  std::int64_t under_way = 0;
  const auto put = [&](int count) {
    for (int i = 0; i < count; ++i) {
      lci::post_put_x op(1, memory.data(), BLOCK, complete, 0, keys[1]);
      under_way += post(op.mr(region).comp_semantic(lci::comp_semantic_t::network));
      while (under_way - lci::counter_get(complete) >= MOST_UNDER_WAY) lci::progress();
    }
    while (lci::counter_get(complete) < under_way) lci::progress();
  };
  double seconds = 1;
  if (lci::get_rank_me() == 0) {
    put(WARM_UP / 10);  // makes the connection and fetches the key
    const double start = now_us();
    put(iterations);
    seconds = (now_us() - start) / 1e6;
  } else {
    // Puts need no help from here, and a rank that spins takes the processor that emulates the
    // device.
    lci::comp_t met = lci::alloc_counter();
    lci::barrier_x().comp(met)();
    while (lci::counter_get(met) == 0) {
      lci::progress();
      usleep(1000);
    }
    lci::free_comp(&met);
  }
  if (lci::get_rank_me() == 0) lci::barrier();
  lci::free_comp(&complete);
  lci::deregister_memory(&region);
  return static_cast<double>(BLOCK) * iterations / seconds / 1e6;
}

void pin(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(processor), &one);
  (void)sched_setaffinity(0, sizeof one, &one);  // without it, results only vary more
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  takes_mean = argc > 3 && std::strcmp(argv[3], "mean") == 0;
  const int iterations = std::atoi(argv[2]);
  lci::g_runtime_init();
  pin(lci::get_rank_me());
  double value = 0;
  if (std::strcmp(argv[1], "send") == 0) value = send_us(iterations, sizeof(std::uint64_t));
  if (std::strcmp(argv[1], "am") == 0) value = am_us(iterations);
  if (std::strcmp(argv[1], "block") == 0)
    value = static_cast<double>(LARGE) / send_us(iterations, LARGE);
  if (std::strcmp(argv[1], "put") == 0) value = put_mb_per_s(iterations);
  if (lci::get_rank_me() == 0) std::printf("%.4f\n", value);
  lci::g_runtime_fina();
  return value > 0 ? 0 : 1;
}
