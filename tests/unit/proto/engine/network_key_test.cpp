// Who owns a registration, rungs that are asked for, and the guards that the tests of registration
// stand on: each is shown to fire.
#include "lci/proto/engine/network_key.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/unit/proto/gpu_registration.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace mem = lci::mem;
namespace proto = lci::proto;
using lci::mem::mem_kind;
using lci::mem::rung;

namespace {

const choice nobody = [](int, std::uint64_t) { return false; };
const choice everybody = [](int, std::uint64_t) { return true; };

std::uint64_t copies(gpu_world& w) { return w.gpu(0).copies() + w.gpu(1).copies(); }

}  // namespace

// ---- the owner of a registration ----

TEST(network_key, of_gpu_memory__is_given_back_once_by_its_last_owner) {
  gpu_world w(options_of(nobody));
  test_buffer buffer(mem_kind::device, 100);
  const auto made = [&] {
    return proto::key_for(w[0].queues->host, 1, buffer.at(), 100, mem_kind::device);
  };
  {
    proto::network_key one = made();
    EXPECT_FALSE(one.is_off());
    proto::network_key two(std::move(one));
    EXPECT_EQ(one.get(), 0u);  // NOLINT(bugprone-use-after-move): that is the question
    proto::network_key three;
    three = std::move(two);
    EXPECT_NE(three.get(), 0u);
    three = made();
    EXPECT_NE(three.get(), 0u);
    EXPECT_EQ(w.sim.registrations(0), 1u);
  }
  EXPECT_EQ(w.sim.registrations(0), 0u);
  const std::uint64_t mine = made().release();
  EXPECT_EQ(w.sim.registrations(0), 1u);
  w[0].fabric->deregister_region(mine);
  EXPECT_EQ(w.sim.registrations(0), 0u);
}

TEST(network_key, of_nothing__registers_nothing_and_is_not_off) {
  gpu_world w(options_of(everybody));
  const proto::network_key none =
      proto::key_for(w[0].queues->host, 1, nullptr, 0, mem_kind::device);
  EXPECT_FALSE(none.is_off());
  EXPECT_EQ(none.get(), 0u);
}

TEST(network_key, of_a_network_without_gpus__is_off_without_asking) {
  gpu_world w({});
  test_buffer buffer(mem_kind::device, 100);
  const proto::network_key none =
      proto::key_for(w[0].queues->host, 1, buffer.at(), 100, mem_kind::device);
  EXPECT_TRUE(none.is_off());
}

// ---- rungs that are asked for ----

class gpu_registration_forced : public testing::Test {
 protected:
  // A card without dma-buf, and a user who wants it.
  static gpu_options options() {
    gpu_options o = options_of(nullptr);
    o.rules = mem::ladder_rules::parse(true, "LCI_GPU_REGISTRATION", "dma_buf");
    o.sim.registers = [](int rank, rung, std::uint64_t) {
      return mem::registration_answer{0, rank == 1 ? "no such call" : "", ENOSYS, true};
    };
    return o;
  }
  gpu_world w{options()};
};

TEST_F(gpu_registration_forced, rung_that_fails__is_an_error_and_no_message_is_staged) {
  exchange good(w, verb::active_message, mem_kind::device, mem_kind::host, 20'000);
  good.start();
  EXPECT_TRUE(w.step_until([&] { return good.is_over(); }));
  good.expect_good();
  exchange bad(w, verb::send, mem_kind::device, mem_kind::host, 20'000, 1, 0);
  EXPECT_TRUE(throws_with<lci::backend_error>(
      [&] { bad.start(); }, {"LCI_GPU_REGISTRATION", "dma_buf: sim: no such call",
                             "data_direct: not tried", "peer_memory: not tried"}));
  exchange received(w, verb::send, mem_kind::device, mem_kind::device, 20'000);
  received.start();
  w.step(50);
  EXPECT_EQ(w.heard[0], 1u) << w.errors();
  EXPECT_EQ(w.heard[1], 1u) << w.errors();
  EXPECT_NE(w.errors().find("dma_buf: sim: no such call"), std::string::npos) << w.errors();
  EXPECT_EQ(copies(w), 0u);
  w.expect_clean(0);
}

// ---- the guards ----

TEST(gpu_registration_guards, of_what_stays_registered__fires) {
  gpu_world w(options_of(nobody));
  test_buffer buffer(mem_kind::device, 100);
  {
    const proto::network_key left =
        proto::key_for(w[0].queues->host, 1, buffer.at(), 100, mem_kind::device);
    EXPECT_TRUE(must_fire([&] { w.expect_clean(0); }, "registrations of rank 0"));
  }
  w.expect_clean(0);
}

TEST(gpu_registration_guards_DeathTest, of_the_fake_fabric__end_the_test) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  gpu_world w(options_of(nobody));
  w.sim.change([](sim_options& o) { o.late = false; });
  test_buffer here(mem_kind::device, 100), there(mem_kind::device, 100);
  w.step(5);
  lci::net::net_op op;
  op.rank = 1;
  op.buffer = here.at();
  op.size = 100;
  op.kind = mem_kind::device;
  auto region = w[1].core.regions.insert({there.at(), 100, mem_kind::device, {}, false});
  op.remote = {region.slot, region.generation};
  EXPECT_DEATH(w[0].queue->end().put(op), "GPU memory that is not registered");
  proto::network_key near = proto::key_for(w[0].queues->host, 1, here.at(), 100, mem_kind::device);
  op.local_key = near.get();
  EXPECT_DEATH(w[0].queue->end().put(op), "GPU memory that is not registered");
  proto::network_key far = proto::key_for(w[1].queues->host, 0, there.at(), 100, mem_kind::device);
  EXPECT_EQ(w[0].queue->end().put(op), lci::errorcode_t::done);
  w[1].core.regions.erase(region);
  region = w[1].core.regions.insert({there.at(), 100, mem_kind::device, {}, true});
  op.remote = {region.slot, region.generation};
  EXPECT_DEATH(w[0].queue->end().put(op), "a region that it has not registered");
  EXPECT_DEATH(
      {
        w[0].fabric->deregister_region(near.get());
        w[0].fabric->deregister_region(near.get());
      },
      "deregistered");
  w[1].core.regions.erase(region);
}
