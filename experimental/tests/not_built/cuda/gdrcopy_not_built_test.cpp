// A build without gdrcopy: who asks for it hears which option builds it, and nobody else notices.
#include "backends/cuda/accelerator.hpp"
#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {
namespace {

class gdrcopy_not_built : public cuda_test {
 protected:
  gdrcopy_not_built() : with_(options_with_names()), pointers_(with_) {
    mock().start();
    acc_ = std::make_unique<accelerator>(with_, pointers_, arena_);
  }
  static driver_options options_with_names() {
    static constexpr const char* NAMES[] = {"libgdrapi.so.2"};
    driver_options options = mock_options();
    options.mapping_libraries = NAMES;
    return options;
  }

  driver with_;
  pointer_cache pointers_;
  mem::arena arena_{64 << 20};
  std::unique_ptr<accelerator> acc_;
};

TEST_F(gdrcopy_not_built, on__is_an_error_that_names_the_option) {
  EXPECT_TRUE(test::throws_with<backend_error>(
      [&] { acc_->allow_cpu_copies(attr_gpu_gdrcopy_t::on); },
      {"gpu_gdrcopy is on, but", "experimental and not built", "-DLCI_EXPERIMENTAL=ON"}));
}

TEST_F(gdrcopy_not_built, auto_and_off__do_without) {
  for (const auto wanted : {attr_gpu_gdrcopy_t::auto_select, attr_gpu_gdrcopy_t::off}) {
    const mem::cpu_copy_limits limits = acc_->allow_cpu_copies(wanted);
    EXPECT_EQ(limits.read, 0u);
    EXPECT_EQ(limits.write, 0u);
  }
}

}  // namespace
}  // namespace lci::cuda
