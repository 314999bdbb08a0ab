// Puts that are done before they are there. Those of every size are in eager_test.cpp.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/proto/host/select.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;

// A call that waits is over once the bytes are in a packet. Whatever it waited on may be another
// call's by then.
TEST(put, copied_for_a_call_that_waits__may_fail_behind_it) {
  for (sim_options options : {sim_options{.late = true}, card_options()}) {
    options.caps.orders_puts = true;
    proto_world w(options);
    std::uint64_t word = 42, window = 0;
    const lci::net::remote_key region = w[1].expose(&window, sizeof(window));
    auto& waiters = w[0].core.waiters;
    const auto put = [&] {
      proto::waiter* const waits = waiters.get();
      waits->arm(waiters);
      lci::errorcode_t code;
      do {
        auto out = w[0].outgoing(1, &word, sizeof(word), 0, 0, waits);
        out.user.is_waiter = true;
        out.remote = region;
        code = proto::start_put(out);
        if (lci::error_t(code).is_retry()) w.step(1);
      } while (lci::error_t(code).is_retry());
      waiters.put(waits);
      return code;
    };
    ASSERT_EQ(put(), lci::errorcode_t::done);
    w.step();
    EXPECT_EQ(window, 42u);
    ASSERT_EQ(put(), lci::errorcode_t::done);
    EXPECT_EQ(w[0].queues->engine().open.sum(), 1) << "it has ended before it could fail";
    w.sim.kill(1);
    w.step();
    EXPECT_FALSE(w.thrown.empty());
    EXPECT_EQ(w[0].queues->engine().open.sum(), 0);
  }
}
