// Very many messages of kernels through small queues: none is lost, doubled, damaged or out of the
// order of its thread.
#include "tests/accelerator/gpu_calls.hpp"
#include "tests/support/device_code/storm_world.hpp"

namespace lci::test {
namespace {

class gpu_storm : public gpu_calls {
 protected:
  void storm(std::uint32_t blocks, std::uint32_t threads, std::uint32_t each,
             std::uint32_t targets = 1) {
    storm_count count(threads);
    gpu_endpoint_options options;
    options.blocks = blocks;
    options.ranks = static_cast<int>(1 + targets);
    ends_.emplace(*memory_, options, [&](int, int, device::key_table&) {
      return std::make_unique<storm_world>(count);
    });
    storm_task task;
    task.endpoint = ends_->endpoint(0);
    task.to = {0, gpu::UNKNOWN_LENGTH, 0, 0x100, gpu::ANY_RANK};
    task.targets = targets;
    task.from = ends_->register_pinned(0, memory_->pinned(4096), 4096);
    task.threads = threads;
    task.each = each;
    task.answers = memory_->pinned_array<status>(threads);
    std::fill_n(task.answers, threads, status::no_gpu);
    start("lci_test_storm", (threads + 127) / 128, 128, task);
    drive();
    for (std::uint32_t i = 0; i < threads; ++i)
      ASSERT_EQ(task.answers[i], status::ok) << i << ": " << text_of(task.answers[i]);
    EXPECT_EQ(count.received, std::uint64_t{threads} * each);
    EXPECT_EQ(count.out_of_order, 0u);
    EXPECT_EQ(count.damaged, 0u);
    EXPECT_EQ(count.next, std::vector<std::uint32_t>(threads, each));
  }
};

TEST_F(gpu_storm, ten_million_messages_of_a_hundred_thousand_threads_into_one_queue) {
  storm(1024, 100000, 100);
}
TEST_F(gpu_storm, a_ring_of_sixteen_blocks) { storm(16, 3000, 10); }
TEST_F(gpu_storm, one_warp_and_a_part_of_one) { storm(64, 45, 1000); }
// The lanes of a warp post to several queues, which are full, at once.
TEST_F(gpu_storm, warps_that_post_to_seven_ranks) { storm(16, 4000, 20, 7); }

}  // namespace
}  // namespace lci::test
