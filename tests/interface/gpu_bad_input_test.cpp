// Wrong use of communication that kernels start: a status in the kernel, an exception on the host,
// and nothing is written anywhere else.
#include <cstring>

#include "bad_input.hpp"
#include "kernel_threads.hpp"

namespace interface_test {
namespace {

using lci::attr_gpu_proxy_t;
using lci::attr_gpu_tier_t;
using lci::gpu::status;

lci::alloc_gpu_endpoint_x proxied() {
  lci::alloc_gpu_endpoint_x op(world().device);
  op.gpu(lci::gpu::NO_GPU).gpu_proxy(attr_gpu_proxy_t::progress);
  return op;
}

// What the call throws.
template <class Error = lci::argument_error, class Call>
std::string text_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no exception";
}
template <class Call>
void expect_says(const std::string& part, Call&& call) {
  const std::string text = text_of(call);
  EXPECT_NE(text.find(part), std::string::npos) << part << ": " << text;
}

TEST(gpu_bad_input, option_off__the_error_names_it) {
  const auto text = text_of<lci::backend_error>([] {
    lci::alloc_gpu_endpoint_x(world().device)
        .gpu(lci::gpu::NO_GPU)
        .gpu_proxy(attr_gpu_proxy_t::off)
        .gpu_tier(attr_gpu_tier_t::automatic)
        .call();
  });
  EXPECT_NE(text.find("gpu_proxy"), std::string::npos) << text;
  EXPECT_NE(text.find("T1 GPU writes, CPU rings"), std::string::npos) << text;
  const auto forced =
      text_of<lci::backend_error>([] { proxied().gpu_tier(attr_gpu_tier_t::gpu_direct).call(); });
  EXPECT_NE(forced.find("T0 GPU direct"), std::string::npos) << forced;
}

TEST(gpu_bad_input, settings__value_and_range_are_named) {
  expect_says("depth is 100", [&] { proxied().depth(100).call(); });
  expect_says("16 to 32768", [&] { proxied().depth(8).call(); });
  expect_says("max_inline is 221", [&] { proxied().max_inline(221).call(); });
  expect_says("receives is 3", [&] { proxied().receives(3).call(); });
  expect_says("gpu is -7", [&] { proxied().gpu(-7).call(); });
  expect_says("gpu_proxy is 9",
              [&] { proxied().gpu_proxy(static_cast<attr_gpu_proxy_t>(9)).call(); });
  expect_says("gpu_tier is 9", [&] { proxied().gpu_tier(static_cast<attr_gpu_tier_t>(9)).call(); });
  thread_endpoint ep(attr_gpu_proxy_t::progress);
  expect_says("capacity is 3", [&] { lci::alloc_gpu_queue_x(ep).capacity(3).call(); });
  expect_says("message_size is 65537",
              [&] { lci::alloc_gpu_queue_x(ep).message_size(65537).call(); });
}

TEST(gpu_bad_input, handles__empty_and_freed_are_refused) {
  lci::gpu::endpoint_t empty;
  expect_says("is empty", [&] { lci::free_gpu_endpoint(&empty); });
  expect_says("is null", [&] { lci::free_gpu_endpoint_x(nullptr).call(); });
  expect_says("is null", [&] { lci::check_gpu_endpoint_x(nullptr).call(); });
  expect_says("is empty", [&] { lci::check_gpu_endpoint(empty); });
  expect_says("is empty", [&] { lci::alloc_gpu_queue_x(empty).call(); });
  lci::gpu::queue_t none;
  expect_says("is empty", [&] { lci::free_gpu_queue(&none); });
  expect_says("is empty", [&] { lci::get_gpu_queue_comp(none); });
  lci::gpu::endpoint_t ep = proxied()();
  lci::check_gpu_endpoint(ep);  // for threads, whatever GPU is current
  const lci::gpu::endpoint_t copy = ep;
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep)();
  lci::gpu::queue_t queue_copy = queue;
  lci::free_gpu_endpoint(&ep);
  EXPECT_TRUE(ep.is_empty());
  expect_says("was freed", [&] { lci::abort_gpu_endpoint(copy); });
  expect_says("was freed", [&] { lci::check_gpu_endpoint(copy); });
  expect_says("was freed", [&] { lci::alloc_gpu_queue_x(copy).call(); });
  lci::gpu::place_t nowhere;
  std::uint64_t word = 0;
  EXPECT_EQ(lci::gpu::put(copy, 0, nowhere, nowhere, 8), status::bad_endpoint);
  EXPECT_EQ(lci::gpu::wait_until(copy, &word, lci::gpu::comparison::equal, 1),
            status::bad_endpoint);
  EXPECT_EQ(lci::gpu::poll(queue, &word, sizeof word), status::bad_endpoint);
  lci::free_gpu_queue(&queue);
  expect_says("was freed", [&] { lci::free_gpu_queue(&queue_copy); });
  EXPECT_EQ(lci::gpu::put(empty, 0, nowhere, nowhere, 8), status::bad_endpoint);
}

TEST(gpu_bad_input, keys__what_names_no_region_is_refused) {
  window memory(64);
  thread_endpoint ep(attr_gpu_proxy_t::progress);
  const int to = world().next();
  EXPECT_NE(text_of([] { lci::get_gpu_key(lci::mr_t()); }), "no exception");
  expect_says("is empty", [&] { lci::get_gpu_key(lci::rmr_t()); });
  expect_says("not in 0..", [&] { lci::get_gpu_key_x(memory.rmr(to)).rank(world().n).call(); });
  expect_says("belongs to this rank",
              [&] { lci::get_gpu_key_x(memory.mr()).rank(world().rank + 1).call(); });
  lci::rmr_t changed = memory.rmr(to);
  changed.base += 8;
  expect_says("unmodified", [&] { lci::get_gpu_key_x(changed).rank(to).call(); });
  const lci::gpu::key_t key = lci::get_gpu_key_x(memory.rmr(to)).rank(to).endpoint(ep)();
  EXPECT_EQ(key.length, 64u);
  EXPECT_EQ(key.mapped != 0, to == world().rank);
  barrier();
}

TEST(gpu_bad_input, keys__of_another_runtime_than_the_endpoint_are_refused) {
  lci::runtime_t other = lci::alloc_runtime_x().alloc_default_device(false)();
  std::uint64_t words[8] = {};
  lci::mr_t region = lci::register_memory_x(words, sizeof words).runtime(other)();
  window memory(64);
  const int me = world().rank;
  {
    thread_endpoint ep(attr_gpu_proxy_t::progress);
    expect_says("the region belongs to another runtime",
                [&] { lci::get_gpu_key_x(region).endpoint(ep).call(); });
    expect_says("runtime is another runtime", [&] {
      lci::get_gpu_key_x(memory.rmr(me)).rank(me).endpoint(ep).runtime(other).call();
    });
    EXPECT_NE(lci::get_gpu_key_x(memory.mr()).endpoint(ep)().key, 0u);
  }
  EXPECT_NE(lci::get_gpu_key(region).key, 0u) << "of its own runtime's kernels";
  lci::deregister_memory(&region);
  barrier();
  lci::free_runtime(&other);
}

// Refused by the kernel's own call: nothing is posted, and the endpoint stays usable.
TEST(gpu_bad_input, refusals_of_the_kernel__leave_the_queue_alone) {
  window memory(64);
  thread_endpoint ep(attr_gpu_proxy_t::progress);
  const int to = world().next();
  const lci::gpu::place_t own = own_place(ep, memory.mr());
  const lci::gpu::place_t there = peer_place(ep, memory.rmr(to), to);
  EXPECT_EQ(lci::gpu::put(ep, -1, there, own, 8), status::bad_rank);
  EXPECT_EQ(lci::gpu::put(ep, world().n, there, own, 8), status::bad_rank);
  EXPECT_EQ(lci::gpu::put(ep, to, {there.key, 60}, own, 8), status::out_of_range);
  EXPECT_EQ(lci::gpu::put(ep, to, there, {own.key, 65}, 1), status::out_of_range);
  EXPECT_EQ(lci::gpu::put(ep, to, {}, own, 8), status::bad_key);
  if (world().n > 1) {
    EXPECT_EQ(lci::gpu::put(ep, world().rank, there, own, 8), status::bad_rank);
  }
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::put(ep, to, there, own, 8), status::ok);
    EXPECT_EQ(lci::gpu::quiet(ep), status::ok);
  });
  barrier();
}

// Progress until it throws what a failed request leaves.
lci::gpu_request_error request_error() {
  for (;;) {
    try {
      progress();
    } catch (const lci::gpu_request_error& error) {
      return error;
    }
  }
}

class gpu_failed_request : public testing::TestWithParam<attr_gpu_proxy_t> {
 protected:
  // Posts, sees the syndrome in the kernel and the exception on the host; nothing was written.
  void expect_failure(unsigned syndrome, const lci::gpu::place_t& there,
                      const lci::gpu::place_t& own, std::size_t size, lci::gpu::endpoint_t ep,
                      int to) {
    std::atomic<bool> is_over{false};
    std::thread kernel([&] {
      EXPECT_EQ(lci::gpu::put(ep, to, there, own, size), status::ok);
      EXPECT_EQ(lci::gpu::quiet(ep, to), status::failed);
      EXPECT_EQ(static_cast<unsigned>(lci::gpu::syndrome_of(ep, to)), syndrome);
      EXPECT_NE(lci::gpu::put(ep, to, there, own, size), status::ok);
      is_over = true;
    });
    const lci::gpu_request_error error = request_error();
    EXPECT_EQ(error.peer(), to);
    EXPECT_EQ(error.syndrome(), syndrome) << error.what();
    wait_until([&] { return is_over.load(); });
    kernel.join();
  }
};

TEST_P(gpu_failed_request, beyond_the_region_of_a_peer) {
  window memory(512);
  std::memset(memory.bytes().data(), 1, 512);
  barrier();
  thread_endpoint ep(GetParam());
  const int to = world().next();
  // Without a length the kernel cannot see it.
  expect_failure(0x13, {lci::get_gpu_key(memory.rmr(to)), 400}, {lci::get_gpu_key(memory.mr()), 0},
                 300, ep, to);
  barrier();
  for (const char c : memory.bytes()) ASSERT_EQ(c, 1);
}

TEST_P(gpu_failed_request, key_whose_region_has_ended) {
  window memory(512);
  std::vector<char> other(512);
  lci::mr_t mr = lci::register_memory_x(other.data(), other.size()).device(world().device)();
  thread_endpoint ep(GetParam());
  const int to = world().next();
  const lci::gpu::key_t key = lci::get_gpu_key(mr);
  EXPECT_EQ(lci::get_gpu_key(mr).key, key.key);
  lci::deregister_memory(&mr);
  barrier();
  expect_failure(0x04, {lci::get_gpu_key(memory.rmr(to)), 0}, {key, 0}, 300, ep, to);
  barrier();
}

TEST_P(gpu_failed_request, key_that_nobody_gave) {
  window memory(512);
  thread_endpoint ep(GetParam());
  const int to = world().next();
  lci::gpu::key_t key = lci::get_gpu_key(memory.rmr(to));
  key.key ^= 0x5500;
  expect_failure(0x13, {key, 0}, {lci::get_gpu_key(memory.mr()), 0}, 8, ep, to);
  barrier();
}

TEST_P(gpu_failed_request, abort__ends_waits_and_posts) {
  thread_endpoint ep(GetParam());
  std::uint64_t word = 0;
  std::atomic<bool> is_over{false};
  std::thread kernel([&] {
    EXPECT_EQ(lci::gpu::wait_until(ep, &word, lci::gpu::comparison::equal, 1), status::aborted);
    EXPECT_NE(lci::gpu::quiet(ep), status::ok);
    is_over = true;
  });
  lci::abort_gpu_endpoint(ep);
  wait_until([&] { return is_over.load(); });
  kernel.join();
}

TEST_P(gpu_failed_request, limit_of_a_wait__ends_it) {
  lci::gpu::endpoint_t ep = lci::alloc_gpu_endpoint_x(world().device)
                                .gpu(lci::gpu::NO_GPU)
                                .gpu_proxy(GetParam())
                                .wait_limit_ms(20)();
  std::uint64_t word = 0;
  run_kernel([&] {
    EXPECT_EQ(lci::gpu::wait_until(ep, &word, lci::gpu::comparison::equal, 1), status::timed_out);
  });
  lci::free_gpu_endpoint(&ep);
}

TEST_P(gpu_failed_request, message_too_long_for_a_queue__is_dropped_and_said) {
  thread_endpoint ep(GetParam());
  lci::gpu::queue_t queue = lci::alloc_gpu_queue_x(ep).message_size(8)();
  const lci::rcomp_t rcomp = lci::register_rcomp(lci::get_gpu_queue_comp(queue));
  barrier();
  struct two {
    std::uint64_t a = 1, b = 2;
  };
  std::atomic<bool> is_over{false};
  std::thread kernel([&] {
    EXPECT_EQ(lci::gpu::am_value(ep, world().rank, two(), rcomp), status::ok);
    EXPECT_EQ(lci::gpu::am_value(ep, world().rank, std::uint64_t{3}, rcomp), status::ok);
    std::uint64_t got = 0;
    EXPECT_EQ(lci::gpu::wait(queue, &got, sizeof got), status::ok);
    EXPECT_EQ(got, 3u);
    is_over = true;
  });
  bool was_said = false;
  while (!was_said || !is_over.load()) {
    try {
      progress();
    } catch (const lci::truncation_error&) {
      was_said = true;
    }
  }
  kernel.join();
  barrier();
  lci::deregister_rcomp(rcomp);
  lci::free_gpu_queue(&queue);
}

INSTANTIATE_TEST_SUITE_P(by, gpu_failed_request,
                         testing::Values(attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread),
                         proxy_name);

}  // namespace
}  // namespace interface_test
