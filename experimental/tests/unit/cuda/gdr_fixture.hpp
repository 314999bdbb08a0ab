// What the tests of gdrcopy share: the mock driver and a mock of the library for its memory, and a
// look at what is left over of both.
#pragma once

#include <array>
#include <span>
#include <string>

#include "tests/support/mock_gdr/mock_gdr.hpp"
#include "tests/unit/cuda/fixture.hpp"

namespace lci::cuda {

inline test::mock_gdr& gdr_mock() {
  static test::mock_gdr* const one = test::load_mock_gdr(LCI_MOCK_GDR);
  return *one;
}

inline constexpr std::array<const char*, 1> MOCK_GDR = {LCI_MOCK_GDR};
inline constexpr std::array<const char*, 2> NO_GDR = {"libno_such_gdrapi.so.2",
                                                      "libno_such_gdrapi.so"};

class gdr_test : public cuda_test {
 protected:
  explicit gdr_test(const test::mock_config& config = {}) : cuda_test(config) {
    gdr_mock().reset();
    mock().start();
  }
  ~gdr_test() override {
    for (const std::string& leak : gdr_mock().leaks()) ADD_FAILURE() << "left over: " << leak;
    gdr_mock().reset();
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

}  // namespace lci::cuda
