// The protocols of host memory where there is no accelerator: what needs one is refused, by an
// error here and at the other end, and nothing stays behind.
#include "lci/proto/host/accelerator_hook.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test {
namespace {

namespace wire = proto::wire;

class no_accelerator : public testing::Test {
 protected:
  no_accelerator() {
    for (int r = 0; r < 2; ++r) w[r].queues->host.accelerator = &proto::no_accelerator();
  }
  // Sends LARGE bytes as if they were in GPU memory, to a target of rank 1.
  void send_from_device(rcomp_t target, comp_impl_t* comp) {
    auto out = w[0].outgoing(1, data.data(), data.size(), target, 5, comp);
    proto::send_plan plan;
    plan.rank = 1;
    plan.user = out.user;
    plan.off_network = true;
    ASSERT_EQ(proto::start_send(w[0].queues->host, *w[0].queue, target, plan, false),
              errorcode_t::posted);
    w.step();
  }
  void expect_refused(std::size_t errors) {
    ASSERT_EQ(w.thrown.size(), errors);
    for (const std::exception_ptr& one : w.thrown)
      EXPECT_THROW(std::rethrow_exception(one), std::exception);
    for (int r = 0; r < 2; ++r) EXPECT_TRUE(w[r].queues->is_drained()) << r;
  }

  proto_world w;
  std::vector<std::byte> data = pattern(LARGE);
  recorder sender, receiver;
};

TEST_F(no_accelerator, a_send_of_its_memory__ends_at_both_ends_by_an_error) {
  status_t got;
  std::vector<std::byte> buffer(LARGE);
  ASSERT_EQ(w[1].receive(0, buffer.data(), buffer.size(), 5, &receiver, got), errorcode_t::posted);
  send_from_device(w[1].engine_rcomp(), &sender);
  EXPECT_TRUE(sender.seen.empty());
  EXPECT_TRUE(receiver.seen.empty());
  expect_refused(2);
}

}  // namespace
}  // namespace lci::test
