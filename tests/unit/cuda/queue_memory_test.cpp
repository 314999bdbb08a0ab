#include "backends/cuda/queue_memory.hpp"

#include <sys/mman.h>

#include "lci/errors.hpp"
#include "lci/wqe/c_face.h"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

constexpr std::size_t HOST_PAGE = 4096;

class queue_memory_test : public cuda_test {
 protected:
  queue_memory_test() {
    driver_.require();
    void* const at =
        mmap(nullptr, 8 * HOST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    pages_ = static_cast<std::byte*>(at);
  }
  ~queue_memory_test() override { munmap(pages_, 8 * HOST_PAGE); }

  void* add(std::size_t at, std::size_t size, queue_memory::kind what = {}) {
    return memory_.add(gpus_.at(0), pages_ + at, size, what);
  }
  bool remove(std::size_t at, std::size_t size) {
    return memory_.remove(gpus_.at(0), pages_ + at, size);
  }
  std::size_t registrations() { return mock().count("cuMemHostRegister"); }
  std::string refusal(std::size_t at, std::size_t size, queue_memory::kind what = {}) {
    try {
      add(at, size, what);
    } catch (const backend_error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::byte* pages_ = nullptr;
  gpu_list gpus_{driver_};
  queue_memory memory_;
};

TEST_F(queue_memory_test, add__whole_pages_once_and_counted) {
  EXPECT_EQ(add(HOST_PAGE + 8, 8),
            pages_ + HOST_PAGE + 8);  // the mock's GPU sees the same addresses
  EXPECT_EQ(registrations(), 1u);
  EXPECT_EQ(add(HOST_PAGE, HOST_PAGE), pages_ + HOST_PAGE);  // no byte of it is new
  EXPECT_EQ(add(HOST_PAGE + 100, 4), pages_ + HOST_PAGE + 100);
  EXPECT_EQ(registrations(), 1u);
  EXPECT_EQ(add(2 * HOST_PAGE, 1), pages_ + 2 * HOST_PAGE);
  EXPECT_EQ(registrations(), 2u);
  EXPECT_TRUE(remove(HOST_PAGE, 8));
  EXPECT_TRUE(remove(HOST_PAGE, HOST_PAGE));
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  EXPECT_TRUE(remove(HOST_PAGE + 8, 8));
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 1u);
  EXPECT_TRUE(remove(2 * HOST_PAGE, 1));
  EXPECT_FALSE(remove(2 * HOST_PAGE, 1));
}

TEST_F(queue_memory_test, add__a_part_of_another_range_is_refused) {
  add(2 * HOST_PAGE, 2 * HOST_PAGE);
  for (const auto& [at, size] : {std::pair{HOST_PAGE, 2 * HOST_PAGE},
                                 {3 * HOST_PAGE, 2 * HOST_PAGE},
                                 {HOST_PAGE, 4 * HOST_PAGE}})
    EXPECT_NE(refusal(at, size).find("overlaps"), std::string::npos) << at;
  EXPECT_NE(refusal(0, 0).find("0 bytes"), std::string::npos);
  EXPECT_NE(refusal(0, SIZE_MAX).find("beyond the last address"), std::string::npos);
  EXPECT_NE(refusal(0, -reinterpret_cast<std::uintptr_t>(pages_)).find("beyond the last address"),
            std::string::npos);
  EXPECT_EQ(registrations(), 1u);
  EXPECT_TRUE(remove(2 * HOST_PAGE, 2 * HOST_PAGE));
}

TEST_F(queue_memory_test, add__what_the_driver_refuses_leaves_nothing) {
  mock().fail_nth("cuMemHostRegister", 1, abi::result::not_permitted);
  EXPECT_NE(refusal(0, 8, queue_memory::kind::card_register).find("PeerMappingOverride"),
            std::string::npos);
  mock().fail_nth("cuMemHostGetDevicePointer", 1, abi::result::out_of_memory);
  EXPECT_NE(refusal(0, 8).find("cuMemHostGetDevicePointer"), std::string::npos);
  EXPECT_FALSE(remove(0, 8));
  add(0, 8);
  EXPECT_TRUE(remove(0, 8));
}

TEST_F(queue_memory_test, add__what_the_program_has_registered_stays_registered) {
  void* const pinned = mock().allocate(mocked::pinned, HOST_PAGE);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pinned) % HOST_PAGE, 0u);
  EXPECT_EQ(memory_.add(gpus_.at(0), pinned, 8, {}), pinned);
  EXPECT_TRUE(memory_.remove(gpus_.at(0), pinned, 8));
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  mock().free(pinned);
}

// For the driver the first page is enough to be registered already.
TEST_F(queue_memory_test, add__a_part_that_the_program_has_registered_is_not_all_of_it) {
  void* const pinned = mock().allocate(mocked::pinned, HOST_PAGE);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(pinned) % HOST_PAGE, 0u);
  EXPECT_THROW(memory_.add(gpus_.at(0), pinned, 2 * HOST_PAGE, {}), backend_error);
  EXPECT_FALSE(memory_.remove(gpus_.at(0), pinned, 2 * HOST_PAGE));
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  mock().free(pinned);
}

// All callers of the process share what is registered.
TEST_F(queue_memory_test, open_for_kernels__counts_with_other_callers) {
  const auto one = open_for_kernels(driver_), other = open_for_kernels(driver_);
  EXPECT_EQ(one->map(pages_ + 8, 8, false), pages_ + 8);
  EXPECT_EQ(other->map(pages_, HOST_PAGE, false), pages_);
  EXPECT_EQ(registrations(), 1u);
  one->unmap(pages_ + 8, 8);
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 0u);
  other->unmap(pages_, HOST_PAGE);
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 1u);
  one->unmap(pages_, 8);  // nothing is there
  EXPECT_EQ(mock().count("cuMemHostUnregister"), 1u);
}

TEST_F(queue_memory_test, open_for_kernels__a_register_that_is_refused_says_which_option) {
  mock().fail_nth("cuMemHostRegister", 1, abi::result::not_permitted);
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { open_for_kernels(driver_)->map(pages_, 8, true); }, {"PeerMappingOverride"}));
}

class no_dma_buf_test : public cuda_test {
 protected:
  no_dma_buf_test() : cuda_test({.dma_buf = false}) {}
};

TEST_F(no_dma_buf_test, why_no_dma_buf__of_the_gpu) {
  driver_.require();
  EXPECT_EQ(open_for_kernels(driver_)->why_no_dma_buf(), "GPU 0 or its driver has no dma-buf");
}

}  // namespace
}  // namespace lci::cuda
