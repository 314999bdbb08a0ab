// The copy alone: cuMemcpyPeerAsync between two GPUs of one process. Only the thread that requested
// it is notified, so nothing that goes through the driver can be faster.
#include "bench/gpu/contender.hpp"

namespace bench {
namespace {

class memcpy_peer final : public contender {
 public:
  memcpy_peer(session& run, gpu& here, const limits& most) : run_(run), gpu_(here) {
    if (!run.both().is_first()) return;
    from_ = here.allocate(most.largest);
    other_ = here.context_of((here.number() + 1) % here.count());
    // Errors here show in the copies: both accesses may have been enabled before.
    here.call("cuCtxEnablePeerAccess", other_, 0u);
    here.must("cuCtxPushCurrent_v2", other_);
    to_ = here.allocate(most.largest);
    here.call("cuCtxEnablePeerAccess", here.context(), 0u);
    void* popped = nullptr;
    here.must("cuCtxPopCurrent_v2", &popped);
    stream_ = here.make_stream();
    copy_ = here.find<copy_fn>("cuMemcpyPeerAsync");
    query_ = here.find<int(void*)>("cuStreamQuery");
  }
  ~memcpy_peer() override {
    for (void* memory : {from_, to_}) {
      if (memory != nullptr) gpu_.release(memory);
    }
    if (stream_ != nullptr) gpu_.call("cuStreamDestroy_v2", stream_);
  }
  const char* who() const override { return "memcpy"; }
  std::vector<double> one_way_us(std::size_t size, int rounds) override {
    std::vector<double> times;
    run_.both().meet();
    for (int i = 0; run_.both().is_first() && i < rounds; ++i) times.push_back(copies(size, 1));
    run_.both().meet();
    return times;
  }
  double window_us(std::size_t size, int count) override {
    run_.both().meet();
    const double time = run_.both().is_first() ? copies(size, count) : 0;
    run_.both().meet();
    return time;
  }

 private:
  using copy_fn = int(void* to, void* to_context, void* from, void* from_context, std::size_t size,
                      void* stream);
  double copies(std::size_t size, int count) {
    const std::uint64_t start = now_ns();
    for (int i = 0; i < count; ++i) {
      if (copy_(to_, other_, from_, gpu_.context(), size, stream_) != 0)
        throw std::runtime_error("cuMemcpyPeerAsync failed");
    }
    gpu::finish(query_, stream_);
    return static_cast<double>(now_ns() - start) / 1e3;
  }

  session& run_;
  gpu& gpu_;
  void *from_ = nullptr, *to_ = nullptr, *other_ = nullptr, *stream_ = nullptr;
  copy_fn* copy_ = nullptr;
  int (*query_)(void*) = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_memcpy_peer(session& run, gpu& here, const limits& most,
                                            std::string& why) {
  if (here.count() < 2) {
    why = "needs two GPUs in one process";
  } else if (!here.has("cuMemcpyPeerAsync") || !here.has("cuStreamQuery")) {
    why = "not in this driver";
  }
  if (!all_agree(run, why)) return nullptr;
  return std::make_unique<memcpy_peer>(run, here, most);
}

}  // namespace bench
