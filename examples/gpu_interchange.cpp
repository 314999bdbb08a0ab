// Kernels that exchange 1024 bytes by themselves, in eight steps: lcrun -n 2 gpu_interchange [cpu]
//
// Without a GPU, or with "cpu", threads make the calls that the kernel would make. A single process
// sends to itself. With RDMA interfaces for GPU kernels the same takes queue pairs, doorbells and
// completion queues.
#include "kernel.hpp"

namespace {

namespace gpu = lci::gpu;
constexpr unsigned char VALUE = 42;
constexpr size_t SIZE = 1024;

struct report_t {
  gpu::status status;
  unsigned wrong;  // bytes that are not VALUE
};

// What every rank runs: sends its bytes to the next one and waits for those of the one before.
struct interchange_t {
  gpu::endpoint_t endpoint;
  int to, from;
  gpu::place_t source, target, signal;  // the last two in memory of the next rank
  const unsigned char* arrived;
  const uint64_t* signals;
  report_t* report;

  ANYWHERE void operator()(thread_t me) const {
    // The data, followed by a signal: a rank that sees the signal sees the data.
    gpu::status s = gpu::put_signal<gpu::block>(endpoint, to, target, source, SIZE, signal, 1,
                                                gpu::signal_op::add);
    if (s == gpu::status::ok) s = gpu::quiet<gpu::block>(endpoint, to);
    if (s == gpu::status::ok)
      s = gpu::wait_until<gpu::block>(endpoint, signals, gpu::comparison::greater_equal, 1, from);
    if (me.thread != 0) return;
    report->status = s;
    report->wrong = 0;
    for (size_t i = 0; i < SIZE; ++i) report->wrong += arrived[i] != VALUE;
  }
};

int interchange(processor_t& processor) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  std::printf("rank %d: 2. the network is open, a device has queues of its own\n", me);
  const lci::device_t device = lci::get_default_device();
  std::printf("rank %d: 3. kernels run on: %s\n", me, processor.name().c_str());

  gpu::endpoint_t endpoint = lci::alloc_gpu_endpoint_x(device)
                                 .gpu(processor.gpu())
                                 .gpu_proxy(lci::attr_gpu_proxy_t::progress)();
  std::printf("rank %d: 4. an endpoint for kernels, with a queue to each of %d ranks\n", me, n);
  int failures;
  {
    shared_t<unsigned char> source(processor, SIZE, endpoint), target(processor, SIZE, endpoint);
    shared_t<uint64_t> signals(processor, 1, endpoint);
    report_t* const report = processor.allocate<report_t>(1);
    processor.write(source.at, std::vector<unsigned char>(SIZE, VALUE));
    std::printf("rank %d: 5. memory is registered: %zu bytes to send, %zu to receive\n", me, SIZE,
                SIZE);
    const int to = (me + 1) % n, from = (me + n - 1) % n;
    interchange_t kernel{endpoint, to,        from,       {source.key, 0}, {},
                         {},       target.at, signals.at, report};
    kernel.target = {processor.read(target.keys_of, size_t(n))[size_t(to)], 0};
    kernel.signal = {processor.read(signals.keys_of, size_t(n))[size_t(to)], 0};
    std::printf("rank %d: 6. keys are exchanged; the memory of rank %d %s\n", me, to,
                kernel.target.key.mapped != 0 ? "is mapped: kernels store directly"
                                              : "is reached by work requests");
    processor.run(1, processor.threads(128), kernel, endpoint);
    std::printf("rank %d: 7. a kernel has put, signalled and waited\n", me);
    const report_t seen = processor.read(report, 1)[0];
    std::printf("rank %d: 8. %s, %u of %zu bytes wrong\n", me, gpu::text_of(seen.status),
                seen.wrong, SIZE);
    failures = seen.status != gpu::status::ok || seen.wrong != 0;
    lci::barrier();
    processor.free(report);
  }
  lci::free_gpu_endpoint(&endpoint);
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  lci::g_runtime_init();
  std::printf("rank %d: 1. a runtime of %d ranks\n", lci::get_rank_me(), lci::get_rank_n());
  int failures;
  {
    processor_t processor(lci::get_rank_me(), argc > 1 && std::string(argv[1]) == "cpu");
    failures = interchange(processor);
  }
  lci::g_runtime_fina();
  return failures;
}
