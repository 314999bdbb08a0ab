// A kernel that produces, a host that consumes: lcrun -n 2 gpu_producer [messages] [cpu]
//
// The threads of a kernel send tagged messages, and active messages to a handler, as a host would.
// The host of the next rank receives the former with post_recv() and counts the latter. Neither
// knows that a kernel has sent them.
#include <algorithm>

#include "kernel.hpp"

namespace {

namespace gpu = lci::gpu;

struct item_t {
  uint64_t number, square;
};
ANYWHERE inline item_t item(uint64_t number) { return {number, number * number}; }

// Thread k of K sends the items k, k + K...: each to a receive whose tag is its number, and one
// active message for each.
struct producer_t {
  gpu::endpoint_t endpoint;
  int to;
  uint64_t items;
  lci::rcomp_t counted;
  int* result;

  ANYWHERE void operator()(thread_t me) const {
    gpu::status s = gpu::status::ok;
    const uint64_t step = uint64_t(me.threads) * uint64_t(me.blocks);
    for (uint64_t i = uint64_t(me.block) * uint64_t(me.threads) + uint64_t(me.thread);
         i < items && s == gpu::status::ok; i += step) {
      s = gpu::send_value(endpoint, to, item(i), i);
      if (s == gpu::status::ok) s = gpu::am_value(endpoint, to, item(i), counted, 0);
    }
    if (s == gpu::status::ok) s = gpu::quiet(endpoint, to);
    if (s != gpu::status::ok) *result = int(s);
  }
};

std::atomic<uint64_t> sum{0};  // of the values in active messages

// Collective. A kernel that has failed has not sent everything: the next rank would wait forever.
void leave_if_one_failed(int mine) {
  std::vector<int> all;
  all.resize(size_t(lci::get_rank_n()));
  lci::allgather(&mine, all.data(), sizeof(mine));
  const auto is_ok = [](int one) { return gpu::status(one) == gpu::status::ok; };
  if (std::all_of(all.begin(), all.end(), is_ok)) return;
  std::printf("rank %d: its kernel has ended: %s\n", lci::get_rank_me(),
              gpu::text_of(gpu::status(mine)));
  std::fflush(stdout);
  lci::barrier();  // all have printed their message
  std::_Exit(1);   // receives are still posted, into memory that cannot be freed
}

int run(processor_t& processor, uint64_t items) {
  const int me = lci::get_rank_me(), n = lci::get_rank_n();
  gpu::endpoint_t endpoint =
      lci::alloc_gpu_endpoint_x().gpu(processor.gpu()).gpu_proxy(lci::attr_gpu_proxy_t::progress)();
  lci::comp_t handler = lci::alloc_handler([](lci::status_t status) {
    item_t got;
    std::memcpy(&got, status.buffer, sizeof(got));
    sum += got.square;
    std::free(status.buffer);
  });
  const lci::rcomp_t counted = lci::register_rcomp(handler);
  lci::comp_t received = lci::alloc_counter();
  std::vector<item_t> got(items);
  for (uint64_t i = 0; i < items; ++i)
    lci::post_recv_x((me + n - 1) % n, &got[i], sizeof(item_t), i, received).allow_done(false)();
  int* const result = processor.allocate<int>(1);
  lci::barrier();  // all handlers are registered
  processor.run(4, processor.threads(64),
                producer_t{endpoint, (me + 1) % n, items, counted, result}, endpoint);
  leave_if_one_failed(processor.read(result, 1)[0]);
  uint64_t wanted = 0, wrong = 0;
  for (uint64_t i = 0; i < items; ++i) wanted += item(i).square;
  while (uint64_t(lci::counter_get(received)) < items || sum < wanted) lci::progress();
  for (uint64_t i = 0; i < items; ++i)
    wrong += got[i].number != i || got[i].square != item(i).square;
  wrong += sum != wanted;
  std::printf(
      "rank %d: %s of rank %d sent %llu messages and as many active ones: success, %llu wrong\n",
      me, processor.name().c_str(), (me + n - 1) % n, static_cast<unsigned long long>(items),
      static_cast<unsigned long long>(wrong));
  lci::barrier();
  processor.free(result);
  lci::deregister_rcomp(counted);
  lci::free_comp(&handler);
  lci::free_comp(&received);
  lci::free_gpu_endpoint(&endpoint);
  return wrong != 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int items = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (items <= 0) return std::puts("usage: lcrun -n 2 gpu_producer [messages] [cpu]"), 2;
  lci::g_runtime_init();
  int failures;
  {
    processor_t processor(lci::get_rank_me(), argc > 2 && std::string(argv[2]) == "cpu");
    failures = run(processor, uint64_t(items));
  }
  lci::g_runtime_fina();
  return failures;
}
