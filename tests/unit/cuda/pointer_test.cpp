#include "backends/cuda/pointer.hpp"

#include <dlfcn.h>

#include <thread>

#include "backends/cuda/pointer_cache.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/support/sizes.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

using lci::test::MIB;

class pointer_test : public cuda_test {
 protected:
  allocation find(const void* pointer) {
    const classified found = classify(driver_.in_process(), pointer);
    EXPECT_FALSE(found.error);
    return found.what;
  }
};

TEST_F(pointer_test, host__plain) {
  int here = 0;
  const allocation found = find(&here);
  EXPECT_EQ(found.kind, allocation_kind::host);
  EXPECT_EQ(found.memory(), mem::mem_kind::host);
  EXPECT_EQ(found.ordinal, -1);
  EXPECT_EQ(why_unusable(found), "");
}

TEST_F(pointer_test, null_and_no_driver__are_host) {
  EXPECT_EQ(find(nullptr).kind, allocation_kind::host);
  EXPECT_EQ(mock().count("cuPointerGetAttributes"), 0u);
  int here = 0;
  EXPECT_EQ(classify(nullptr, &here).what.kind, allocation_kind::host);
}

TEST_F(pointer_test, program_that_never_started_cuda__has_host_memory_only) {
  mock().reset();
  int here = 0;
  EXPECT_EQ(find(&here).kind, allocation_kind::host);
  EXPECT_TRUE(look(driver_.in_process(), &here).is_plain_host);
  EXPECT_FALSE(mock().is_started());
}

TEST_F(pointer_test, device__whole_and_inside) {
  void* const memory = gpu_memory(MIB, 1);
  for (std::size_t offset : {std::size_t{0}, std::size_t{1}, MIB - 1}) {
    const allocation found = find(static_cast<char*>(memory) + offset);
    EXPECT_EQ(found.kind, allocation_kind::device);
    EXPECT_EQ(found.memory(), mem::mem_kind::device);
    EXPECT_EQ(found.ordinal, 1);
    EXPECT_EQ(found.base, as_device(memory));
    EXPECT_EQ(found.size, MIB);
    EXPECT_NE(found.id.buffer_id, 0u);
    EXPECT_TRUE(found.legacy_ipc);
    EXPECT_FALSE(found.fd_export);
    EXPECT_NE(found.context, nullptr);
    EXPECT_EQ(why_unusable(found), "");
  }
  EXPECT_EQ(mock().count("cuPointerGetAttributes"), 3u);  // one batched call each
  EXPECT_EQ(find(static_cast<char*>(memory) + MIB).kind, allocation_kind::host);
}

TEST_F(pointer_test, pinned__is_host_memory_with_an_owner) {
  void* const memory = mock().allocate(mocked::pinned, 8192);
  const allocation found = find(memory);
  EXPECT_EQ(found.kind, allocation_kind::pinned);
  EXPECT_EQ(found.memory(), mem::mem_kind::host);
  EXPECT_EQ(found.size, 8192u);
}

TEST_F(pointer_test, pool__is_device_memory_without_legacy_handles) {
  const allocation found = find(mock().allocate(mocked::pool, MIB));
  EXPECT_EQ(found.kind, allocation_kind::pool);
  EXPECT_EQ(found.memory(), mem::mem_kind::device);
  EXPECT_FALSE(found.legacy_ipc);
  EXPECT_EQ(why_unusable(found), "");
}

TEST_F(pointer_test, vmm__extent_is_that_of_the_mapping) {
  void* const memory = mock().allocate(mocked::vmm, 2 * MIB);
  const allocation found = find(static_cast<char*>(memory) + 5);
  EXPECT_EQ(found.kind, allocation_kind::vmm);
  EXPECT_EQ(found.base, as_device(memory));
  EXPECT_EQ(found.size, 2 * MIB);
  EXPECT_TRUE(found.fd_export);
  EXPECT_NE(found.id.block_id, 0u);
  EXPECT_EQ(mock().count("cuMemGetAddressRange"), 2u)
      << "this thread has no context, so it is asked again inside one";
  EXPECT_FALSE(find(mock().allocate(mocked::vmm_without_export, 2 * MIB)).fd_export);
  mock().fail_nth("cuMemGetAddressRange", 1, abi::result::not_found);
  const classified broken = classify(driver_.in_process(), memory);
  EXPECT_STREQ(broken.error.call, "cuMemGetAddressRange");
}

TEST_F(pointer_test, vmm__from_a_thread_without_a_context) {
  void* const memory = mock().allocate(mocked::vmm, 2 * MIB);
  allocation elsewhere;
  std::thread([&] { elsewhere = find(memory); }).join();
  EXPECT_EQ(elsewhere.kind, allocation_kind::vmm);
  EXPECT_EQ(elsewhere.size, 2 * MIB);
}

TEST_F(pointer_test, managed__is_refused_by_a_sentence_that_names_it) {
  const allocation found = find(mock().allocate(mocked::managed, MIB));
  EXPECT_EQ(found.kind, allocation_kind::managed);
  EXPECT_NE(why_unusable(found).find("managed memory (cudaMallocManaged)"), std::string::npos);
}

TEST_F(pointer_test, host_memory_without_a_host_address__is_refused) {
  const allocation found = find(mock().allocate(mocked::gpu_only_host, MIB));
  EXPECT_EQ(found.kind, allocation_kind::unreachable);
  EXPECT_EQ(found.memory(), mem::mem_kind::device);  // nobody here dereferences it
  EXPECT_NE(why_unusable(found).find("GPU-only host memory"), std::string::npos);
}

TEST_F(pointer_test, unmapped__is_refused_and_not_taken_for_host_memory) {
  const allocation found = find(mock().reserve(2 * MIB));
  EXPECT_EQ(found.kind, allocation_kind::unmapped);
  EXPECT_EQ(found.memory(), mem::mem_kind::device);
  EXPECT_NE(why_unusable(found).find("unmapped"), std::string::npos);
}

TEST_F(pointer_test, failing_driver__is_an_error_and_not_host) {
  int here = 0;
  mock().fail_nth("cuPointerGetAttributes", 1, abi::result::illegal_address);
  const classified found = classify(driver_.in_process(), &here);
  EXPECT_EQ(found.error.code, abi::result::illegal_address);
  EXPECT_STREQ(found.error.call, "cuPointerGetAttributes");
  mock().fail_nth("cuPointerGetAttributes", 1, abi::result::deinitialized);
  EXPECT_TRUE(look(driver_.in_process(), &here).error);
}

TEST_F(pointer_test, old_driver__without_block_ids) {
  mock().reset({.knows_block_id = false});
  mock().start();
  const allocation found = find(mock().allocate(mocked::vmm, 2 * MIB));
  EXPECT_EQ(found.kind, allocation_kind::vmm);
  EXPECT_EQ(found.id.block_id, 0u);
  EXPECT_NE(found.id.buffer_id, 0u);
}

TEST_F(pointer_test, driver_before_cuGetProcAddress__still_tells_device_memory) {
  void* const loaded = dlopen(LCI_MOCK_CUDA_OLD, RTLD_NOW);
  driver old({true, LCI_MOCK_CUDA_OLD});
  const auto* const inside = reinterpret_cast<const void*>((std::uintptr_t{1} << 20) + 64);
  EXPECT_EQ(classify(old.in_process(), inside).what.kind, allocation_kind::device);
  EXPECT_EQ(classify(old.in_process(), &loaded).what.kind, allocation_kind::host);
  dlclose(loaded);
}

TEST_F(pointer_test, every_kind__has_a_name) {
  for (const auto kind : {allocation_kind::host, allocation_kind::pinned, allocation_kind::device,
                          allocation_kind::pool, allocation_kind::vmm, allocation_kind::managed,
                          allocation_kind::unreachable, allocation_kind::unmapped}) {
    EXPECT_STRNE(name_of(kind), "unknown");
  }
}

TEST_F(pointer_test, contains__at_the_edges) {
  allocation a;
  a.base = 1000;
  a.size = 100;
  EXPECT_TRUE(a.contains(1000, 100));
  EXPECT_TRUE(a.contains(1100, 0));
  EXPECT_FALSE(a.contains(1000, 101));
  EXPECT_FALSE(a.contains(999, 1));
  EXPECT_FALSE(a.contains(1050, ~std::size_t{0}));
}

class pointer_cache_test : public cuda_test {
 protected:
  pointer_cache cache_{driver_};
};

TEST_F(pointer_cache_test, find__second_time_is_one_short_call) {
  void* const memory = gpu_memory(MIB);
  const allocation first = cache_.find(memory).what;
  EXPECT_EQ(mock().count("cuPointerGetAttributes"), 2u);
  const allocation again = cache_.find(static_cast<char*>(memory) + 77).what;
  EXPECT_EQ(mock().count("cuPointerGetAttributes"), 3u);
  EXPECT_EQ(cache_.hits(), 1u);
  EXPECT_EQ(again.base, first.base);
  EXPECT_EQ(again.id, first.id);
  EXPECT_TRUE(again.legacy_ipc);
}

TEST_F(pointer_cache_test, find__plain_host_is_one_call_each_time) {
  int here = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache_.find(&here).what.kind, allocation_kind::host);
  EXPECT_EQ(mock().count("cuPointerGetAttributes"), 3u);
}

TEST_F(pointer_cache_test, find__address_freed_and_used_again_is_another_allocation) {
  void* const before = gpu_memory(MIB);
  const allocation old = cache_.find(before).what;
  mock().free(before);
  void* const after = mock().allocate(mocked::pool, MIB);
  ASSERT_EQ(before, after);  // the mock gives the address out again
  const allocation now = cache_.find(after).what;
  EXPECT_EQ(now.kind, allocation_kind::pool);
  EXPECT_NE(now.id, old.id);
  EXPECT_FALSE(now.legacy_ipc);
}

TEST_F(pointer_cache_test, find__freed_address_is_host_again) {
  void* const memory = gpu_memory(MIB);
  cache_.find(memory);
  mock().free(memory);
  EXPECT_EQ(cache_.find(memory).what.kind, allocation_kind::host);
}

TEST_F(pointer_cache_test, find__what_stands_behind_a_vmm_address_is_asked_each_time) {
  void* const memory = mock().allocate(mocked::vmm, 2 * MIB);
  const allocation before = cache_.find(memory).what;
  mock().remap(memory);
  const allocation after = cache_.find(memory).what;
  EXPECT_EQ(before.id.buffer_id, after.id.buffer_id);  // the id alone would not have told
  EXPECT_NE(before.id, after.id);
  EXPECT_EQ(cache_.hits(), 0u);
}

TEST_F(pointer_cache_test, find__errors_are_not_remembered) {
  void* const memory = gpu_memory(MIB);
  mock().fail_nth("cuPointerGetAttributes", 1, abi::result::illegal_address);
  EXPECT_TRUE(cache_.find(memory).error);
  mock().fail_nth("cuPointerGetAttributes", 2, abi::result::illegal_address);
  EXPECT_TRUE(cache_.find(memory).error);
  EXPECT_EQ(cache_.find(memory).what.kind, allocation_kind::device);
}

TEST_F(pointer_cache_test, find__random_free_and_reuse_is_never_wrong) {
  std::vector<std::pair<void*, mocked>> live;
  unsigned long long state = 12345;
  const auto next = [&state](unsigned n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<unsigned>(state >> 33) % n;
  };
  constexpr std::pair<mocked, allocation_kind> KINDS[] = {
      {mocked::device, allocation_kind::device},
      {mocked::pool, allocation_kind::pool},
      {mocked::pinned, allocation_kind::pinned},
      {mocked::managed, allocation_kind::managed}};
  for (int i = 0; i < 4000; ++i) {
    if (live.size() < 8 || next(2) == 0) {
      const auto kind = KINDS[next(4)].first;
      live.emplace_back(mock().allocate(kind, 8192 * (1 + next(2)), static_cast<int>(next(2))),
                        kind);
    } else {
      const auto victim = live.begin() + next(static_cast<unsigned>(live.size()));
      mock().free(victim->first);
      live.erase(victim);
    }
    const auto& [address, kind] = live[next(static_cast<unsigned>(live.size()))];
    const allocation found = cache_.find(static_cast<char*>(address) + next(8192)).what;
    const allocation truth = classify(driver_.in_process(), address).what;
    for (const auto& [theirs, ours] : KINDS) {
      if (theirs == kind) {
        ASSERT_EQ(found.kind, ours) << i;
      }
    }
    ASSERT_EQ(found.id, truth.id) << i;
    ASSERT_EQ(found.ordinal, truth.ordinal) << i;
    ASSERT_EQ(found.size, truth.size) << i;
  }
  EXPECT_GT(cache_.hits(), 100u);
}

TEST_F(pointer_cache_test, find__record_changes_while_it_is_read) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  // Two kinds of memory whose ids share a place; between any two words of one record the other one
  // is written over it.
  void* const first = gpu_memory(8192, 0);
  const std::uint64_t id = cache_.find(first).what.id.buffer_id;
  void* other = nullptr;
  while (other == nullptr || cache_.find(other).what.id.buffer_id != id + 256) {
    if (other != nullptr) mock().free(other);
    other = mock().allocate(mocked::pool, 8192, 1);
  }
  for (int word = 0; word < 6; ++word) {
    const allocation whole = cache_.find(first).what;
    int passed = 0;
    test::race_hook hook("pointer_cache.read.between_two_words", [&] {
      if (passed++ == word) cache_.find(other);
    });
    const allocation found = cache_.find(first).what;
    EXPECT_EQ(found.kind, allocation_kind::device) << word;
    EXPECT_EQ(found.ordinal, 0) << word;
    EXPECT_TRUE(found.legacy_ipc) << word;
    EXPECT_EQ(found.context, whole.context) << word;
    EXPECT_EQ(found.base, as_device(first)) << word;
    EXPECT_GT(hook.hits(), word);
  }
}

TEST_F(pointer_cache_test, find__from_several_threads) {
  // Ids 256 apart share a place, so the threads write over each other's records.
  std::vector<void*> blocks;
  for (int i = 0; i < 257; ++i) {
    void* const memory = gpu_memory(4096);
    if (i == 0 || i == 256) {
      blocks.push_back(memory);
    } else {
      mock().free(memory);
    }
  }
  const std::uint64_t first = cache_.find(blocks[0]).what.id.buffer_id;
  ASSERT_EQ(cache_.find(blocks[1]).what.id.buffer_id, first + 256);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        void* const memory = blocks[static_cast<std::size_t>(i + t) % 2];
        const allocation found = cache_.find(memory).what;
        ASSERT_EQ(found.base, as_device(memory));
        ASSERT_EQ(found.kind, allocation_kind::device);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lci::cuda
