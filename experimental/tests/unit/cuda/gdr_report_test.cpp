// What is said of gdrcopy among the ways of a GPU.
#include <algorithm>

#include "backends/cuda/report.hpp"
#include "experimental/tests/unit/cuda/gdr_fixture.hpp"

namespace lci::cuda {
namespace {

class gdr_report_test : public cuda_test {
 protected:
  gdr_report_test() : cuda_test({.gpus = 2}) {}
  static std::string why_not(const mem::device_report& of, const std::string& way) {
    const auto found = std::find_if(of.ways.begin(), of.ways.end(),
                                    [&way](const auto& each) { return each.name == way; });
    return found == of.ways.end() ? "no such way" : found->why_not;
  }
};

// Where gdrcopy is, its line says what keeps it from being used.
TEST_F(gdr_report_test, small_copies_by_the_processor__or_why_not) {
  const char* const way = "small copies by the processor (gdrcopy)";
  gdr_mock().reset();
  const auto ask = [&](std::span<const char* const> libraries) {
    driver_options options = mock_options();
    options.mapping_libraries = libraries;
    driver with(options);
    return why_not(report_gpus(with).at(0), way);
  };
  EXPECT_EQ(ask(MOCK_GDR), "");
  gdr_mock().set_module_loaded(false);
  EXPECT_NE(ask(MOCK_GDR).find("gdrdrv"), std::string::npos) << ask(MOCK_GDR);
  EXPECT_NE(ask(NO_GDR).find("libno_such_gdrapi.so.2"), std::string::npos) << ask(NO_GDR);
  EXPECT_EQ(gdr_mock().leaks(), std::vector<std::string>{});
}

}  // namespace
}  // namespace lci::cuda
