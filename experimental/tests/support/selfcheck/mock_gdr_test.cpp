// The mock of gdrcopy: each thing that it has to notice, in front of it.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "experimental/cuda/gdrcopy/gdr_library.hpp"
#include "tests/support/mock_cuda/mock_cuda.hpp"
#include "tests/support/mock_gdr/mock_gdr.hpp"

namespace lci::test {
namespace {

constexpr std::size_t PAGE = cuda::gdr_library::PAGE;
constexpr const char* MOCK[] = {LCI_MOCK_GDR};

// Calls the library without the care of gdr_mappings.
class mock_gdrcopy : public testing::Test {
 protected:
  mock_gdrcopy() : driver(*load_mock_cuda(LCI_MOCK_CUDA)), gdr(*load_mock_gdr(LCI_MOCK_GDR)) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    driver.reset();
    driver.start();
    gdr.reset();
    library_ = std::make_unique<cuda::gdr_library>(MOCK);
    memory = driver.allocate(mock_memory::device, 4096);
    start_ = reinterpret_cast<std::uintptr_t>(memory) / PAGE * PAGE;
  }
  ~mock_gdrcopy() override {
    library_.reset();
    gdr.reset();
    driver.reset();
  }
  // Pins and maps the page of `memory`.
  void map() {
    ASSERT_EQ(library_->pin(start_, 2 * PAGE, handle), 0);
    void* at = nullptr;
    ASSERT_EQ(library_->map(handle, &at, 2 * PAGE), 0);
    mapping = static_cast<std::byte*>(at);
  }
  std::byte* place() const { return mapping + (reinterpret_cast<std::uintptr_t>(memory) - start_); }
  bool reports(const std::string& what) {
    for (const std::string& leak : gdr.leaks()) {
      if (leak.find(what) != std::string::npos) return true;
    }
    return false;
  }

  mock_cuda& driver;
  mock_gdr& gdr;
  std::unique_ptr<cuda::gdr_library> library_;
  void* memory = nullptr;
  std::uintptr_t start_ = 0;
  cuda::gdr_handle handle;
  std::byte* mapping = nullptr;
  std::byte bytes[16] = {};
};

TEST_F(mock_gdrcopy, leaks__modules_pins_and_mappings) {
  EXPECT_TRUE(reports("opened modules of gdrcopy: 1"));
  map();
  EXPECT_TRUE(reports("pinned ranges of GPU memory: 1"));
  EXPECT_TRUE(reports("mappings of GPU memory: 1"));
  EXPECT_EQ(gdr.pinned_bytes(), 2 * PAGE);
  EXPECT_EQ(library_->unmap(handle, mapping, 2 * PAGE), 0);
  EXPECT_EQ(library_->unpin(handle), 0);
  library_.reset();
  EXPECT_TRUE(gdr.leaks().empty());
}

TEST_F(mock_gdrcopy, ranges__that_are_no_whole_pages_are_refused) {
  EXPECT_EQ(library_->pin(start_ + 4096, PAGE, handle), EINVAL);
  EXPECT_EQ(library_->pin(start_, PAGE + 4096, handle), EINVAL);
  map();
  EXPECT_EQ(library_->unmap(handle, mapping, PAGE), EINVAL);
}

TEST_F(mock_gdrcopy, planned_failures__come_once) {
  gdr.fail_nth("gdr_pin_buffer", 2, ENOMEM);
  cuda::gdr_handle one, two, three;
  EXPECT_EQ(library_->pin(start_, PAGE, one), 0);
  EXPECT_EQ(library_->pin(start_, PAGE, two), ENOMEM);
  EXPECT_EQ(library_->pin(start_, PAGE, three), 0);
  EXPECT_EQ(gdr.count("gdr_pin_buffer"), 3u);
}

using mock_gdrcopy_DeathTest = mock_gdrcopy;

TEST_F(mock_gdrcopy_DeathTest, mapping__of_freed_memory) {
  map();
  EXPECT_EQ(library_->write(handle, place(), bytes, sizeof(bytes)), 0);
  driver.free(memory);
  EXPECT_DEATH(library_->write(handle, place(), bytes, sizeof(bytes)), "memory that was freed");
  EXPECT_EQ(driver.allocate(mock_memory::device, 4096), memory) << "the address comes again";
  EXPECT_DEATH(library_->read(handle, bytes, place(), sizeof(bytes)), "memory that was freed");
}

TEST_F(mock_gdrcopy_DeathTest, mapping__is_left_or_touched_by_a_plain_copy) {
  map();
  EXPECT_DEATH(library_->read(handle, bytes, mapping + 2 * PAGE - 8, 16), "leaves the mapping");
  EXPECT_DEATH(std::memcpy(bytes, place(), sizeof(bytes)), "");
  EXPECT_EQ(library_->unmap(handle, mapping, 2 * PAGE), 0);
  EXPECT_DEATH(library_->read(handle, bytes, place(), sizeof(bytes)), "leaves the mapping");
  EXPECT_EQ(library_->unpin(handle), 0);
  EXPECT_DEATH(library_->read(handle, bytes, place(), sizeof(bytes)), "not pinned");
}

}  // namespace
}  // namespace lci::test
