#include "lci/proxy/gpu_queue.hpp"

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

class gpu_queue_test : public testing::Test {
 protected:
  ~gpu_queue_test() override {
    if (!ep_.is_empty()) free_gpu_endpoint_x(&ep_).call();
  }
  allocator_base_t& allocator() { return *job_.runtime().core.allocator.load(); }
  // As the engine signals it, with a buffer of the library's allocator.
  void arrive(std::uint64_t value, std::size_t size = 8) {
    status_t got;
    got.rank = 1;
    got.tag = value;
    got.size = size;
    got.buffer = allocator().allocate(size);
    std::memset(got.buffer, 0, size);
    std::memcpy(got.buffer, &value, sizeof(value));
    comp().signal(got);
  }
  gpu_queue& comp() { return *side::find(queue_, "a test").one; }
  std::uint64_t take() {
    std::uint64_t got = 0;
    gpu::message_t what;
    EXPECT_EQ(gpu::poll(queue_, &got, sizeof(got), &what), gpu::status::ok);
    EXPECT_EQ(what.tag, got);
    EXPECT_EQ(what.rank, 1);
    return got;
  }

  test::proxied_job job_;
  gpu::endpoint_t ep_ = job_.endpoint();
  gpu::queue_t queue_ = alloc_gpu_queue_x(ep_).capacity(2).message_size(16)();
};

TEST_F(gpu_queue_test, signal__more_than_fit_wait_in_order) {
  for (std::uint64_t i = 1; i <= 5; ++i) arrive(i);
  EXPECT_EQ(comp().move_waiting(), 0u) << "nothing was taken";
  EXPECT_EQ(take(), 1u);
  EXPECT_EQ(comp().move_waiting(), 1u);
  arrive(6);
  EXPECT_EQ(take(), 2u);
  EXPECT_EQ(take(), 3u);
  EXPECT_EQ(gpu::poll(queue_, nullptr, 0), gpu::status::nothing);
  EXPECT_EQ(comp().move_waiting(), 2u);
  EXPECT_EQ(take(), 4u);
  EXPECT_EQ(take(), 5u);
  EXPECT_EQ(comp().move_waiting(), 1u);
  EXPECT_EQ(take(), 6u);
}

TEST_F(gpu_queue_test, signal__one_that_is_too_long_is_dropped) {
  EXPECT_THROW(arrive(1, 17), truncation_error);
  EXPECT_EQ(gpu::poll(queue_, nullptr, 0), gpu::status::nothing);
  arrive(2, 16);
}

TEST_F(gpu_queue_test, end__drops_what_waits_and_what_comes) {
  for (std::uint64_t i = 1; i <= 4; ++i) arrive(i);
  gpu_queue& late = comp();
  gpu::queue_t copy = queue_;
  free_gpu_queue_x(&queue_).call();
  EXPECT_TRUE(queue_.is_empty());
  status_t got;
  got.size = 8;
  got.buffer = allocator().allocate(8);
  late.signal(got);
  EXPECT_EQ(late.move_waiting(), 0u);
  EXPECT_EQ(gpu::poll(copy, nullptr, 0), gpu::status::bad_endpoint);
  EXPECT_THROW(free_gpu_queue_x(&copy).call(), argument_error);
  EXPECT_THROW(get_gpu_queue_comp_x(&copy).call(), argument_error);
}

TEST_F(gpu_queue_test, end__a_copy_of_the_handle_outlives_the_endpoint) {
  const gpu::queue_t copy = queue_;
  free_gpu_queue_x(&queue_).call();
  free_gpu_endpoint_x(&ep_).call();
  EXPECT_EQ(gpu::poll(copy, nullptr, 0), gpu::status::bad_endpoint);
}

TEST_F(gpu_queue_test, poll__its_endpoint_was_freed) {
  free_gpu_endpoint_x(&ep_).call();
  EXPECT_EQ(gpu::poll(queue_, nullptr, 0), gpu::status::bad_endpoint);
  free_gpu_queue_x(&queue_).call();
}

}  // namespace
}  // namespace lci::proxy
