#include "lci/proxy/side.hpp"

#include <atomic>
#include <thread>

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using gpu::status;

TEST(side, of__made_by_the_first_call) {
  test::proxied_job job;
  EXPECT_EQ(job.runtime().extension(), nullptr);
  side& made = side::of(job.runtime());
  EXPECT_EQ(job.runtime().extension(), &made);
  EXPECT_EQ(&side::of(job.runtime()), &made);
}

TEST(side, find__handles_that_name_nothing) {
  test::proxied_job job;
  gpu::endpoint_t ep = job.endpoint(), copy = ep;
  EXPECT_EQ(side::find(ep, "a test").in, &job.side());
  EXPECT_THROW(side::find(gpu::endpoint_t{}, "a test"), argument_error);
  EXPECT_THROW(side::find(gpu::queue_t{}, "a test"), argument_error);
  gpu::endpoint_t forged = ep;
  ++forged.generation;
  EXPECT_THROW(side::find(forged, "a test"), argument_error);
  free_gpu_endpoint_x(&ep).call();
  EXPECT_THROW(free_gpu_endpoint_x(&copy).call(), argument_error);
  EXPECT_THROW(abort_gpu_endpoint_x(&copy).call(), argument_error);
  EXPECT_THROW(alloc_gpu_queue_x(copy).call(), argument_error);
}

TEST(side, make_endpoint__each_has_a_generation) {
  test::proxied_job job;
  gpu::endpoint_t one = job.endpoint(), other = job.endpoint();
  EXPECT_NE(one.generation, other.generation);
  free_gpu_endpoint_x(&one).call();
  EXPECT_EQ(gpu::quiet(other), status::ok);
  free_gpu_endpoint_x(&other).call();
}

// The memory is the program's alone once the endpoint is freed.
TEST(side, end_endpoint__waits_for_what_an_abort_left_under_way) {
  std::uint64_t mine = 0, theirs = 7;
  test::proxied_job job;
  job.meet();
  mr_t mr = register_memory_x(&mine, sizeof(mine)).runtime(job.handle())();
  gpu::endpoint_t ep = job.endpoint();
  gpu::key_t own = get_gpu_key(mr);
  own.mapped = 0;
  const gpu::key_t there = get_gpu_key_x(job.expose(&theirs, sizeof(theirs))).endpoint(ep)();
  endpoint& one = *side::find(ep, "a test").one;
  job.sim().change([](test::sim_options& o) { o.late = true; });
  EXPECT_EQ(gpu::get(ep, 1, {own, 0}, {there, 0}, sizeof(mine)), status::ok);
  one.serve_st();
  abort_gpu_endpoint_x(&ep).call();
  one.serve_st();
  ASSERT_TRUE(one.is_in_use());
  free_gpu_endpoint_x(&ep).call();
  const std::uint64_t at_free = mine;
  job.step(50);
  EXPECT_EQ(mine, at_free);
  EXPECT_EQ(mine, 7u);
  deregister_memory(&mr);
}

// As abort_gpu_endpoint() or get_gpu_key() of another thread, which has found it before.
TEST(side, end_endpoint__waits_for_calls_that_use_it) {
  test::proxied_job job;
  gpu::endpoint_t ep = job.endpoint();
  const gpu::endpoint_t copy = ep;
  side::found_endpoint used = side::find(ep, "a test");
  std::atomic<bool> is_over{false};
  std::thread frees([&] {
    free_gpu_endpoint_x(&ep).call();
    is_over.store(true);
  });
  const auto is_there = [&] {
    try {
      return side::find(copy, "a test").in != nullptr;
    } catch (const argument_error&) {
      return false;
    }
  };
  while (is_there()) std::this_thread::yield();
  EXPECT_FALSE(is_over.load());
  used.one->abort();
  used.one.reset();
  frees.join();
  EXPECT_TRUE(is_over.load());
}

TEST(side, on_region_ends__requests_that_name_it_fail) {
  test::proxied_job job;
  std::uint64_t words[2] = {};
  mr_t mr = register_memory_x(words, sizeof(words)).runtime(job.handle())();
  gpu::endpoint_t ep = job.endpoint();
  const gpu::key_t key = get_gpu_key(mr);
  deregister_memory(&mr);
  EXPECT_EQ(gpu::put_value(ep, 0, {key, 0}, std::uint64_t{1}), status::ok);
  EXPECT_EQ(job.run([&] { return gpu::quiet(ep); }), status::failed);
  EXPECT_EQ(words[0], 0u);
  free_gpu_endpoint_x(&ep).call();
}

TEST(side, on_device_ends__its_endpoints_end_first) {
  test::proxied_job job;
  device_t other = alloc_device_x().runtime(job.handle())();
  const gpu::endpoint_t of_other = alloc_gpu_endpoint_x(other)
                                       .gpu(gpu::NO_GPU)
                                       .gpu_proxy(attr_gpu_proxy_t::progress)
                                       .runtime(job.handle())();
  gpu::queue_t queue = alloc_gpu_queue_x(of_other).capacity(1)();
  gpu::endpoint_t ep = job.endpoint();
  std::uint64_t never = 0;
  std::thread kernel([&] {
    EXPECT_NE(gpu::wait_until(of_other, &never, gpu::comparison::equal, 1), status::ok);
    // Its waits end before it does.
    while (gpu::quiet(of_other) != status::bad_endpoint) std::this_thread::yield();
    EXPECT_EQ(gpu::poll(queue, nullptr, 0), status::bad_endpoint);
  });
  free_device(&other);
  kernel.join();
  free_gpu_queue_x(&queue).call();
  EXPECT_EQ(job.run([&] { return gpu::quiet(ep); }), status::ok) << "of another device";
  free_gpu_endpoint_x(&ep).call();
}

}  // namespace
}  // namespace lci::proxy
