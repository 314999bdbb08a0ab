#include "lci/proxy/proxy_driver.hpp"

#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using gpu::status;

class proxy_driver_test : public testing::TestWithParam<attr_gpu_proxy_t> {
 protected:
  ~proxy_driver_test() override { deregister_memory(&mr_); }
  gpu::endpoint_t make() {
    return alloc_gpu_endpoint_x(device_t(&job_.device()))
        .gpu(gpu::NO_GPU)
        .gpu_proxy(GetParam())
        .depth(16)
        .runtime(job_.handle())();
  }
  std::uint64_t words_[2] = {5, 0};
  test::proxied_job job_;
  mr_t mr_ = register_memory_x(words_, sizeof(words_)).runtime(job_.handle())();
  gpu::key_t key_ = get_gpu_key(mr_);
};

TEST_P(proxy_driver_test, add__and_remove_serve_as_long_as_there_is_an_endpoint) {
  for (int round = 0; round < 3; ++round) {
    gpu::endpoint_t one = make(), other = make();
    for (gpu::endpoint_t* const ep : {&one, &other}) {
      words_[1] = 0;
      EXPECT_EQ(job_.run([&] {
        const status s = gpu::put(*ep, 0, {key_, 8}, {key_, 0}, 8);
        return s != status::ok ? s : gpu::quiet(*ep);
      }),
                status::ok);
      EXPECT_EQ(words_[1], 5u);
      free_gpu_endpoint_x(ep).call();
    }
  }
}

// With a thread nobody calls progress.
TEST_P(proxy_driver_test, thread__serves_by_itself) {
  gpu::endpoint_t ep = make();
  EXPECT_EQ(gpu::put(ep, 0, {key_, 8}, {key_, 0}, 8), status::ok);
  if (GetParam() == attr_gpu_proxy_t::thread) {
    EXPECT_EQ(gpu::quiet(ep), status::ok);
    EXPECT_EQ(words_[1], 5u);
  }
  free_gpu_endpoint_x(&ep).call();
  EXPECT_EQ(words_[1], 5u) << "freeing does what was posted";
}

INSTANTIATE_TEST_SUITE_P(by, proxy_driver_test,
                         testing::Values(attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread),
                         [](const auto& param) {
                           return param.param == attr_gpu_proxy_t::progress ? "progress" : "thread";
                         });

}  // namespace
}  // namespace lci::proxy
