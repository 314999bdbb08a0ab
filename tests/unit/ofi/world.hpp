// Ranks of the libfabric backend in one process on the fake library, with access to what is inside.
// Threads: the test's. Always true: at the end no object of the library is alive.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/ofi/fabric.hpp"
#include "tests/contract/opened_ranks.hpp"
#include "tests/support/fake_ofi/fake_ofi.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::ofi {

// The library that the backend loads in this process.
inline test::fake_ofi& fake() {
  static test::fake_ofi* const one = test::load_fake_ofi(LCI_FAKE_OFI_LIBRARY);
  std::string why_not;
  if (one == nullptr || find_library(why_not) == nullptr)
    throw std::runtime_error("there is no " LCI_FAKE_OFI_LIBRARY);
  return *one;
}

// How long that rank waits for others when it leaves, and ends are waited for.
inline void set_leave_ms(fabric& of, std::uint64_t ms) {
  of.devices().for_each([ms](event_queue& one) { one.set_leave_ms(ms); });
}
// Longer than a test takes.
inline constexpr std::uint64_t FOR_EVER_MS = 600'000;

// A network of its own for each test.
class on_a_network : public test::opened_ranks<fabric> {
 protected:
  on_a_network() { fake().reset(); }
  ~on_a_network() override {
    EXPECT_EQ(fake().live(), 0u) << "objects of the library are alive";
    EXPECT_EQ(fake().take_complaints(), std::vector<std::string>());
  }
  // Polls that present nothing, and a look is due.
  static void look_only(test::member& of) {
    const std::uint64_t since = base::cpu_ticks();
    while (base::cpu_ticks() <= since + event_queue::LOOK_MS * base::ticks_per_ms()) {
    }
    for (int i = 0; i < 100; ++i) of.devices[0]->poll(of.seen(), 0);
  }
};

}  // namespace lci::ofi
