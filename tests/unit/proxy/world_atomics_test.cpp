// Atomic operations of kernels: their old values, and each way in which one fails.
#include <gtest/gtest.h>

#include "lci/proxy/proxy_world.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using device::outcome;
using wqe::opcode;
using wqe::syndrome;

class world_atomics : public testing::Test {
 protected:
  world_atomics() {
    key_ = job_.side().all_keys.of(job_.expose(theirs_, sizeof(theirs_)), 1, nullptr);
  }
  device::answer begin(std::uint64_t offset, wqe::atomic_operands with = {5, 0, 0, 0, 8},
                       opcode op = opcode::atomic_fa) {
    return world_.atomic(op, with, {reinterpret_cast<std::uintptr_t>(theirs_) + offset, key_},
                         reinterpret_cast<std::byte*>(&old_));
  }
  device::answer finish(device::answer a) {
    job_.step_until([&] {
      if (a.what == outcome::posted) a = world_.poll();
      return a.what != outcome::posted;
    });
    return a;
  }
  void expect_refused(device::answer a, syndrome why, const char* text) {
    a = finish(a);
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, why) << wqe::text_of(a.why);
    EXPECT_NE(world_.reason().find(text), std::string::npos) << world_.reason();
    EXPECT_EQ(old_, 99u);
  }

  std::uint64_t theirs_[2] = {37, 0}, old_ = 99;
  test::proxied_job job_;
  std::uint32_t key_ = 0;
  open_receives receives_{nullptr, 0};
  std::atomic<bool> aborted_{false};
  proxy_world world_{job_.device(), 1, job_.side().all_keys, receives_, aborted_};
};

TEST_F(world_atomics, atomic__old_value_of_both_widths) {
  EXPECT_EQ(finish(begin(0)).what, outcome::done);
  EXPECT_EQ(old_, 37u);
  EXPECT_EQ(theirs_[0], 42u);
  old_ = ~std::uint64_t{0};
  EXPECT_EQ(finish(begin(8, {3, 0, 0, 0, 4}, opcode::atomic_masked_fa)).what, outcome::done);
  EXPECT_EQ(old_, ~std::uint64_t{0} << 32) << "four bytes are written";
  EXPECT_EQ(theirs_[1], 3u);
}

TEST_F(world_atomics, atomic__refusals_of_the_peer) {
  expect_refused(begin(4), syndrome::remote_invalid_request, "aligned");
}
TEST_F(world_atomics, atomic__outside_the_region) {
  expect_refused(begin(16), syndrome::remote_access, "inside");
}
TEST_F(world_atomics, atomic__a_region_that_has_ended) {
  const rmr_t rmr = job_.side().all_keys.find(key_)->rmr;
  job_.peer().core.regions.erase({static_cast<std::uint32_t>(rmr.opaque_rkey),
                                  static_cast<std::uint32_t>(rmr.opaque_rkey >> 32)});
  expect_refused(begin(0), syndrome::remote_access, "key");
}
TEST_F(world_atomics, atomic__a_key_that_is_none) {
  ++key_;
  expect_refused(begin(0), syndrome::remote_access, "names no memory");
}

TEST_F(world_atomics, atomic__of_a_peer_that_is_dead_or_dies) {
  job_.meet();
  const device::answer a = begin(0);
  ASSERT_EQ(a.what, outcome::posted);
  job_.kill();
  expect_refused(a, syndrome::retry_exceeded, "");
  expect_refused(begin(0), syndrome::retry_exceeded, "");
}

TEST_F(world_atomics, atomic__aborted_under_way) {
  const device::answer a = begin(0);
  ASSERT_EQ(a.what, outcome::posted);
  aborted_.store(true);
  EXPECT_EQ(world_.poll().why, syndrome::flushed);
  EXPECT_TRUE(job_.step_until([&] { return !world_.is_in_use(); }));
}

}  // namespace
}  // namespace lci::proxy
