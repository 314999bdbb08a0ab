// The mock driver: each thing that it has to notice, in front of it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/pointer.hpp"
#include "tests/support/device_code/contents.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"

namespace lci::test {
namespace {

using cuda::as_device;
using cuda::abi::device_ptr;
using cuda::abi::result;

// Calls the driver without the care of backends/cuda.
class mock_driver : public testing::Test {
 protected:
  mock_driver() : mock(*load_mock_cuda(LCI_MOCK_CUDA)) {
    mock.reset();
    driver_.require();
    call().primary_ctx_retain(&context_, 0);
    call().ctx_push_current(context_);
  }
  ~mock_driver() override {
    cuda::abi::context left = nullptr;
    while (mock.context_depth() > 0) call().ctx_pop_current(&left);
    mock.reset();
  }
  const cuda::abi::functions& call() { return driver_.call(); }
  bool reports(const std::string& what) {
    for (const std::string& leak : mock.leaks()) {
      if (leak.find(what) != std::string::npos) return true;
    }
    return false;
  }
  cuda::abi::stream new_stream() {
    cuda::abi::stream made = nullptr;
    EXPECT_EQ(call().stream_create(&made, cuda::abi::STREAM_NON_BLOCKING), result::success);
    return made;
  }

  mock_cuda& mock;
  cuda::driver driver_{cuda::driver_options{true, LCI_MOCK_CUDA}};
  cuda::abi::context context_ = nullptr;
};

TEST_F(mock_driver, leaks__contexts) {
  EXPECT_TRUE(reports("retained primary context of GPU 0: 1"));
  EXPECT_TRUE(reports("pushed and not popped: 1"));
  cuda::abi::context left = nullptr;
  EXPECT_EQ(call().ctx_pop_current(&left), result::success);
  EXPECT_EQ(call().primary_ctx_release(0), result::success);
  EXPECT_TRUE(mock.leaks().empty());
  EXPECT_EQ(call().ctx_pop_current(&left), result::invalid_context);
  EXPECT_EQ(call().primary_ctx_release(0), result::invalid_context);
}

TEST_F(mock_driver, leaks__streams_events_pinned_and_registered_memory) {
  const auto stream = new_stream();
  EXPECT_TRUE(reports("streams: 1"));
  call().stream_destroy(stream);
  EXPECT_FALSE(reports("streams"));
  cuda::abi::event event = nullptr;
  call().event_create(&event, 0);
  EXPECT_TRUE(reports("events: 1"));
  call().event_destroy(event);
  EXPECT_FALSE(reports("events"));
  void* pinned = nullptr;
  call().mem_host_alloc(&pinned, 4096, 0);
  EXPECT_TRUE(reports("pinned host allocations: 1"));
  call().mem_free_host(pinned);
  EXPECT_FALSE(reports("pinned"));
  std::vector<char> plain(4096);
  EXPECT_EQ(call().mem_host_register(plain.data(), plain.size(), 0), result::success);
  EXPECT_EQ(call().mem_host_register(plain.data(), plain.size(), 0),
            result::host_memory_already_registered);
  EXPECT_TRUE(reports("registered host ranges: 1"));
  call().mem_host_unregister(plain.data());
  EXPECT_FALSE(reports("registered"));
}

TEST_F(mock_driver, leaks__handles_mappings_and_reservations) {
  void* const memory = mock.allocate(mock_memory::vmm, std::size_t{2} << 20);
  cuda::abi::allocation_handle handle = 0;
  call().mem_retain_allocation_handle(&handle, memory);
  EXPECT_TRUE(reports("VMM handles: 1"));
  device_ptr range = 0;
  call().mem_address_reserve(&range, std::size_t{2} << 20, 0, 0, 0);
  EXPECT_TRUE(reports("reserved address ranges: 1"));
  call().mem_map(range, std::size_t{2} << 20, 0, handle, 0);
  EXPECT_TRUE(reports("imported mappings: 1"));
  call().mem_release(handle);
  EXPECT_EQ(call().mem_address_free(range, std::size_t{2} << 20), result::invalid_value);  // mapped
  call().mem_unmap(range, std::size_t{2} << 20);
  call().mem_address_free(range, std::size_t{2} << 20);
  EXPECT_FALSE(reports("VMM") || reports("range") || reports("mapping"));
}

TEST_F(mock_driver, mem_get_info__counts_each_memory_once_and_by_gpu) {
  void* const library = dlopen(LCI_MOCK_CUDA, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto get_info =
      reinterpret_cast<result (*)(std::size_t*, std::size_t*)>(dlsym(library, "cuMemGetInfo_v2"));
  const auto in_use = [&] {
    std::size_t free = 0, all = 0;
    EXPECT_EQ(get_info(&free, &all), result::success);
    return all - free;
  };
  EXPECT_EQ(in_use(), 0u);
  constexpr std::size_t SIZE = std::size_t{2} << 20;
  void* const memory = mock.allocate(mock_memory::vmm, SIZE);
  mock.allocate(mock_memory::device, SIZE, 1);  // of another GPU
  cuda::abi::allocation_handle handle = 0;
  call().mem_retain_allocation_handle(&handle, memory);
  EXPECT_EQ(in_use(), SIZE);
  mock.free(memory);
  EXPECT_EQ(in_use(), SIZE);  // the handle keeps it
  call().mem_release(handle);
  EXPECT_EQ(in_use(), 0u);
  dlclose(library);
}

TEST_F(mock_driver, blocking_calls__are_listed_while_watched) {
  void* pinned = nullptr;
  call().mem_host_alloc(&pinned, 4096, 0);
  call().mem_free_host(pinned);
  EXPECT_TRUE(mock.blocking_calls().empty());
  mock.watch_blocking(true);
  call().mem_host_alloc(&pinned, 4096, 0);
  call().mem_free_host(pinned);
  EXPECT_EQ(mock.blocking_calls(), std::vector<std::string>{"cuMemFreeHost"});
}

TEST_F(mock_driver, fail_nth__only_that_call) {
  mock.fail_nth("cuStreamCreate", 2, result::out_of_memory);
  cuda::abi::stream s = nullptr;
  EXPECT_EQ(call().stream_create(&s, 1), result::success);
  EXPECT_EQ(call().stream_create(&s, 1), result::out_of_memory);
  EXPECT_EQ(call().stream_create(&s, 1), result::success);
  EXPECT_EQ(mock.count("cuStreamCreate"), 3u);
}

TEST_F(mock_driver, calls_without_a_context__are_refused) {
  cuda::abi::context left = nullptr;
  call().ctx_pop_current(&left);
  cuda::abi::stream s = nullptr;
  EXPECT_EQ(call().stream_create(&s, 1), result::invalid_context);
}

TEST_F(mock_driver, stream_of_another_context__is_refused) {
  const auto stream = new_stream();
  cuda::abi::context other = nullptr;
  call().primary_ctx_retain(&other, 1);
  call().ctx_push_current(other);
  EXPECT_EQ(call().stream_query(stream), result::invalid_handle);
}

TEST_F(mock_driver, device_memory__crashes_the_processor_that_touches_it) {
  auto* const memory = static_cast<volatile char*>(mock.allocate(mock_memory::device, 4096));
  EXPECT_DEATH(*memory = 1, "");
}

TEST_F(mock_driver, copies__happen_when_the_engine_runs_and_not_before) {
  void* const memory = mock.allocate(mock_memory::device, 4096);
  const int value = 42;
  const auto stream = new_stream();
  call().memcpy_async(as_device(memory), as_device(&value), sizeof(value), stream);
  EXPECT_EQ(mock.queued_bytes(), sizeof(value));
  EXPECT_EQ(call().stream_query(stream), result::not_ready);
  EXPECT_EQ(*reinterpret_cast<int*>(mock.contents(memory)), 0);
  EXPECT_EQ(mock.advance(5), 1u);
  EXPECT_EQ(*reinterpret_cast<int*>(mock.contents(memory)), 42);
  EXPECT_EQ(call().stream_query(stream), result::success);
}

TEST_F(mock_driver, streams__run_in_every_order_but_each_in_its_own) {
  auto* const log = static_cast<std::uint32_t*>(mock.allocate(mock_memory::pinned, 4096));
  std::set<std::string> orders;
  const auto a = new_stream(), b = new_stream();
  for (unsigned seed = 1; seed < 40; ++seed) {
    mock.set_seed(seed);
    log[0] = log[1] = 0;
    for (std::uint32_t i = 1; i <= 2; ++i) {
      call().stream_write_value_32(a, as_device(&log[0]), i, 0);
      call().stream_write_value_32(b, as_device(&log[1]), i, 0);
    }
    std::string order;
    while (mock.advance(1) == 1) {
      EXPECT_LE(log[0], 2u);
      order += std::to_string(log[0]) + std::to_string(log[1]) + " ";
    }
    EXPECT_EQ(order.substr(order.size() - 3), "22 ");
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6u);  // all interleavings of two times two
}

TEST_F(mock_driver, wait_event__holds_its_stream_back) {
  auto* const flag = static_cast<std::uint32_t*>(mock.allocate(mock_memory::pinned, 4096));
  const auto a = new_stream(), b = new_stream();
  cuda::abi::event event = nullptr;
  call().event_create(&event, 0);
  for (unsigned seed = 1; seed < 20; ++seed) {
    mock.set_seed(seed);
    flag[0] = flag[1] = 0;
    call().stream_write_value_32(a, as_device(&flag[0]), 1, 0);
    call().event_record(event, a);
    call().stream_wait_event(b, event, 0);
    call().stream_write_value_32(b, as_device(&flag[1]), 1, 0);
    while (flag[1] == 0) ASSERT_EQ(mock.advance(1), 1u);
    EXPECT_EQ(flag[0], 1u);
  }
}

TEST_F(mock_driver, memory_freed_under_a_copy__breaks_the_context) {
  void* const memory = mock.allocate(mock_memory::device, 4096);
  const auto stream = new_stream(), other = new_stream();
  call().memcpy_async(as_device(memory), as_device(memory) + 64, 64, stream);
  mock.free(memory);
  mock.run_all();
  EXPECT_EQ(call().stream_query(stream), result::illegal_address);
  EXPECT_EQ(call().stream_query(other), result::illegal_address);
}

TEST_F(mock_driver, flag_in_unknown_memory__is_refused) {
  std::uint64_t plain = 0;
  EXPECT_EQ(call().stream_write_value_64(new_stream(), as_device(&plain), 1, 0),
            result::invalid_value);
}

// What a program with kernels calls.
struct kernel_calls {
  template <class Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(dlopen(LCI_MOCK_CUDA, RTLD_NOW | RTLD_NOLOAD), name));
  }
  result (*load)(void**, const void*) = find<decltype(load)>("cuModuleLoadData");
  result (*unload)(void*) = find<decltype(unload)>("cuModuleUnload");
  result (*function)(const void**, void*,
                     const char*) = find<decltype(function)>("cuModuleGetFunction");
  result (*launch)(const void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, cuda::abi::stream, void**,
                   void**) = find<decltype(launch)>("cuLaunchKernel");
  result run(const void* kernel, cuda::abi::stream s, task t, unsigned threads = 32) const {
    void* parameters[] = {&t};
    return launch(kernel, 1, 1, 1, threads, 1, 1, 0, s, parameters, nullptr);
  }
};
constexpr std::uint32_t IMAGE[4] = {0xBA55ED50};  // how one begins

TEST_F(mock_driver, modules__what_is_no_image_or_no_kernel_is_refused) {
  const kernel_calls calls;
  void* module = nullptr;
  EXPECT_NE(calls.load(&module, "no image"), result::success);
  ASSERT_EQ(calls.load(&module, IMAGE), result::success);
  EXPECT_TRUE(reports("modules: 1"));
  const void* kernel = nullptr;
  EXPECT_EQ(calls.function(&kernel, module, "unheard_of"), result::not_found);
  ASSERT_EQ(calls.function(&kernel, module, "lci_test_fill"), result::success);
  EXPECT_EQ(calls.run(&kernel, new_stream(), {}), result::invalid_handle);
  EXPECT_EQ(calls.run(kernel, new_stream(), {}, 2048), result::invalid_value);
  EXPECT_EQ(calls.unload(module), result::success);
  EXPECT_EQ(calls.unload(module), result::invalid_handle);
  EXPECT_FALSE(reports("modules"));
}

TEST_F(mock_driver, kernels__run_in_their_stream_and_touch_what_the_gpu_reaches) {
  const kernel_calls calls;
  void* module = nullptr;
  const void* kernel = nullptr;
  ASSERT_EQ(calls.load(&module, IMAGE), result::success);
  ASSERT_EQ(calls.function(&kernel, module, "lci_test_fill"), result::success);
  auto* const memory = static_cast<unsigned char*>(mock.allocate(mock_memory::device, 4096));
  task t{};
  t.what = {memory, 100, 7, 0, 100};
  const auto stream = new_stream();
  ASSERT_EQ(calls.run(kernel, stream, t), result::success);
  EXPECT_NE(static_cast<unsigned char>(*mock.contents(memory + 99)), expected_byte(t.what, 99));
  mock.run_all();
  EXPECT_EQ(static_cast<unsigned char>(*mock.contents(memory + 99)), expected_byte(t.what, 99));
  std::vector<unsigned char> plain(100);
  t.what.at = plain.data();  // the processor's
  calls.run(kernel, stream, t);
  mock.run_all();
  EXPECT_EQ(call().stream_query(stream), result::illegal_address);
}

TEST_F(mock_driver, forked_child__has_no_driver) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(call().device_get_count(&count) == result::not_initialized ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(mock_driver, misuse_by_a_test__is_told) {
  EXPECT_THROW(mock.free(&mock), std::runtime_error);
  EXPECT_THROW(mock.allocate(mock_memory::vmm, 4096), std::runtime_error);
  EXPECT_THROW(mock.allocate(mock_memory::device, 4096, 7), std::runtime_error);
  EXPECT_EQ(load_mock_cuda("libno-such-gpu.so.1"), nullptr);
}

}  // namespace
}  // namespace lci::test
