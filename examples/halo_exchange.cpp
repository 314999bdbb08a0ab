// Heat spreading on a plate, cut into bands of rows: lcrun -n 4 halo_exchange [size] [steps]
//
// A process computes its band, and for every step it needs the edge rows of the bands above and
// below: its halo. There are two ways to get them: messages matched by receives, and puts straight
// into the neighbour's memory. Both must give the same bits as one process that computes alone.
#include <chrono>
#include <cstdio>

#include "lci.hpp"
#include "plate.hpp"

namespace {

using plate::band_t, plate::neighbour_t, plate::row_bytes;
int steps = 200;

void wait_for(lci::comp_t counter, int64_t value) {
  while (lci::counter_get(counter) < value) lci::progress();
}

// Way 1. An operation that returns posted will signal the counter; one that returns done will not.
void by_messages(band_t& band) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  lci::comp_t complete = lci::alloc_counter();
  int64_t posted = 0;
  for (int step = 0; step < steps; ++step) {
    for (const neighbour_t& to : plate::neighbours(me, n)) {
      posted +=
          lci::post_recv(to.rank, band.row(step, to.halo), row_bytes(), 0, complete).is_posted();
      // Without retry the library keeps what it cannot send now, and sends it in a later
      // progress().
      lci::post_send_x send(to.rank, band.row(step, to.edge), row_bytes(), 0, complete);
      posted += send.allow_retry(false)().is_posted();
    }
    wait_for(complete, posted);
    band.advance(step);
  }
  lci::free_comp(&complete);
}

// Way 2. Every process publishes the keys of its two arrays. The neighbours then write into them,
// and for each neighbour a counter here counts the writes. A neighbour may be one step ahead, but
// then it writes to the other array, and it cannot continue without a row from this process.
void by_puts(band_t& band) {
  lci::mr_t regions[2];
  lci::rmr_t keys[2];
  for (int i : {0, 1}) {
    regions[i] = lci::register_memory(band.at[i].data(), band.at[i].size() * sizeof(double));
    keys[i] = lci::get_rmr(regions[i]);
  }
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  std::vector<lci::rmr_t> all_keys(2 * size_t(n));
  lci::comp_t from_above = lci::alloc_counter(), from_below = lci::alloc_counter();
  const lci::rcomp_t for_above = lci::register_rcomp(from_above);
  const lci::rcomp_t for_below = lci::register_rcomp(from_below);
  // No rank gets past this call before all have reached it, so all have registered their counters,
  // under the same numbers.
  lci::allgather(keys, all_keys.data(), sizeof(keys));
  for (int step = 0; step < steps; ++step) {
    for (const neighbour_t& to : plate::neighbours(me, n)) {
      const bool is_above = to.rank < me;
      const size_t row_there = is_above ? plate::rows_of(to.rank, n) + 1 : 0;
      const lci::rmr_t key = all_keys[2 * size_t(to.rank) + size_t(step % 2)];
      lci::post_put_x put(to.rank, band.row(step, to.edge), row_bytes(), lci::COMP_NULL,
                          row_there * row_bytes(), key);
      put.remote_comp(is_above ? for_below : for_above)();
    }
    for (const neighbour_t& from : plate::neighbours(me, n)) {
      wait_for(from.rank < me ? from_above : from_below, step + 1);
    }
    band.advance(step);
  }
  lci::barrier();
  for (lci::rcomp_t number : {for_above, for_below}) lci::deregister_rcomp(number);
  for (lci::comp_t* counter : {&from_above, &from_below}) lci::free_comp(counter);
  for (lci::mr_t& region : regions) lci::deregister_memory(&region);
}

// Runs one way and compares every process's band with its part of `alone`.
bool run(const char* name, void (*way)(band_t&), band_t& alone) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  band_t band(me, n);
  lci::barrier();
  const auto start = std::chrono::steady_clock::now();
  way(band);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const size_t bytes = band.rows * row_bytes();
  int differs =
      std::memcmp(band.row(steps, 1), alone.row(steps, plate::first_row(me, n) + 1), bytes) != 0;
  lci::allreduce(
      &differs, &differs, 1, sizeof(int), [](const void* a, const void* b, void* out, size_t) {
        *static_cast<int*>(out) = *static_cast<const int*>(a) | *static_cast<const int*>(b);
      });
  const char* verdict = differs ? "different" : "identical";
  if (me == 0) std::printf("%s: %s, %.3f s\n", name, verdict, seconds.count());
  return !differs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) plate::size = std::strtoul(argv[1], nullptr, 10);
  if (argc > 2) steps = std::atoi(argv[2]);
  lci::g_runtime_init();
  if (plate::size < size_t(lci::get_rank_n()) || steps < 0) {
    // A band without a row would send the row that it receives.
    if (lci::get_rank_me() == 0)
      std::fputs("usage: halo_exchange [size] [steps]: a row for each process, steps >= 0\n",
                 stderr);
    lci::barrier();  // the message is printed before the first process, and with it the job, ends
    lci::g_runtime_fina();
    return 2;
  }
  band_t alone(0, 1);
  for (int step = 0; step < steps; ++step) alone.advance(step);
  const bool messages = run("send and receive", by_messages, alone);
  const bool puts = run("put with signal", by_puts, alone);
  lci::g_runtime_fina();
  return messages && puts ? 0 : 1;
}
