#include "lci/proxy/raised_words.hpp"

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

// Of a GPU: tests/accelerator/interface/gpu_proxy_test.cpp.
TEST(raised_words, raise__plain_memory_is_stored_to) {
  test::proxied_job job;
  std::uint32_t words[2] = {};
  raised_words all(job.device().queues.gpu, gpu::NO_GPU, 2);
  all.raise(0, words);
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[1], 0u);
  all.raise_now(1, words + 1);
  all.raise(1, words + 1);
  EXPECT_EQ(words[1], 1u);
  EXPECT_FALSE(all.is_out());
}

}  // namespace
}  // namespace lci::proxy
