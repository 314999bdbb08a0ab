#include "lci/proxy/block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "lci/errors.hpp"
#include "lci/proxy/queue_records.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

TEST(block, shared__whole_pages_of_zeros) {
  const block one = block::shared(100, gpu::NO_GPU);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.at()) % 4096, 0u);
  EXPECT_EQ(std::count(one.at(), one.at(100), std::byte{0}), 100);
}

TEST(block, of_gpu__without_a_gpu_is_memory_like_any_other) {
  test::proxied_job job;
  block one = block::of_gpu(64, gpu::NO_GPU);
  one.fill(job.runtime().shared.gpu.gpus, std::vector<std::byte>(64, std::byte{7}));
  EXPECT_EQ(one.at()[63], std::byte{7});
  const std::byte* const at = one.at();
  block other = std::move(one);
  EXPECT_EQ(other.at(), at);
  EXPECT_EQ(one.at(), nullptr);
  one = std::move(other);
  EXPECT_EQ(one.at(), at);
}

TEST(block, gpu_domain__there_is_none) {
  EXPECT_THROW(gpu_domain(), backend_error);
  EXPECT_THROW(block::shared(64, 0), backend_error);
  EXPECT_THROW(block::of_gpu(64, 0), backend_error);
}

TEST(layout, add__parts_begin_at_lines) {
  layout all;
  EXPECT_EQ(all.add<std::uint32_t>(1), 0u);
  EXPECT_EQ(all.add<std::uint64_t>(9), 64u);
  EXPECT_EQ(all.add<std::byte>(1), 192u);
  EXPECT_EQ(all.size(), 256u);
}

TEST(queue_records, take__each_is_handed_out_once) {
  queue_records all;
  const gpu::queue_record* last = nullptr;
  for (std::size_t i = 0; i < queue_records::PAGE / queue_records::EACH; ++i) {
    const gpu::queue_record* const one = all.take(gpu::NO_GPU);
    EXPECT_GT(one, last);
    last = one;
  }
  EXPECT_EQ(all.pages(), 1u);
  all.take(gpu::NO_GPU);
  EXPECT_EQ(all.pages(), 2u);
  std::vector<block> kept;
  all.leave_all([&](block&& one) { kept.push_back(std::move(one)); });
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(all.pages(), 0u);
}

}  // namespace
}  // namespace lci::proxy
