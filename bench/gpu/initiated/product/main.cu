// bench_gpu_product [--quick] [--only TEXT] [--deaths N] [--limit SECONDS] [--in-threads]: calls of
// kernels as a program has them, through endpoints of tier T3 on GPU 0: latency between two kernels
// and to a handler of the host, rate, and how soon a kernel ends with what it waits for. Only the
// public interface. Prints lines of JSON, one for each row; run beside this file builds it and
// prints a table. --deaths measures killed peers alone. --in-threads makes the same calls in
// threads of the process, to try the program where there is no GPU. Exit status 77 without a GPU, 3
// if a row hangs.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/gpu/initiated/product/deaths.hpp"
#include "bench/gpu/initiated/product/ends.hpp"
#include "bench/gpu/initiated/product/messages.hpp"
#include "bench/gpu/initiated/product/turns.hpp"

namespace bench {
namespace {

struct options {
  bool quick = false, in_threads = false;
  int deaths = 0, limit_s = 60;
  std::string only;
};

using lci::attr_gpu_proxy_t;

constexpr double TURN_BAR_US = 8, HOST_BAR_US = 6, END_BAR_US = 10000, RATE_BAR = 2;

void measure_turns(rows& all, processor& on, bool quick) {
  struct variant {
    const char* name;
    turns_wanted w;
  };
  const variant variants[] = {
      {"", {}},
      {", without the resident kernel", {attr_gpu_proxy_t::thread, 0}},
      {", a device for each endpoint", {attr_gpu_proxy_t::thread, 1, 2}},
      {", progress in a loop", {attr_gpu_proxy_t::progress}},
      {", words and data in pinned memory", {attr_gpu_proxy_t::thread, 1, 1, kind::pinned}},
  };
  for (const variant& v : variants) {
    for (const std::uint64_t size : {8u, 0u}) {
      turns_wanted w = v.w;
      w.size = size;
      if (quick) w.rounds = 200, w.runs = 2;
      const bool has_bar = w.words == kind::of_gpu && w.resident != 0;
      all.measure(std::string(size == 0 ? "T3: signal alone" : "T3: 8 B put + signal") +
                      ", one way" + v.name,
                  "us", has_bar ? TURN_BAR_US : 0, [&] { return one_way(on, w); });
    }
  }
}

void measure_messages(rows& all, processor& on, bool quick) {
  for (const attr_gpu_proxy_t proxy : {attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread}) {
    for (const call what : {call::am, call::send}) {
      for (const answer back : {answer::flag, answer::queue}) {
        if (what == call::send && back == answer::queue) continue;
        messages_wanted w{what, back, proxy};
        if (quick) w.rounds = 200, w.runs = 2;
        messages_found got;
        const std::string name =
            std::string("T3: 8 B ") + (what == call::am ? "am" : "send") + ", " + name_of(proxy);
        all.measure(name + ", half of the way to a handler and back" +
                        (back == answer::flag ? " (pinned word)" : " (queue of the kernel)"),
                    "us", HOST_BAR_US, [&] {
                      got = message_rounds(on, w).run();
                      return got.half;
                    });
        if (back == answer::flag && !got.to_host.values.empty())
          all.measure(name + ", from the call to the handler", "us", HOST_BAR_US,
                      [&] { return got.to_host; });
      }
    }
  }
}

void measure_ends(rows& all, processor& on, bool quick) {
  struct variant {
    const char* name;
    ends_wanted w;
  };
  const variant variants[] = {
      {"end: abort", {ending::abort}},
      {"end: abort, with a resident kernel", {ending::abort, 1, 200}},
      {"end: bad key", {ending::bad_key}},
      {"end: queue full, beyond its limit", {ending::full}},
  };
  for (const variant& v : variants) {
    ends_wanted w = v.w;
    if (quick) w.rounds = 20;
    all.measure(v.name, "us", END_BAR_US, [&] { return time_ends(on, w); });
  }
}

void measure_rates(rows& all, processor& on, bool quick) {
  struct variant {
    const char* name;
    rate_wanted w;
    bool is_each;  // number of blocks, else the largest alone
  };
  const variant variants[] = {
      {"", {}, true},
      {", one resident block", {attr_gpu_proxy_t::thread, 1}, false},
      {", without the resident kernel", {attr_gpu_proxy_t::thread, 0}, false},
      {", into pinned memory", {attr_gpu_proxy_t::thread, 0, 64, kind::pinned}, false},
  };
  for (const variant& v : variants) {
    for (const unsigned blocks : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
      if (!v.is_each && blocks != 64) continue;
      rate_wanted w = v.w;
      w.blocks = blocks;
      if (quick) w.puts = 8192, w.runs = 1;
      all.measure("T3: 8 B puts, " + std::to_string(blocks) + " blocks" + v.name, "M/s",
                  blocks == 64 && v.w.resident != 0 ? RATE_BAR : 0, [&] { return rate(on, w); });
    }
  }
}

int measure_deaths(const options& o, const std::vector<pid_t>& victims) {
  processor on(o.in_threads);
  rows& all = *new rows(o.only, o.limit_s);  // its watchdog looks at it until the process ends
  deaths_found got;
  all.measure("end: peer killed, from the kill", "us", 0, [&] {
    got = time_deaths(on, victims);
    return got.from_kill;
  });
  all.measure("end: peer killed, from the host's notice", "us", END_BAR_US,
              [&] { return got.from_notice; });
  return all.failures() == 0 ? 0 : 1;
}

// In a process of its own: who forks must not have used CUDA.
bool has_gpu() {
  const pid_t child = fork();
  if (child == 0) {
    int gpus = 0;
    cudaDeviceProp properties;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0 ||
        cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
      _exit(77);
    std::printf("{\"gpu\": \"%s\", \"processors\": %ld}\n", properties.name,
                sysconf(_SC_NPROCESSORS_ONLN));
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run(const options& o) {
  // Kernels that are loaded later would wait for those that run.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  if (!o.in_threads && !has_gpu()) {
    std::fprintf(stderr, "no GPU\n");
    return 77;
  }
  if (o.deaths != 0)
    return with_victims(o.deaths, [&](const auto& victims) { return measure_deaths(o, victims); });
  setenv("LCT_PMI_BACKEND", "local", 1);
  processor on(o.in_threads);
  rows& all = *new rows(o.only, o.limit_s);  // its watchdog looks at it until the process ends
  measure_turns(all, on, o.quick);
  measure_messages(all, on, o.quick);
  measure_ends(all, on, o.quick);
  measure_rates(all, on, o.quick);
  return all.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_next = i + 1 < argc;
    if (word == "--quick") {
      o.quick = true;
    } else if (word == "--in-threads") {
      o.in_threads = true;
    } else if (word == "--only" && has_next) {
      o.only = argv[++i];
    } else if (word == "--deaths" && has_next) {
      o.deaths = std::atoi(argv[++i]);
    } else if (word == "--limit" && has_next) {
      o.limit_s = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr,
                   "usage: bench_gpu_product [--quick] [--only TEXT] [--deaths N] "
                   "[--limit SECONDS] [--in-threads]\n");
      return 2;
    }
  }
  return bench::run(o);
}
