// NCCL's send and receive between the two processes, if its library is found.
#include "bench/gpu/contender.hpp"
#include "tools/perf/nccl_library.hpp"

namespace bench {
namespace {

using functions = lci_perf::nccl_library;
using unique_id = lci_perf::nccl_id;
using lci_perf::NCCL_UINT8;

class nccl final : public contender {
 public:
  nccl(session& run, gpu& here, const limits& most, const functions& f, void* comm)
      : run_(run),
        gpu_(here),
        f_(f),
        comm_(comm),
        out_(here.allocate(most.largest)),
        in_(here.allocate(most.largest)),
        stream_(here.make_stream()),
        query_(here.find<int(void*)>("cuStreamQuery")) {}
  ~nccl() override {
    f_.comm_destroy(comm_);
    for (void* memory : {out_, in_}) gpu_.release(memory);
    gpu_.call("cuStreamDestroy_v2", stream_);
  }
  const char* who() const override { return "nccl"; }
  std::vector<double> one_way_us(std::size_t size, int rounds) override {
    std::vector<double> times;
    run_.both().meet();
    for (int i = 0; i < rounds; ++i) {
      const std::uint64_t start = now_ns();
      if (run_.both().is_first()) {
        must(f_.send(out_, size, NCCL_UINT8, 1, comm_, stream_));
        must(f_.recv(in_, size, NCCL_UINT8, 1, comm_, stream_));
        finish();
      } else {
        must(f_.recv(in_, size, NCCL_UINT8, 0, comm_, stream_));
        finish();  // the processor knows before it answers
        must(f_.send(out_, size, NCCL_UINT8, 0, comm_, stream_));
      }
      times.push_back(static_cast<double>(now_ns() - start) / 2e3);
    }
    finish();
    return times;
  }
  double window_us(std::size_t size, int count) override {
    const std::uint64_t signal = next_signal();
    run_.both().meet();
    const std::uint64_t start = now_ns();
    must(f_.group_start());
    for (int i = 0; i < count; ++i) {
      must(run_.both().is_first() ? f_.send(out_, size, NCCL_UINT8, 1, comm_, stream_)
                                  : f_.recv(in_, size, NCCL_UINT8, 0, comm_, stream_));
    }
    must(f_.group_end());
    finish();
    if (!run_.both().is_first()) run_.both().signal(signal);
    while (run_.both().is_first() && !run_.both().signalled(signal)) continue;
    return static_cast<double>(now_ns() - start) / 1e3;
  }

 private:
  void must(int answer) const {
    if (answer != 0) throw std::runtime_error(std::string("NCCL: ") + f_.get_error_string(answer));
  }
  void finish() const { gpu::finish(query_, stream_); }

  session& run_;
  gpu& gpu_;
  functions f_;
  void* comm_;
  void *out_, *in_, *stream_;
  int (*query_)(void*);
};

}  // namespace

std::unique_ptr<contender> make_nccl(session& run, gpu& here, const limits& most,
                                     std::string& why) {
  functions f;
  why = f.load();
  if (!all_agree(run, why)) return nullptr;
  unique_id id{};
  if (run.both().is_first()) f.get_unique_id(&id);
  lci::broadcast(&id, sizeof id, 0);
  void* comm = nullptr;
  const int answer = f.comm_init_rank(&comm, 2, id, run.both().rank());
  if (answer != 0) why = std::string("no communicator: ") + f.get_error_string(answer);
  if (!all_agree(run, why)) return nullptr;
  return std::make_unique<nccl>(run, here, most, f, comm);
}

}  // namespace bench
