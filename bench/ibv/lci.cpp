// bench_ibv send|am|put ITERATIONS, under lcrun -n 2: what ib_send_lat and ib_write_bw measure,
// over lci. Prints one number: microseconds one way of 8 bytes, the median; or MB/s of puts of 64
// KiB.
//
// As those do it: half of a round trip, each timed by itself; one region that is registered once,
// up to 128 writes under way, from the first post to the last completion. Threads: one per process.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "lci.hpp"

namespace {

constexpr std::size_t BLOCK = 65536;
constexpr std::int64_t MOST_UNDER_WAY = 128;
constexpr int WARM_UP = 100;

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

// Rank 0 throws, rank 1 throws back; `send` and `wait` are the two halves of it.
template <class Send, class Wait>
double one_way_us(int iterations, Send send, Wait wait) {
  std::vector<double> times;
  for (int i = 0; i < WARM_UP + iterations; ++i) {
    const double start = now_us();
    if (lci::get_rank_me() == 0) send();
    wait();
    if (lci::get_rank_me() == 1) send();
    if (i >= WARM_UP) times.push_back((now_us() - start) / 2);
  }
  return median(times);
}

double send_us(int iterations) {
  const int peer = 1 - lci::get_rank_me();
  std::uint64_t out = 0, in = 0;
  lci::comp_t arrived = lci::alloc_counter();
  std::int64_t expected = 0;
  const auto expect = [&] {
    if (lci::post_recv_x(peer, &in, sizeof in, 0, arrived)().is_posted()) ++expected;
  };
  expect();  // before it is sent, as the rival does
  lci::barrier();
  const double result = one_way_us(
      iterations, [&] { post(lci::post_send_x(peer, &out, sizeof out, 0, lci::COMP_NULL)); },
      [&] {
        while (lci::counter_get(arrived) < expected) lci::progress();
        expect();
      });
  // The last receive waits for this.
  post(lci::post_send_x(peer, &out, sizeof out, 0, lci::COMP_NULL));
  while (lci::counter_get(arrived) < expected) lci::progress();
  lci::barrier();
  lci::free_comp(&arrived);
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
    put(WARM_UP / 10);  // finds connection and key
    const double start = now_us();
    put(iterations);
    seconds = (now_us() - start) / 1e6;
  } else {
    // Puts need no help, and who spins takes the processor that the device is made of.
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
  (void)sched_setaffinity(0, sizeof one, &one);  // without, numbers only vary more
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int iterations = std::atoi(argv[2]);
  lci::g_runtime_init();
  pin(lci::get_rank_me());
  double value = 0;
  if (std::strcmp(argv[1], "send") == 0) value = send_us(iterations);
  if (std::strcmp(argv[1], "am") == 0) value = am_us(iterations);
  if (std::strcmp(argv[1], "put") == 0) value = put_mb_per_s(iterations);
  if (lci::get_rank_me() == 0) std::printf("%.4f\n", value);
  lci::g_runtime_fina();
  return value > 0 ? 0 : 1;
}
