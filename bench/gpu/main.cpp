// bench_gpu [--quick] NAME..., under lcrun -n 2: GPU memory between two processes, rank r on GPU r
// modulo their number. Prints lines of JSON; bench/gpu/run collects them and compares. Rivals
// alternate with lci, block by block, in the same minute and between the same GPUs.
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "bench/gpu/mixed.hpp"

namespace bench {
namespace {

constexpr std::size_t KIB = 1024, MIB = 1024 * KIB;

struct settings {
  bool quick = false;  // to see that it works: small sizes and few rounds
  int blocks() const { return quick ? 2 : 7; }
  int rounds(std::size_t size) const { return quick ? 5 : size >= MIB ? 100 : 300; }
  limits most() const { return quick ? limits{4 * MIB, 64} : limits{}; }
};

std::string name_of(std::size_t size) {
  if (size >= MIB) return std::to_string(size / MIB) + " MiB";
  if (size >= KIB) return std::to_string(size / KIB) + " KiB";
  return std::to_string(size) + " B";
}

class program {
 public:
  program(session& run, gpu& here, settings how) : run_(run), gpu_(here), how_(how) {}

  void latency() {
    for (const std::size_t size : {std::size_t{8}, 8 * KIB, 64 * KIB, MIB}) {
      measure("latency", name_of(size), "us",
              [&](contender& c) { return median(c.one_way_us(size, how_.rounds(size))); });
    }
  }
  void bandwidth() {
    for (std::size_t size : {64 * MIB, 256 * MIB}) {
      size = std::min(size, how_.most().largest);
      const int count = size > 64 * MIB ? 4 : 8;
      measure("bandwidth", name_of(size), "GB/s", [&](contender& c) {
        return static_cast<double>(size) * count / c.window_us(size, count) / 1e3;
      });
    }
  }
  void batch() {
    measure("batch", "64 x 1 KiB, each", "us",
            [&](contender& c) { return c.window_us(KIB, 64) / 64; });
  }
  void mixed() {
    const int rounds = how_.rounds(8);
    const double there = host_to_gpu_us(run_, gpu_, rounds);
    const double back = gpu_to_host_us(run_, gpu_, rounds);
    tell({"mixed", "lci put", "8 B host to GPU", there, "us"});
    tell({"mixed", "lci put", "8 B GPU to host", back, "us"});
  }
  void beside() {
    const std::size_t bulk = how_.quick ? MIB : 64 * MIB;
    const beside_result r = beside_bulk(run_, gpu_, bulk, how_.quick ? 50 : 3000);
    tell({"beside", "lci put", "8 B host, alone", r.alone_us, "us"});
    tell({"beside", "lci put", "8 B host, alone, 99 %", r.alone_p99_us, "us"});
    tell({"beside", "lci put", "8 B host, beside GPU bulk", r.beside_us, "us"});
    tell({"beside", "lci put", "8 B host, beside GPU bulk, 99 %", r.beside_p99_us, "us"});
    tell({"beside", "lci put", "the bulk, " + name_of(bulk), r.bulk_gbs, "GB/s"});
  }
  // With LCI_ATTR_GPU_RESIDENT, which bench/gpu/run sets: the rows of latency and mixed again.
  void resident() {
#ifdef LCI_USE_CUDA
    for (const std::size_t size : {std::size_t{8}, 8 * KIB, 64 * KIB, MIB}) {
      measure_ours("resident", name_of(size), "us",
                   [&](contender& c) { return median(c.one_way_us(size, how_.rounds(size))); });
    }
    measure_ours("resident", "64 x 1 KiB, each", "us",
                 [&](contender& c) { return c.window_us(KIB, 64) / 64; });
    const int rounds = how_.rounds(8);
    const double there = host_to_gpu_us(run_, gpu_, rounds);
    const double back = gpu_to_host_us(run_, gpu_, rounds);
    tell({"resident", "lci put", "8 B host to GPU", there, "us"});
    tell({"resident", "lci put", "8 B GPU to host", back, "us"});
#else
    if (run_.both().is_first())
      std::fprintf(stderr, "resident is left out: this build has no device code (LCI_USE_CUDA)\n");
#endif
  }
  // With LCI_ATTR_GPU_PATH=staged, which bench/gpu/run sets: against the slower of the two copies.
  void staged() {
    const std::size_t size = std::min(64 * MIB, how_.most().largest);
    double mine = copy_gbs(gpu_, run_.both().is_first(), size);
    double both[2];
    lci::allgather(&mine, both, sizeof mine);
    run_.both().meet();
    measure_ours("staged", name_of(size), "GB/s", [&](contender& c) {
      return static_cast<double>(size) * 8 / c.window_us(size, 8) / 1e3;
    });
    if (both[0] > 0)
      tell({"staged", "slower copy", name_of(size), std::min(both[0], both[1]), "GB/s"});
  }

 private:
  void tell(const result& r) {
    if (run_.both().is_first()) report(r);
  }
  // lci's contenders; made at first use, since registering is expensive.
  void make_ours() {
    if (!all_.empty()) return;
    all_.push_back(make_lci_send(run_, gpu_, how_.most()));
    all_.push_back(make_lci_put(run_, gpu_, how_.most()));
  }
  // All contenders that are available.
  const std::vector<std::unique_ptr<contender>>& everybody() {
    make_ours();
    if (std::exchange(has_rivals_, true)) return all_;
    add(&make_memcpy_peer, "memcpy");
    add(&make_nccl, "nccl");
    return all_;
  }
  template <class Make>
  void add(Make make, const char* who) {
    std::string why;
    auto rival = make(run_, gpu_, how_.most(), why);
    if (rival) {
      all_.push_back(std::move(rival));
    } else if (run_.both().is_first()) {
      std::fprintf(stderr, "%s is left out: %s\n", who, why.c_str());
    }
  }
  template <class Measure>
  void measure(const char* bench, const std::string& what, const char* unit, Measure one) {
    const auto& all = everybody();
    take_turns(bench, what, unit, one, all.size());
  }
  template <class Measure>
  void measure_ours(const char* bench, const std::string& what, const char* unit, Measure one) {
    make_ours();
    take_turns(bench, what, unit, one, 2);
  }
  template <class Measure>
  void take_turns(const char* bench, const std::string& what, const char* unit, Measure one,
                  std::size_t count) {
    std::vector<std::vector<double>> values(count);
    for (int block = -1; block < how_.blocks(); ++block) {
      for (std::size_t i = 0; i < count; ++i) {
        const double value = one(*all_[i]);
        if (block >= 0) values[i].push_back(value);  // the first one warms up
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      result r{bench, all_[i]->who(), what, median(values[i]), unit};
      r.low = *std::min_element(values[i].begin(), values[i].end());
      r.high = *std::max_element(values[i].begin(), values[i].end());
      tell(r);
    }
  }

  session& run_;
  gpu& gpu_;
  settings how_;
  std::vector<std::unique_ptr<contender>> all_;
  bool has_rivals_ = false;
};

struct entry {
  const char* name;
  void (program::*run)();
};
constexpr entry PATTERNS[] = {{"latency", &program::latency},  {"bandwidth", &program::bandwidth},
                              {"batch", &program::batch},      {"mixed", &program::mixed},
                              {"beside", &program::beside},    {"staged", &program::staged},
                              {"resident", &program::resident}};

int run(int argc, char** argv) {
  std::set<std::string> names(argv + 1, argv + argc);
  settings how;
  how.quick = names.erase("--quick") > 0;
  session here;
  gpu mine(lci::get_rank_me());
  std::string why = mine.problem();
  if (!all_agree(here, why)) {
    if (here.both().is_first()) std::fprintf(stderr, "no GPU: %s\n", why.c_str());
    return 77;
  }
  program all(here, mine, how);
  for (const entry& pattern : PATTERNS) {
    if (names.erase(pattern.name) > 0) (all.*pattern.run)();
  }
  for (const std::string& name : names) {
    std::fprintf(stderr, "no pattern is called %s\n", name.c_str());
  }
  return names.empty() ? 0 : 1;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) try {
  return bench::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_gpu: %s\n", e.what());
  return 1;
}
