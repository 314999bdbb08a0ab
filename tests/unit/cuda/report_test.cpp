// What is said of the GPUs and their ways.
#include "backends/cuda/report.hpp"

#include <algorithm>

#include "backends/cuda/resident_image.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

std::string why_not(const mem::device_report& of, const std::string& way) {
  const auto found = std::find_if(of.ways.begin(), of.ways.end(),
                                  [&way](const auto& each) { return each.name == way; });
  return found == of.ways.end() ? "no such way" : found->why_not;
}

class report_test : public cuda_test {
 protected:
  explicit report_test(const test::mock_config& config = {.gpus = 2}) : cuda_test(config) {}
};

TEST_F(report_test, each_gpu_with_its_ways__and_no_context_is_made) {
  const auto all = report_gpus(driver_);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "GPU 0");
  EXPECT_EQ(all[1].name, "GPU 1");
  for (const mem::device_report& one : all) {
    EXPECT_NE(one.what, "");
    for (const char* way : {"VMM memory of other processes", "notification by the GPU itself",
                            "posts and waits in streams", "dma-buf for networks",
                            "through host memory", "directly, on this GPU"})
      EXPECT_EQ(why_not(one, way), "") << way;
    EXPECT_EQ(why_not(one, "resident copy kernel") == "", !resident_image().empty());
  }
  EXPECT_EQ(why_not(all[0], "directly to GPU 1"), "");
  EXPECT_EQ(mock().count("cuDevicePrimaryCtxRetain"), 0u);
}

TEST_F(report_test, chosen_device__the_one_of_the_current_context_and_nothing_is_started) {
  driver ours(mock_options());
  EXPECT_EQ(address_of_current(ours), "") << "no context is current";
  const abi::functions* const call = ours.in_process();
  ASSERT_NE(call, nullptr);
  abi::context of_second = nullptr;
  ASSERT_EQ(call->primary_ctx_retain(&of_second, 1), abi::result::success);
  ASSERT_EQ(call->ctx_push_current(of_second), abi::result::success);
  EXPECT_EQ(address_of_current(ours),
            report_gpus(driver_).at(1).what.substr(report_gpus(driver_).at(1).what.find("0000:")));
  ASSERT_EQ(call->ctx_pop_current(&of_second), abi::result::success);
  ASSERT_EQ(call->primary_ctx_release(1), abi::result::success);
  EXPECT_EQ(address_of(ours, 1), report_gpus(driver_).at(1).pci);
  EXPECT_EQ(address_of(ours, 2), "") << "there are two";
  EXPECT_EQ(address_of(ours, -1), "");
  driver absent(driver_options{true, "libno_such_cuda.so.1"});
  EXPECT_EQ(address_of_current(absent), "");
}

class old_driver_report_test : public report_test {
 protected:
  old_driver_report_test()
      : report_test({.gpus = 1,
                     .missing = {"cuStreamWriteValue64", "cuStreamBatchMemOp",
                                 "cuMemGetHandleForAddressRange"}}) {}
};

TEST_F(old_driver_report_test, what_the_driver_lacks__is_named) {
  const auto all = report_gpus(driver_);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(why_not(all[0], "notification by the GPU itself").find("cuStreamWriteValue"),
            std::string::npos);
  EXPECT_NE(why_not(all[0], "posts and waits in streams").find("cuStreamBatchMemOp"),
            std::string::npos);
  EXPECT_NE(why_not(all[0], "dma-buf for networks"), "");
  EXPECT_EQ(why_not(all[0], "through host memory"), "");
}

class no_gpu_report_test : public report_test {
 protected:
  no_gpu_report_test() : report_test({.gpus = 0}) {}
};

TEST_F(no_gpu_report_test, nothing_is_said) { EXPECT_TRUE(report_gpus(driver_).empty()); }

}  // namespace
}  // namespace lci::cuda
