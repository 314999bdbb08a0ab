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

// Each rank's number of the round is at all others behind the barrier.
TEST_P(gpu_calls, barrier__everybody_sees_what_all_did_before) {
  constexpr std::uint64_t ROUNDS = 20;
  const auto ranks = static_cast<std::size_t>(world().n);
  const std::size_t numbers = 8 * lci::gpu::barrier_words(static_cast<std::uint32_t>(ranks));
  window memory(numbers + 8 * ranks);
  std::memset(memory.bytes().data(), 0, numbers + 8 * ranks);
  thread_endpoint ep(GetParam());
  std::vector<lci::gpu::place_t> words, mine;
  for (int to = 0; to < world().n; ++to) {
    words.push_back(peer_place(ep, memory.rmr(to), to));
    mine.push_back(
        {lci::get_gpu_key(memory.rmr(to)), numbers + 8 * static_cast<std::uint64_t>(world().rank)});
  }
  const auto* const own = reinterpret_cast<const std::uint64_t*>(memory.bytes().data());
  barrier();
  run_kernel([&] {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 1; i <= ROUNDS; ++i) {
      for (std::size_t to = 0; to < ranks; ++to)
        wrong += lci::gpu::put_value(ep, static_cast<int>(to), mine[to], i) != status::ok;
      wrong += lci::gpu::barrier(ep, words.data(), own, 2 * i - 1) != status::ok;
      for (std::size_t from = 0; from < ranks; ++from) wrong += own[numbers / 8 + from] != i;
      std::uint64_t there = 0;
      const int to = world().next();
      wrong +=
          lci::gpu::get_value(ep, to, mine[static_cast<std::size_t>(to)], &there) != status::ok;
      wrong += there != i;
      wrong += lci::gpu::barrier(ep, words.data(), own, 2 * i) != status::ok;
    }
    EXPECT_EQ(wrong, 0u);
  });
  barrier();
}

INSTANTIATE_TEST_SUITE_P(by, gpu_calls,
                         testing::Values(lci::attr_gpu_proxy_t::progress,
                                         lci::attr_gpu_proxy_t::thread),
                         proxy_name);

}  // namespace
}  // namespace interface_test
