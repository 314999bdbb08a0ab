// Kernel to kernel: two kernels of one GPU take turns through two endpoints of one rank, and the
// rate of many threads. Threads: single.
#pragma once

#include "bench/gpu/initiated/product/job.hpp"
#include "bench/gpu/initiated/product/rows.hpp"

namespace bench {

// Kernel `me` of the two. It takes a turn when its word has the number of the round.
struct turns {
  static constexpr std::uint64_t WARM_UP = 50;

  lci::gpu::endpoint_t endpoint;
  int me = 0;
  lci::gpu::place_t to, from, signal;  // of the other one, but for `from`
  const std::uint64_t* word = nullptr;
  std::uint64_t size = 0;  // of the data; 0: the signal alone
  std::uint64_t rounds = 0;
  std::uint64_t* time = nullptr;  // of all rounds, of kernel 0
  std::uint64_t* said = nullptr;  // a status and one

  BENCH_ANYWHERE lci::gpu::status play() const {
    using namespace lci::gpu;
    std::uint64_t begin = 0;
    for (std::uint64_t round = 1; round <= WARM_UP + rounds; ++round) {
      if (round == WARM_UP + 1) begin = now_ns();
      for (int step = 0; step < 2; ++step) {
        status s;
        if (step != me)
          s = wait_until(endpoint, word, comparison::equal, round, 0);
        else if (size == 0)
          s = lci::gpu::signal(endpoint, 0, signal, round);
        else
          s = put_signal(endpoint, 0, to, from, size, signal, round);
        if (s != status::ok) return s;
      }
    }
    if (me == 0) tell(time, now_ns() - begin);
    return status::ok;
  }
  BENCH_ANYWHERE void operator()(caller c) const {
    if (!c.is_first()) return;
    tell_status(said, play());
  }
};

struct turns_wanted {
  lci::attr_gpu_proxy_t proxy = lci::attr_gpu_proxy_t::thread;
  int resident = 1;
  int devices = 1;
  kind words = kind::of_gpu;
  std::uint64_t size = 8, rounds = 5000;
  int runs = 5;
};

// Microseconds one way, of each run.
inline found one_way(processor& on, const turns_wanted& w) {
  job of(on, w.resident, w.devices);
  endpoint first(on, of, {w.proxy}, 0), second(on, of, {w.proxy}, 1);
  endpoint* const ends[2] = {&first, &second};
  memory words(on, of, 4096, w.words), data(on, of, 4096, kind::of_gpu);
  pinned_words told(on, 3);
  const lci::gpu::key_t there = words.there();
  found out;
  for (int run = 0; run < w.runs; ++run) {
    words.clear();
    for (std::size_t i = 0; i < 3; ++i) tell(told.at(i), 0);
    for (int i = 0; i < 2; ++i) {
      turns t;
      const auto mine = static_cast<std::uint64_t>(256 * i), yours = 256 - mine;
      t.endpoint = ends[i]->handle();
      t.me = i;
      t.to = {there, 1024 + yours};
      t.signal = {there, yours};
      t.from = {data.own(*ends[i]), 0};
      t.word = words.word(mine);
      t.size = w.size;
      t.rounds = w.rounds;
      t.time = told.at(2);
      t.said = told.at(static_cast<std::size_t>(i));
      on.start(i, 1, 1, t);
    }
    drive(on, of, 2, w.proxy);
    for (std::size_t i = 0; i < 2; ++i) must(status_in(told.at(i)), "turns");
    out.values.push_back(static_cast<double>(look(told.at(2))) / static_cast<double>(2 * w.rounds) /
                         1e3);
  }
  out.more = of.way(there) + ", \"proxy\": \"" + name_of(w.proxy) + "\"";
  return out;
}

// Each thread puts `each` values to words of its own, and waits until all are there. They have no
// order, so no word gets two.
struct many_puts {
  lci::gpu::endpoint_t endpoint;
  lci::gpu::key_t there;
  std::uint64_t each = 0;
  std::uint64_t* said = nullptr;

  BENCH_ANYWHERE void operator()(caller c) const {
    using namespace lci::gpu;
    status s = status::ok;
    for (std::uint64_t i = 1; i <= each && s == status::ok; ++i)
      s = put_value(endpoint, 0, {there, 8 * (c.number() * each + i - 1)}, i);
    if (s == status::ok) s = quiet(endpoint, 0);
    if (s != status::ok) tell_status(said, s);
  }
};

struct rate_wanted {
  lci::attr_gpu_proxy_t proxy = lci::attr_gpu_proxy_t::thread;
  int resident = 4;
  unsigned blocks = 64;
  kind words = kind::of_gpu;
  std::uint64_t puts = 65536;
  int runs = 3;
};

// Millions a second, the last quiet included.
inline found rate(processor& on, const rate_wanted& w) {
  job of(on, w.resident, 1);
  endpoint end(on, of, {w.proxy});
  const std::size_t callers = std::size_t{w.blocks} * on.threads(128);
  many_puts t;
  t.each = std::max<std::uint64_t>(1, w.puts / callers);
  memory words(on, of, 8 * callers * t.each, w.words);
  pinned_words told(on, 1);
  t.endpoint = end.handle();
  t.there = words.there();
  t.said = told.at(0);
  found out;
  for (int run = 0; run <= w.runs; ++run) {
    words.clear();
    const std::uint64_t begin = host_ns();
    on.start(0, w.blocks, 128, t);
    drive(on, of, 1, w.proxy);
    const auto ns = static_cast<double>(host_ns() - begin);
    if (look(told.at(0)) != 0) must(status_in(told.at(0)), "puts");
    std::uint64_t place = 0;
    for (const std::uint64_t one : on.read<std::uint64_t>(words.at(), callers * t.each))
      if (one != place++ % t.each + 1) throw std::runtime_error("a put is missing");
    // The first one warms up.
    if (run != 0) out.values.push_back(static_cast<double>(callers * t.each) / ns * 1e3);
  }
  out.more = of.way(t.there) + ", \"proxy\": \"" + name_of(w.proxy) + "\"";
  return out;
}

}  // namespace bench
