// The checks of the fake fabric where it plays a card that needs keys: each is shown to fire.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/contract/suite.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {
namespace {

sim_options card(bool late = true) {
  sim_options options{.packets = sim_packets::own, .late = late, .needs_keys = true};
  options.caps.max_inject = 88;
  return options;
}

std::unique_ptr<group> group_of(const sim_options& options) {
  auto world = std::make_shared<sim_world>(2, options);
  return std::make_unique<group>(
      2, 1, [world](int rank, const net::fabric_config& c) { return world->open(rank, c); });
}

// Rank 0 writes into 1000 bytes of rank 1, by endpoints that register nothing.
class sim_keys : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    g = group_of(card());
    end = g->at(0).devices[0]->make_endpoint();
    there.resize(1000);
    here.assign(1000, std::byte{7});
    name = g->at(1).expose(there.data(), there.size());
    g->learn(0, 1, name);
    key = register_at(0, here.data(), here.size());
    op.rank = 1;
    op.buffer = here.data();
    op.size = 100;
    op.remote = name;
    op.local_key = key;
    op.context = &fate;
  }
  void TearDown() override {
    g->settle();
    end.reset();
    g->at(0).fabric->deregister_region(key);
  }
  std::uint64_t register_at(int rank, void* address, std::size_t size) {
    std::string why_not;
    return g->at(rank).fabric->register_region(address, size, mem::mem_kind::host, why_not);
  }
  // Whether the operation, a put, wrote.
  bool runs(const net::net_op& what) {
    std::fill(there.begin(), there.end(), std::byte{});
    fate.completed.store(0, std::memory_order_relaxed);
    fate.failed.store(0, std::memory_order_relaxed);
    EXPECT_EQ(end->put(what), errorcode_t::posted);
    EXPECT_TRUE(g->until([&] { return fate.signals() != 0; }, "an end"));
    const bool is_written = std::find(there.begin(), there.end(), std::byte{7}) != there.end();
    EXPECT_EQ(is_written, fate.completed.load(std::memory_order_relaxed) == 1);
    return is_written;
  }

  std::unique_ptr<group> g;
  std::unique_ptr<net::endpoint> end;
  std::vector<std::byte> there, here;
  net::remote_key name;
  std::uint64_t key = 0;
  net::net_op op;
  op_fate fate;
};
using sim_keys_DeathTest = sim_keys;

}  // namespace

TEST_F(sim_keys_DeathTest, local_memory_that_is_not_registered__ends_the_test) {
  op.local_key = 0;
  const char* const text = "host memory is not registered";
  EXPECT_DEATH(end->put(op), text);
  EXPECT_DEATH(end->put_imm(op), text);
  EXPECT_DEATH(end->get(op), text);
  EXPECT_DEATH(end->send(op), text);
}

TEST_F(sim_keys_DeathTest, key_of_other_memory_or_of_another_rank__ends_the_test) {
  const char* const text = "host memory is not what its key has registered";
  op.buffer = here.data() + 901;
  EXPECT_DEATH(end->put(op), text);
  op.buffer = here.data();
  op.local_key = register_at(1, here.data(), here.size());
  EXPECT_DEATH(end->put(op), text);
  g->at(1).fabric->deregister_region(op.local_key);
  EXPECT_DEATH(end->put(op), text);
}

TEST_F(sim_keys_DeathTest, key_of_an_operation_that_is_under_way__must_stay) {
  const auto deregister = [&] { g->at(0).fabric->deregister_region(key); };
  const char* const text = "what an operation uses is deregistered";
  ASSERT_EQ(end->put(op), errorcode_t::posted);
  EXPECT_DEATH(deregister(), text);
  g->at(1).poll();
  g->at(0).devices[0]->poll(g->at(0).seen(), 0);  // it runs, and nobody is told
  EXPECT_EQ(there[0], std::byte{7});
  EXPECT_DEATH(deregister(), text);
  g->settle();
  ASSERT_EQ(end->send(op), errorcode_t::posted);
  EXPECT_DEATH(deregister(), text);
  g->settle();
  EXPECT_EQ(fate.signals(), 2);
}

TEST_F(sim_keys_DeathTest, publishing_or_telling_of_nothing__ends_the_test) {
  EXPECT_DEATH(g->at(0).fabric->publish(name, 4711), "not registered is published");
  EXPECT_DEATH(register_at(0, here.data(), 0), "nothing is to be registered");
  auto plain = group_of({});
  auto to = plain->at(0).devices[0]->make_endpoint();
  plain->at(0).fabric->connect(1);
  op.at = {64, 1};
  EXPECT_DEATH(to->put(op), "a target that this network has not made");
}

TEST_F(sim_keys, arena__needs_no_key) {
  mem::packet* const packet = g->at(0).packets.get();
  std::fill_n(packet->payload(), 100, std::byte{7});
  op.buffer = packet->payload();
  op.local_key = 0;
  EXPECT_TRUE(runs(op));
  EXPECT_EQ(register_at(0, packet->payload(), 100), 0u);
  g->at(0).packets.put(packet);
}

TEST_F(sim_keys, names_that_are_not_published__are_unknown) {
  using answer = net::remote_view::answer;
  EXPECT_TRUE(runs(op));
  const auto row = g->at(1).regions.insert(there.data(), there.size());
  op.remote = {row.slot, row.generation};
  const auto look = [&] { return g->at(0).fabric->check_remote(1, op.remote).what; };
  EXPECT_EQ(look(), answer::unknown_key);
  EXPECT_FALSE(runs(op));
  g->at(1).fabric->publish(op.remote, 0);
  EXPECT_EQ(look(), answer::ok);
  EXPECT_FALSE(runs(op)) << "it has no key";
  const std::uint64_t theirs = register_at(1, there.data(), 500);
  g->at(1).fabric->publish(op.remote, theirs);
  EXPECT_TRUE(runs(op));
  op.remote_offset = 401;
  EXPECT_FALSE(runs(op)) << "its key does not cover it";
  g->at(1).fabric->deregister_region(theirs);
  EXPECT_EQ(look(), answer::unknown_key);
  op.remote_offset = 0;
  EXPECT_FALSE(runs(op));
  g->at(1).regions.erase(row);
}

TEST_F(sim_keys, targets__are_taken_at_their_word_and_checked) {
  const net::remote_target at = g->at(1).fabric->target_of(name);
  EXPECT_EQ(at.address, reinterpret_cast<std::uint64_t>(there.data()));
  op.remote = {};
  op.at = at;
  op.remote_offset = 900;
  EXPECT_TRUE(runs(op));
  op.remote_offset = 901;
  EXPECT_FALSE(runs(op));
  op.remote_offset = ~std::uint64_t{0} - 50;
  EXPECT_FALSE(runs(op));
  op.remote_offset = 0;
  op.at.address -= 1;
  EXPECT_FALSE(runs(op));
  op.at = {at.address, key};  // of rank 0
  EXPECT_FALSE(runs(op));
  op.at = at;
  g->at(1).hide(name);
  EXPECT_FALSE(runs(op));
}

TEST_F(sim_keys, target_of__knows_what_is_published_and_the_arena) {
  net::fabric& far = *g->at(1).fabric;
  EXPECT_EQ(far.target_of({name.slot, name.generation + 1}).key, 0u);
  const auto row = g->at(1).regions.insert(here.data(), here.size());
  EXPECT_EQ(far.target_of({row.slot, row.generation}).key, 0u);
  g->at(1).regions.erase(row);
  mem::packet* const packet = g->at(1).packets.get();
  const auto in_arena = g->at(1).regions.insert(packet->payload(), 100);
  op.at = far.target_of({in_arena.slot, in_arena.generation});
  EXPECT_EQ(op.at.address, reinterpret_cast<std::uint64_t>(packet->payload()));
  ASSERT_EQ(end->put(op), errorcode_t::posted);
  g->settle();
  EXPECT_EQ(packet->payload()[99], std::byte{7});
  g->at(1).regions.erase(in_arena);
  g->at(1).packets.put(packet);
  auto plain = group_of({});
  const net::remote_key other = plain->at(0).expose(here.data(), here.size());
  EXPECT_EQ(plain->at(0).fabric->target_of(other).key, 0u);
  plain->at(0).hide(other);
}

TEST(sim_card, without_room_for_targets__cannot_be) {
  sim_options options = card();
  options.caps.max_inject = 79;
  EXPECT_TRUE(throws_with<backend_error>([&] { group_of(options); }, {"88"}));
  options = card();
  options.packets = sim_packets::lend;
  EXPECT_TRUE(throws_with<backend_error>([&] { group_of(options); }, {"not lent"}));
}

TEST(sim_card, refusal_of_a_registration__is_said) {
  sim_options options = card();
  options.refuses_host = [](int rank, std::uint64_t nth) { return rank == 1 && nth == 2; };
  auto g = group_of(options);
  std::byte bytes[10];
  g->at(1).hide(g->at(1).expose(bytes, 10));
  EXPECT_TRUE(
      throws_with<backend_error>([&] { g->at(1).expose(bytes, 10); }, {"refuses 10 bytes"}));
  g->at(0).hide(g->at(0).expose(bytes, 10));
}

}  // namespace lci::test
