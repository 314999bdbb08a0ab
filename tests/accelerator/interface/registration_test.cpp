// Registering GPU memory: what is refused, and very many registrations of one buffer.
#include "tests/accelerator/interface/common.hpp"

namespace accelerator_test {
namespace {

using interface_test::text_thrown;
using lci::cuda::real_gpu;
constexpr std::size_t REGISTERED_SIZE = 65536;

TEST(register_memory, managed__is_never_handled) {
  real_gpu& gpu = real_gpu::get();
  void* const at = gpu.allocate(real_gpu::kind::managed, REGISTERED_SIZE);
  const std::string text =
      text_thrown<lci::argument_error>([&] { lci::register_memory(at, REGISTERED_SIZE); });
  EXPECT_NE(text.find("anaged"), std::string::npos) << text;
  gpu.free(real_gpu::kind::managed, at, REGISTERED_SIZE);
}

TEST(post, managed__is_refused_and_nothing_was_begun) {
  real_gpu& gpu = real_gpu::get();
  void* const at = gpu.allocate(real_gpu::kind::managed, REGISTERED_SIZE);
  const owned_comp never(lci::alloc_counter());
  for (const lci::mr_t mr : {lci::MR_DEVICE, lci::MR_UNKNOWN}) {
    for (const std::size_t size : {std::size_t{8}, REGISTERED_SIZE}) {
      for (const std::string& text : {text_thrown<lci::argument_error>([&] {
                                        lci::post_send_x(world().rank, at, size, 1, never).mr(mr)();
                                      }),
                                      text_thrown<lci::argument_error>([&] {
                                        lci::post_recv_x(world().rank, at, size, 1, never).mr(mr)();
                                      })})
        EXPECT_NE(text.find("anaged"), std::string::npos) << text;
    }
  }
  linger();
  EXPECT_EQ(lci::counter_get(never), 0);
  gpu.free(real_gpu::kind::managed, at, REGISTERED_SIZE);
}

TEST(register_memory, pinned__is_host_memory) {
  block memory(place::pinned, REGISTERED_SIZE);
  lci::mr_t mr = lci::register_memory(memory.get(), REGISTERED_SIZE);
  EXPECT_EQ(lci::get_rmr(mr).base, reinterpret_cast<std::uintptr_t>(memory.get()));
  lci::deregister_memory(&mr);
  EXPECT_TRUE(mr.is_empty());
}

TEST(register_memory, gpu__base_of_the_key_is_that_of_the_part) {
  for (const place where : GPU_PLACES) {
    block memory(where, REGISTERED_SIZE);
    lci::mr_t whole = lci::register_memory(memory.get(), REGISTERED_SIZE);
    lci::mr_t part = lci::register_memory(memory.get() + 4096, 100);
    EXPECT_EQ(lci::get_rmr(whole).base, reinterpret_cast<std::uintptr_t>(memory.get()));
    EXPECT_EQ(lci::get_rmr(part).base, reinterpret_cast<std::uintptr_t>(memory.get() + 4096));
    lci::deregister_memory(&part);
    lci::deregister_memory(&whole);
  }
}

TEST(register_memory, gpu__ten_thousand_times) {
  block memory(place::device, REGISTERED_SIZE);
  for (int i = 0; i < 10000; ++i) {
    lci::mr_t mr = lci::register_memory(memory.get(), REGISTERED_SIZE);
    lci::deregister_memory(&mr);
  }
}

TEST(register_memory, gpu__a_thousand_at_a_time_released_in_reverse) {
  block memory(place::device, REGISTERED_SIZE);
  for (int i = 0; i < 10; ++i) {
    std::vector<lci::mr_t> all;
    for (int n = 0; n < 1000; ++n)
      all.push_back(lci::register_memory(memory.get(), REGISTERED_SIZE));
    const std::uintptr_t base = lci::get_rmr(all.front()).base;
    EXPECT_EQ(lci::get_rmr(all.back()).base, base);
    for (; !all.empty(); all.pop_back()) lci::deregister_memory(&all.back());
  }
}

// Shared memory registers none, and no protocol stands above these posts.
TEST(net_post, gpu_memory_that_is_not_registered_with_the_network__is_refused) {
  block memory(place::device, REGISTERED_SIZE);
  lci::mr_t mr = lci::register_memory(memory.get(), REGISTERED_SIZE);
  const lci::rmr_t key = lci::get_rmr(mr);
  for (const std::string& text :
       {text_thrown<lci::argument_error>([&] {
          lci::net_post_put_x(world().rank, memory.get(), REGISTERED_SIZE, mr, 0, key)();
        }),
        text_thrown<lci::argument_error>(
            [&] { lci::net_post_send_x(world().rank, memory.get(), REGISTERED_SIZE, mr)(); })})
    EXPECT_NE(text.find("not registered with the network"), std::string::npos) << text;
  lci::deregister_memory(&mr);
}

TEST(post, beyond_a_region_of_gpu_memory__is_refused) {
  block memory(place::device, REGISTERED_SIZE);
  lci::mr_t mr = lci::register_memory(memory.get(), 100);
  const lci::rmr_t key = lci::get_rmr(mr);
  std::vector<char> host(REGISTERED_SIZE);
  const std::string text = text_thrown<lci::argument_error>(
      [&] { lci::post_put_x(world().rank, host.data(), 101, lci::COMP_NULL, 0, key)(); });
  EXPECT_NE(text, "nothing thrown");
  EXPECT_EQ(text.find("another type"), std::string::npos) << text;
  lci::deregister_memory(&mr);
}

}  // namespace
}  // namespace accelerator_test
