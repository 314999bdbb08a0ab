// What a device is said to have of copies while GPUs make them.
#include "lci/proto/gpu/jobs.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proto/gpu_world.hpp"
#include "tests/unit/proto/second_devices.hpp"

namespace {

using namespace lci::test;

// Both devices have something that the end of the copy touches.
TEST(late_arrival, for_a_receive_of_another_device__both_wait_for_the_copy) {
  gpu_world w{gpu_options()};
  second_devices second(w);
  test_buffer to(lci::mem::mem_kind::device, 64);
  recorder received;
  lci::proto::receive& record = *w[0].shared.host.receives.get();
  record.user = {};
  record.user.comp = &received;
  record.user.status.buffer = to.at();
  record.user.status.size = to.size();
  record.host = &second[0].host;
  record.region = {};
  record.kind = to.kind();
  record.gpu = 0;
  lci::status_t got;
  ASSERT_EQ(w[0].matcher->post(record, 1, 7, lci::matching_policy_t::rank_tag, got),
            lci::errorcode_t::posted);

  test_buffer from(lci::mem::mem_kind::host, to.size());
  from.fill(3);
  auto out = w[1].outgoing(0, from.at(), from.size(), w[0].engine_rcomp(), 7);
  while (lci::proto::is_retry(lci::proto::start_message(out))) w.step(1);
  for (int left = ROUNDS; left > 0 && w.gpu(0).under_way() == 0; --left) w.step_one(0);
  ASSERT_EQ(w.gpu(0).under_way(), 1u);
  EXPECT_TRUE(w[0].queues->gpu.has_copies());
  EXPECT_TRUE(second[0].gpu.has_copies()) << "it would give up and go";
  EXPECT_EQ(second[0].host.open_receives.sum(), 1);

  EXPECT_TRUE(w.step_until([&] { return !received.seen.empty(); }));
  EXPECT_FALSE(w[0].queues->gpu.has_copies());
  EXPECT_FALSE(second[0].gpu.has_copies());
  EXPECT_EQ(second[0].host.open_receives.sum(), 0);
  EXPECT_TRUE(to.holds(3));
}

}  // namespace
