// More calls of kernels over the proxy, each between all ranks: threads of the process in the place
// of kernels.
#include <cstring>

#include "kernel_threads.hpp"

namespace interface_test {
namespace {

using lci::gpu::status;

class gpu_calls : public testing::TestWithParam<lci::attr_gpu_proxy_t> {};

// Four bits of the first word are a rank's own, and one of the words behind it.
TEST_P(gpu_calls, atomics__bits_of_each_rank) {
  const auto ranks = static_cast<std::size_t>(world().n);
  ASSERT_LE(ranks, 16u);
  window memory(8 * (ranks + 1));
  thread_endpoint ep(GetParam());
  const auto words = [&](std::size_t i) {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(memory.bytes().data() + 8 * i)
        ->load();
  };
  const auto me = static_cast<std::uint64_t>(world().rank);
  const std::uint64_t mine = std::uint64_t{0xf} << 4 * me, low = std::uint64_t{1} << 4 * me;
  for (const bool is_mapped : {true, false}) {
    std::memset(memory.bytes().data(), 0, 8 * (ranks + 1));
    barrier();
    run_kernel([&] {
      for (int to = 0; to < world().n; ++to) {
        const lci::gpu::key_t key =
            is_mapped ? peer_place(ep, memory.rmr(to), to).key : lci::get_gpu_key(memory.rmr(to));
        std::uint64_t old = 0;
        EXPECT_EQ(lci::gpu::fetch_or(ep, to, {key, 0}, mine, &old), status::ok);
        EXPECT_EQ(old & mine, 0u);
        EXPECT_EQ(lci::gpu::fetch_xor(ep, to, {key, 0}, low, &old), status::ok);
        EXPECT_EQ(old & mine, mine);
        EXPECT_EQ(lci::gpu::fetch_and(ep, to, {key, 0}, ~(low << 1), &old), status::ok);
        EXPECT_EQ(old & mine, mine ^ low);
        EXPECT_EQ(lci::gpu::set(ep, to, {key, 8 + 8 * me}, low), status::ok);
        EXPECT_EQ(lci::gpu::fetch(ep, to, {key, 8 + 8 * me}, &old), status::ok);
        EXPECT_EQ(old, low);
        EXPECT_EQ(lci::gpu::quiet(ep, to), status::ok);
      }
    });
    barrier();
    for (std::size_t from = 0; from < ranks; ++from) {
      EXPECT_EQ(words(0) >> 4 * from & 0xf, 0xcu) << from;
      EXPECT_EQ(words(1 + from), std::uint64_t{1} << 4 * from) << from;
    }
    barrier();
  }
}

INSTANTIATE_TEST_SUITE_P(by, gpu_calls,
                         testing::Values(lci::attr_gpu_proxy_t::progress,
                                         lci::attr_gpu_proxy_t::thread),
                         [](const auto& param) {
                           return param.param == lci::attr_gpu_proxy_t::progress ? "progress"
                                                                                 : "thread";
                         });

}  // namespace
}  // namespace interface_test
