// Loading gdrcopy, and the sentence for each reason why it cannot be used.
#include "experimental/cuda/gdrcopy/gdr_library.hpp"

#include <cerrno>

#include "experimental/tests/unit/cuda/gdr_fixture.hpp"

namespace lci::cuda {
namespace {

using gdr_library_test = gdr_test;

TEST_F(gdr_library_test, absent__the_first_name_and_the_loaders_reason_are_told) {
  const gdr_library none(NO_GDR);
  EXPECT_TRUE(has(none.why_not(), "gdrcopy cannot be loaded: libno_such_gdrapi.so.2"))
      << none.why_not();
}

TEST_F(gdr_library_test, second_name__is_tried) {
  const std::array<const char*, 2> names = {"libno_such_gdrapi.so.2", LCI_MOCK_GDR};
  const gdr_library found(names);
  EXPECT_EQ(found.why_not(), "");
  EXPECT_EQ(gdr_mock().count("gdr_open"), 1u);
}

TEST_F(gdr_library_test, no_names__such_gpus_have_none) {
  const gdr_library none({});
  EXPECT_EQ(none.why_not(), "there is no gdrcopy for these GPUs");
}

TEST_F(gdr_library_test, another_library__misses_its_functions) {
  const std::array<const char*, 1> names = {LCI_MOCK_CUDA};
  const gdr_library other(names);
  EXPECT_TRUE(has(other.why_not(), "has no gdr_runtime_get_version")) << other.why_not();
}

TEST_F(gdr_library_test, version__of_another_major_number_is_refused) {
  for (const int major : {1, 3}) {
    gdr_mock().set_version(major, 5);
    const gdr_library wrong(MOCK_GDR);
    EXPECT_TRUE(has(wrong.why_not(), "version " + std::to_string(major) + ".5")) << wrong.why_not();
  }
  EXPECT_EQ(gdr_mock().count("gdr_open"), 0u);
}

TEST_F(gdr_library_test, open__fails_without_the_kernel_module) {
  gdr_mock().set_module_loaded(false);
  const gdr_library closed(MOCK_GDR);
  EXPECT_TRUE(has(closed.why_not(), "gdrdrv")) << closed.why_not();
  EXPECT_TRUE(has(closed.why_not(), "No such file")) << closed.why_not();
}

TEST_F(gdr_library_test, a_range__is_pinned_mapped_written_read_and_given_back) {
  std::byte* const memory = static_cast<std::byte*>(gpu_memory(256 << 10));
  const auto at = reinterpret_cast<std::uintptr_t>(memory) / gdr_library::PAGE * gdr_library::PAGE;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(memory) - at;
  gdr_library one(MOCK_GDR);
  gdr_handle handle;
  ASSERT_EQ(one.pin(at, gdr_library::PAGE * 2, handle), 0);
  void* there = nullptr;
  ASSERT_EQ(one.map(handle, &there, gdr_library::PAGE * 2), 0);
  const auto bytes = pattern(100, 1);
  EXPECT_EQ(one.write(handle, static_cast<std::byte*>(there) + offset, bytes.data(), 100), 0);
  EXPECT_EQ(read(memory, 100), bytes);
  std::vector<std::byte> back(100);
  EXPECT_EQ(one.read(handle, back.data(), static_cast<std::byte*>(there) + offset, 100), 0);
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(one.unpin(handle), EBUSY) << "it is still mapped";
  EXPECT_EQ(one.unmap(handle, there, gdr_library::PAGE * 2), 0);
  EXPECT_EQ(one.unpin(handle), 0);
  EXPECT_EQ(one.unpin(handle), EINVAL);
}

}  // namespace
}  // namespace lci::cuda
