#include "bench/gpu/mixed.hpp"

namespace bench {
namespace {

constexpr std::size_t SMALL = 4096;

// A buffer of either kind that is registered and known to the other rank.
class window {
 public:
  window(session& run, gpu& here, bool on_gpu, std::size_t size)
      : gpu_(here), on_gpu_(on_gpu), at_(on_gpu ? here.allocate(size) : std::malloc(size)) {
    region_ = lci::register_memory(at_, size);
    const lci::rmr_t mine = lci::get_rmr(region_);
    lci::rmr_t all[2];
    lci::allgather(&mine, all, sizeof mine);
    there_ = all[run.peer()];
  }
  ~window() {
    lci::barrier();
    lci::deregister_memory(&region_);
    on_gpu_ ? gpu_.release(at_) : std::free(at_);
  }
  void* get() const { return at_; }
  lci::mr_t region() const { return region_; }
  lci::rmr_t there() const { return there_; }

 private:
  gpu& gpu_;
  bool on_gpu_;
  void* at_;
  lci::mr_t region_;
  lci::rmr_t there_;
};

// Round trips of 8 bytes: rank 0 puts from one window into another, rank 1 answers from host to
// host. Rank 0 calls `meanwhile` in each round.
template <class Meanwhile>
std::vector<double> round_trips(session& run, gpu& here, const window& from, const window& to,
                                int rounds, Meanwhile meanwhile) {
  const window back_from(run, here, false, SMALL), back_to(run, here, false, SMALL);
  lci::comp_t arrived = lci::alloc_counter(), sent = lci::alloc_counter();
  const lci::rcomp_t signal = lci::register_rcomp(arrived);
  lci::barrier();
  const bool first = run.both().is_first();
  const window& source = first ? from : back_from;
  const lci::rmr_t target = first ? to.there() : back_to.there();
  std::int64_t sends = 0;
  const auto send = [&] {
    lci::post_put_x put(run.peer(), source.get(), 8, sent, 0, target);
    sends += post(put.mr(source.region()).remote_comp(signal));
  };
  const auto wait_for = [](lci::comp_t counter, std::int64_t value) {
    while (lci::counter_get(counter) < value) lci::progress();
  };
  std::vector<double> times;
  run.both().meet();
  for (int i = 0; i < rounds; ++i) {
    if (first) meanwhile();
    const std::uint64_t start = now_ns();
    if (first) send();
    wait_for(arrived, i + 1);
    if (!first) send();
    times.push_back(static_cast<double>(now_ns() - start) / 1e3);
    wait_for(sent, sends);
  }
  lci::barrier();
  lci::deregister_rcomp(signal);
  for (lci::comp_t* comp : {&arrived, &sent}) lci::free_comp(comp);
  return times;
}

double one_way_us(session& run, gpu& here, bool from_gpu, bool to_gpu, int rounds) {
  const window host_from(run, here, false, SMALL), host_to(run, here, false, SMALL);
  const window from(run, here, from_gpu, SMALL), to(run, here, to_gpu, SMALL);
  const auto nothing = [] {};
  round_trips(run, here, from, to, rounds / 10 + 1, nothing);
  const double host = median(round_trips(run, here, host_from, host_to, rounds, nothing)) / 2;
  return median(round_trips(run, here, from, to, rounds, nothing)) - host;
}

double percentile_99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

}  // namespace

double host_to_gpu_us(session& run, gpu& here, int rounds) {
  return one_way_us(run, here, false, true, rounds);
}
double gpu_to_host_us(session& run, gpu& here, int rounds) {
  return one_way_us(run, here, true, false, rounds);
}

beside_result beside_bulk(session& run, gpu& here, std::size_t bulk, int rounds) {
  const window from(run, here, false, SMALL), to(run, here, false, SMALL);
  const window bulk_from(run, here, true, bulk), bulk_to(run, here, true, bulk);
  const std::vector<double> alone = round_trips(run, here, from, to, rounds, [] {});
  lci::comp_t done = lci::alloc_counter();
  std::int64_t posted = 0;
  // Two under way at any time.
  const auto keep_going = [&] {
    while (posted - lci::counter_get(done) < 2) {
      lci::post_put_x put(run.peer(), bulk_from.get(), bulk, done, 0, bulk_to.there());
      put.mr(bulk_from.region()).comp_semantic(lci::comp_semantic_t::network).allow_done(false);
      post(put);
      ++posted;
    }
  };
  const std::uint64_t start = now_ns();
  const std::vector<double> beside = round_trips(run, here, from, to, rounds, keep_going);
  while (lci::counter_get(done) < posted) lci::progress();
  const auto time = static_cast<double>(now_ns() - start);
  const double gbs = static_cast<double>(bulk) * static_cast<double>(posted) / time;
  lci::barrier();
  lci::free_comp(&done);
  return {median(alone) / 2, percentile_99(alone) / 2, median(beside) / 2,
          percentile_99(beside) / 2, gbs};
}

double copy_gbs(gpu& here, bool to_host, std::size_t size) {
  for (const char* needed : {"cuMemHostAlloc", "cuMemcpyAsync", "cuStreamQuery", "cuMemFreeHost"}) {
    if (!here.has(needed)) return 0;
  }
  void* host = nullptr;
  here.must("cuMemHostAlloc", &host, size, 0u);
  void* const device = here.allocate(size);
  void* const stream = here.make_stream();
  void* const to = to_host ? host : device;
  void* const from = to_host ? device : host;
  const auto query = here.find<int(void*)>("cuStreamQuery");
  std::vector<double> speeds;
  for (int i = 0; i < 7; ++i) {
    const std::uint64_t start = now_ns();
    here.must("cuMemcpyAsync", to, from, size, stream);
    gpu::finish(query, stream);
    if (i > 0) speeds.push_back(static_cast<double>(size) / static_cast<double>(now_ns() - start));
  }
  here.must("cuStreamDestroy_v2", stream);
  here.must("cuMemFreeHost", host);
  here.release(device);
  return median(speeds);
}

}  // namespace bench
