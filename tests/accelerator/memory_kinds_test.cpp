// What the driver says about its kinds of memory, against what we make of it.
#include <chrono>
#include <cstdio>
#include <thread>

#include "backends/cuda/domain.hpp"
#include "backends/cuda/network_memory.hpp"
#include "backends/cuda/pointer_cache.hpp"
#include "backends/cuda/share.hpp"
#include "tests/accelerator/real_gpu.hpp"

namespace lci::cuda {
namespace {

using kind = real_gpu::kind;
constexpr std::size_t SIZE = std::size_t{4} << 20;

constexpr std::pair<kind, allocation_kind> KINDS[] = {{kind::device, allocation_kind::device},
                                                      {kind::pool, allocation_kind::pool},
                                                      {kind::managed, allocation_kind::managed},
                                                      {kind::vmm, allocation_kind::vmm},
                                                      {kind::pinned, allocation_kind::pinned}};

TEST(memory_kinds, classify__each_is_what_it_is) {
  real_gpu& g = real_gpu::get();
  for (const auto& [made, expected] : KINDS) {
    void* const memory = g.allocate(made, SIZE);
    const allocation found = g.classify(static_cast<char*>(memory) + 4097);
    std::printf("%s: ordinal %d, size %zu, legacy %d, fd %d, context %d, ids %llu %llu\n",
                name_of(found.kind), found.ordinal, found.size, found.legacy_ipc, found.fd_export,
                found.context != nullptr, static_cast<unsigned long long>(found.id.buffer_id),
                static_cast<unsigned long long>(found.id.block_id));
    EXPECT_EQ(found.kind, expected);
    EXPECT_EQ(found.base, as_device(memory));
    EXPECT_GE(found.size, SIZE);
    EXPECT_NE(found.id.buffer_id, 0u);
    EXPECT_EQ(found.legacy_ipc, made == kind::device);
    EXPECT_EQ(found.fd_export, made == kind::vmm);
    // The same from a thread that has no context.
    const allocation_kind wanted = expected;  // clang 14 captures no parts of a pair
    std::thread([&] {
      EXPECT_EQ(cuda::classify(g.d.in_process(), memory).what.kind, wanted);
    }).join();
    g.free(made, memory, SIZE);
  }
  int here = 0;
  EXPECT_EQ(g.classify(&here).kind, allocation_kind::host);
  EXPECT_EQ(g.classify(KINDS).kind, allocation_kind::host);
}

TEST(memory_kinds, classify__a_reserved_range_is_unmapped) {
  real_gpu& g = real_gpu::get();
  abi::device_ptr at = 0;
  ASSERT_EQ(g.d.call().mem_address_reserve(&at, SIZE, 0, 0, 0), abi::result::success);
  EXPECT_EQ(g.classify(reinterpret_cast<void*>(static_cast<std::uintptr_t>(at))).kind,
            allocation_kind::unmapped);
  g.d.call().mem_address_free(at, SIZE);
}

TEST(memory_kinds, identity__changes_when_an_address_is_used_again) {
  real_gpu& g = real_gpu::get();
  pointer_cache cache(g.d);
  for (const auto& [made, expected] : KINDS) {
    int reused = 0;
    for (int i = 0; i < 50; ++i) {
      void* const first = g.allocate(made, SIZE);
      const identity before = cache.find(first).what.id;
      g.free(made, first, SIZE);
      void* const second = g.allocate(made, SIZE);
      const classified now = cache.find(second);
      EXPECT_EQ(now.what.kind, expected);
      EXPECT_NE(now.what.id, before) << name_of(expected);
      EXPECT_EQ(now.what.id, g.classify(second).id);
      reused += first == second;
      g.free(made, second, SIZE);
    }
    std::printf("%s: the same address in %d of 50\n", name_of(expected), reused);
  }
}

TEST(memory_kinds, identity__tells_what_is_mapped_at_a_vmm_address) {
  real_gpu& g = real_gpu::get();
  void* const memory = g.allocate(kind::vmm, SIZE);
  const identity before = g.classify(memory).id;
  g.remap(memory, SIZE);
  const identity after = g.classify(memory).id;
  std::printf("buffer id %s, block id %s\n", before.buffer_id == after.buffer_id ? "kept" : "new",
              before.block_id == after.block_id ? "kept" : "new");
  EXPECT_NE(before, after);
  g.free(kind::vmm, memory, SIZE);
}

TEST(memory_kinds, buffer_id__of_a_place_where_it_tells_allocations_apart) {
  real_gpu& g = real_gpu::get();
  for (const auto& [made, expected] : KINDS) {
    void* const one = g.allocate(made, SIZE);
    void* const other = g.allocate(made, SIZE);
    const mem::memory_place place = DOMAIN.find(one);
    const bool has_one = made == kind::device || made == kind::pool;
    EXPECT_EQ(place.buffer_id != 0, has_one) << name_of(expected);
    EXPECT_EQ(DOMAIN.find(static_cast<char*>(one) + 5000).buffer_id, place.buffer_id);
    EXPECT_EQ(DOMAIN.find(other).buffer_id != place.buffer_id, has_one) << name_of(expected);
    g.free(made, other, SIZE);
    g.free(made, one, SIZE);
  }
  int here = 0;
  EXPECT_EQ(DOMAIN.find(&here).buffer_id, 0u);
}

TEST(memory_kinds, dma_buf__for_what_can_have_one) {
  real_gpu& g = real_gpu::get();
  if (!g.gpus.at(0).facts().dma_buf) GTEST_SKIP() << "no dma-buf on this machine";
  for (const kind made : {kind::device, kind::vmm}) {
    void* const memory = g.allocate(made, SIZE);
    const mem::network_export out =
        export_dma_buf(g.gpus, g.classify(memory), as_device(memory) + 5000, 9000);
    EXPECT_EQ(out.why_not, "");
    EXPECT_TRUE(out.fd);
    g.free(made, memory, SIZE);
  }
  void* const pooled = g.allocate(kind::pool, SIZE);
  const mem::network_export none =
      export_dma_buf(g.gpus, g.classify(pooled), as_device(pooled), 9000);
  EXPECT_NE(none.why_not.find("stream-ordered"), std::string::npos) << none.why_not;
  g.free(kind::pool, pooled, SIZE);
  void* const little = g.allocate(kind::device, 512);
  const allocation found = g.classify(little);
  const mem::network_export out = export_dma_buf(g.gpus, found, as_device(little), 512);
  std::printf("512 bytes, allocation of %zu: %s\n", found.size,
              out.fd ? "a dma-buf" : out.why_not.c_str());
  g.free(kind::device, little, 512);
}

TEST(memory_kinds, find__what_it_costs) {
  real_gpu& g = real_gpu::get();
  pointer_cache cache(g.d);
  void* const memory = g.allocate(kind::device, SIZE);
  int here = 0;
  for (const auto& [name, pointer] : {std::pair<const char*, const void*>{"device", memory},
                                      std::pair<const char*, const void*>{"host", &here}}) {
    cache.find(pointer);
    constexpr int TIMES = 200000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < TIMES; ++i) cache.find(pointer);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    std::printf("%s pointer: %.0f ns\n", name, took.count() / TIMES);
  }
  g.free(kind::device, memory, SIZE);
}

}  // namespace
}  // namespace lci::cuda
