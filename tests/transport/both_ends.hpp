// Two transports of one process that are connected, and progress of both in one thread.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lci/errors.hpp"
#include "lci/transport.hpp"
#include "tests/support/move_until.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/transport/if_supported.hpp"
#include "tests/transport/pattern.hpp"
#include "tests/transport/usual_options.hpp"

namespace transport_test {

// Makes both move until is_over(); false: it never is, although nothing happens any more.
template <class Fn>
bool run(std::vector<lci::transport*> all, Fn&& is_over) {
  return lci::test::move_until(
      [&] {
        bool did = false;
        for (lci::transport* one : all) did |= one->process();
        return did;
      },
      is_over);
}

struct both_ends {
  explicit both_ends(const lci::transport_options& options = usual()) : a(options), b(options) {}
  // Throws if they never are: no test goes on without.
  void connect() {
    b.connect(a.bind());
    if (!run({&a, &b}, [&] { return a.connected() && b.connected(); }))
      throw std::runtime_error("not connected: " + a.describe() + "; " + b.describe());
  }
  bool run_both(const lci::transfer& until) {
    return run({&a, &b}, [&] { return until.is_done(); });
  }
  lci::notification note_of(lci::transport& one) {
    lci::notification note;
    EXPECT_TRUE(run({&a, &b}, [&] { return one.wait_for_write(0, &note); }));
    return note;
  }
  lci::transport a, b;
};

}  // namespace transport_test
