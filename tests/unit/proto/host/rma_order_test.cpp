// When a put whose bytes are copied may say done.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

// Done would say that everything behind it finds the bytes.
TEST(put_order, copied__is_done_only_where_that_puts_it_in_order) {
  for (const bool orders_puts : {false, true}) {
    sim_options options{.late = true};
    options.caps.orders_puts = orders_puts;
    proto_world w(options, 2, 512);
    recorder told;
    auto bytes = pattern(1000, 3);
    std::vector<std::byte> window(bytes.size());
    const lci::net::remote_key region = w[1].expose(window.data(), window.size());
    const auto put = [&](std::size_t size, bool may_retry) {
      lci::errorcode_t code;
      do {
        auto out = w[0].outgoing(1, bytes.data(), size, 0, 0, &told);
        out.may_retry = may_retry;
        out.remote = region;
        code = proto::start_put(out);
        if (lci::error_t(code).is_retry()) w.step(1);
      } while (lci::error_t(code).is_retry());
      return code;
    };
    const lci::errorcode_t first = put(8, true);
    EXPECT_EQ(first, orders_puts ? lci::errorcode_t::done : lci::errorcode_t::posted);
    w.step();
    EXPECT_EQ(told.seen.size(), orders_puts ? 0u : 1u);
    // The second half is posted when the first has completed, behind whatever comes meanwhile.
    EXPECT_EQ(put(1000, true), lci::errorcode_t::posted);
    w.step();
    EXPECT_EQ(told.seen.size(), orders_puts ? 1u : 2u);
    EXPECT_EQ(std::memcmp(window.data(), bytes.data(), bytes.size()), 0);
    // What waits here does not hold up other endpoints.
    told.seen.clear();
    std::size_t waiting = 0;
    for (int i = 0; i < 1000 && waiting == 0; ++i) {
      const lci::errorcode_t code = put(8, false);
      EXPECT_NE(code, lci::errorcode_t::done_backlog);
      waiting += code == lci::errorcode_t::posted_backlog ? 1u : 0u;
      if (!orders_puts) told.seen.clear();
    }
    EXPECT_EQ(waiting, 1u) << "nothing had to wait";
    w.step();
    EXPECT_GE(told.seen.size(), 1u);
  }
}
