// Which memory the accelerator lets the processor copy, and what the attribute gpu_gdrcopy says.
#include "backends/cuda/accelerator.hpp"
#include "experimental/tests/unit/cuda/gdr_fixture.hpp"
#include "lci/errors.hpp"

namespace lci::cuda {
namespace {

class gdr_accelerator_test : public gdr_test {
 protected:
  explicit gdr_accelerator_test(std::span<const char* const> libraries = MOCK_GDR)
      : with_{options_with(libraries)}, pointers_(with_) {
    acc_ = std::make_unique<accelerator>(with_, pointers_, arena_);
  }
  static driver_options options_with(std::span<const char* const> libraries) {
    driver_options options = mock_options();
    options.mapping_libraries = libraries;
    return options;
  }
  // Whether both ways work, and bring the bytes.
  bool copies(void* memory) {
    auto* const at = static_cast<std::byte*>(memory);
    const auto bytes = pattern(100, 1);
    std::vector<std::byte> back(100);
    const bool written = acc_->write_by_cpu(at, bytes.data(), 100);
    const bool is_read = acc_->read_by_cpu(back.data(), at, 100);
    EXPECT_EQ(written, is_read);
    if (is_read) {
      EXPECT_EQ(back, bytes);
    }
    return written;
  }

  driver with_;
  pointer_cache pointers_;
  mem::arena arena_{64 << 20};
  std::unique_ptr<accelerator> acc_;
};

TEST_F(gdr_accelerator_test, auto_and_on__take_it_where_it_is) {
  for (const auto wanted : {attr_gpu_gdrcopy_t::auto_select, attr_gpu_gdrcopy_t::on}) {
    const mem::cpu_copy_limits limits = acc_->allow_cpu_copies(wanted);
    EXPECT_EQ(limits.read, accelerator::READ_BY_CPU);
    EXPECT_EQ(limits.write, accelerator::WRITE_BY_CPU);
    EXPECT_TRUE(copies(gpu_memory(4096)));
  }
  EXPECT_EQ(mock().queued_operations(), 0u);
}

TEST_F(gdr_accelerator_test, off__opens_nothing) {
  EXPECT_EQ(acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::off).write, 0u);
  EXPECT_FALSE(copies(gpu_memory(4096)));
  EXPECT_EQ(gdr_mock().count("gdr_open"), 0u);
}

TEST_F(gdr_accelerator_test, other_kinds_of_memory__are_left_to_the_gpu) {
  acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::on);
  for (const mocked sort : {mocked::pool, mocked::vmm, mocked::managed, mocked::pinned}) {
    EXPECT_FALSE(copies(mock().allocate(sort, 2 << 20)));
  }
  std::byte here[100];
  EXPECT_FALSE(copies(here));
  EXPECT_EQ(gdr_mock().count("gdr_pin_buffer"), 0u);
}

TEST_F(gdr_accelerator_test, second_gpu__is_as_good) {
  acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::on);
  EXPECT_TRUE(copies(gpu_memory(4096, 1)));
}

class no_gdr_test : public gdr_accelerator_test {
 protected:
  no_gdr_test() : gdr_accelerator_test(NO_GDR) {}
};

TEST_F(no_gdr_test, auto__does_without) {
  EXPECT_EQ(acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::auto_select).read, 0u);
  EXPECT_FALSE(copies(gpu_memory(4096)));
}

TEST_F(no_gdr_test, on__says_why_not) {
  EXPECT_TRUE(
      test::throws_with<backend_error>([&] { acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::on); },
                                       {"gpu_gdrcopy is on, but", "libno_such_gdrapi.so.2"}));
}

}  // namespace
}  // namespace lci::cuda
