// Atomic operations between processes, over whatever network the environment names: several threads
// of each rank add to words of every rank, and what each was told is never told twice; a signal is
// seen behind the puts that were done before it. The service has no public call, so the device's
// own is used.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lci.hpp"
#include "lci/runtime/device.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using lci::proto::atomic_outcome;

void must(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "rank %d: %s\n", lci::get_rank_me(), what);
  std::abort();
}

struct asked final : lci::proto::atomic_request {
  void on_atomic(atomic_outcome how) noexcept override {
    ended = how;
    is_over.store(true, std::memory_order_release);  // edge atomics_main.over
  }
  atomic_outcome ended = atomic_outcome::failed;
  std::atomic<bool> is_over{false};
};

struct window {
  static constexpr std::size_t COUNTERS = 4, WORDS = 256;
  std::uint64_t counters[COUNTERS] = {};  // two wide ones, one of two halves, the signal
  std::uint64_t data[WORDS] = {};
};
constexpr std::size_t SIGNAL = 3;

class job {
 public:
  job() : mine_(lci::register_memory(&here, sizeof(here))), keys_(size()) {
    const lci::rmr_t key = lci::get_rmr(mine_);
    lci::allgather(&key, keys_.data(), sizeof(key));
  }
  ~job() {
    lci::barrier();
    lci::deregister_memory(&mine_);
  }
  static std::size_t size() { return static_cast<std::size_t>(lci::get_rank_n()); }
  const lci::rmr_t& key(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }
  atomic_outcome change(asked& one, int rank, std::uint64_t offset,
                        const lci::wqe::word_change& how) {
    one.rank = rank;
    one.region = lci::proto::wire::name::from_bits(key(rank).opaque_rkey);
    one.offset = offset;
    one.change = how;
    one.is_over.store(false, std::memory_order_relaxed);
    lci::errorcode_t code;
    while (lci::proto::is_retry(code = device_->queues.atomics.start(one))) turn();
    must(code == lci::errorcode_t::posted, "a request is not posted");
    // edge atomics_main.over
    while (!one.is_over.load(std::memory_order_acquire)) turn();
    return one.ended;
  }
  static void turn() {
    if (!lci::progress().is_done()) std::this_thread::yield();
  }
  window here;

 private:
  lci::device_impl_t* const device_ = lci::get_default_device().p_impl;
  lci::mr_t mine_;
  std::vector<lci::rmr_t> keys_;
};

lci::wqe::word_change add(std::uint64_t value, std::uint32_t size = 8) {
  return {value, 0, 0, 0, lci::wqe::word_change::ADD, size};
}

void count(job& all, int threads, int each) {
  std::vector<std::unique_ptr<std::atomic<int>[]>> told;
  for (int rank = 0; rank < lci::get_rank_n(); ++rank)
    told.push_back(std::make_unique<std::atomic<int>[]>(job::size() *
                                                        static_cast<std::size_t>(threads * each)));
  std::atomic<int> running{threads};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      asked one;
      for (int i = 0; i < each; ++i)
        for (int rank = 0; rank < lci::get_rank_n(); ++rank) {
          const auto at = static_cast<std::uint64_t>(i % 4);
          const std::uint64_t offset = at < 2 ? 8 * at : 16 + 4 * (at - 2);
          must(all.change(one, rank, offset, add(1, at < 2 ? 8 : 4)) == atomic_outcome::done,
               "a request failed");
          if (at != 0) continue;
          std::atomic<int>& seen = told[static_cast<std::size_t>(rank)][one.old];
          must(seen.fetch_add(1, std::memory_order_relaxed) == 0, "two were told the same");
        }
      running.fetch_sub(1, std::memory_order_relaxed);
      while (running.load(std::memory_order_relaxed) != 0) job::turn();
    });
  for (std::thread& one : workers) one.join();
  lci::barrier();
  const std::uint64_t sum = job::size() * static_cast<std::uint64_t>(threads * each / 4);
  must(all.here.counters[0] == sum && all.here.counters[1] == sum, "a wide sum is wrong");
  must(all.here.counters[2] == (sum << 32 | sum), "a narrow sum is wrong");
}

// To the next rank, from the one before.
void signal_behind_puts(job& all, int rounds) {
  const int n = lci::get_rank_n(), me = lci::get_rank_me(), to = (me + 1) % n;
  std::vector<std::uint64_t> data(window::WORDS);
  asked one;
  for (std::uint64_t round = 1; round <= static_cast<std::uint64_t>(rounds); ++round) {
    // Every size, so that each way of a put is taken; those that are done say so.
    const std::size_t words = round % 2 == 0 ? window::WORDS : 1;
    data.assign(window::WORDS, round);
    lci::post_put_x(to, data.data(), 8 * words, lci::COMP_NULL, offsetof(window, data),
                    all.key(to))();
    must(all.change(one, to, 8 * SIGNAL, add(1)) == atomic_outcome::done, "a signal failed");
    // edge atomics_main.signal, other side in the other rank
    const std::atomic_ref word(all.here.counters[SIGNAL]);
    while (word.load(std::memory_order_acquire) < round) job::turn();
    for (std::size_t i = 0; i < words; ++i)
      must(std::atomic_ref(all.here.data[i]).load(std::memory_order_relaxed) == round,
           "a signal has overtaken its data");
    lci::barrier();
  }
}

void refuse(job& all) {
  asked one;
  for (int rank = 0; rank < lci::get_rank_n(); ++rank) {
    must(all.change(one, rank, sizeof(window), add(1)) == atomic_outcome::out_of_bounds, "bounds");
    must(all.change(one, rank, 4, add(1)) == atomic_outcome::misaligned, "alignment");
  }
  lci::barrier();
}

}  // namespace

int main() {
  lci::g_runtime_init();
  {
    const lci::test::watchdog watchdog("atomics, rank " + std::to_string(lci::get_rank_me()));
    job all;
    count(all, 3, 200);
    signal_behind_puts(all, 100);
    refuse(all);
  }
  lci::g_runtime_fina();
}
