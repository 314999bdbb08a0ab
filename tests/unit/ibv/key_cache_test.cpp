#include "backends/ibv/key_cache.hpp"

#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

using answer = net::remote_view::answer;

class key_cache_test : public on_a_card {
 protected:
  // Asks until there is an answer.
  answer ask(test::group& g, int rank, net::remote_key key) {
    answer out = answer::not_connected;
    g.until([&] { return (out = at(0).check_remote(rank, key).what) != answer::not_connected; },
            "a look-up");
    return out;
  }
  // The row of a slot in the table of that rank, which peers read.
  row& row_of(int rank, net::remote_key key) {
    const auto* const blocks =
        reinterpret_cast<const block_reference*>(at(rank).memory().directory());
    return reinterpret_cast<row*>(blocks[key.slot / ROWS].address)[key.slot % ROWS];
  }
};

TEST_F(key_cache_test, find__what_the_peer_has_registered) {
  auto g = open(2);
  std::vector<std::byte> there(12345);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  ASSERT_EQ(ask(*g, 1, key), answer::ok);
  const net::remote_view view = at(0).check_remote(1, key);
  EXPECT_EQ(view.size, there.size());
  EXPECT_EQ(view.address, reinterpret_cast<std::uint64_t>(there.data()));
  const std::size_t reads = card().count("post_send");
  EXPECT_EQ(ask(*g, 1, key), answer::ok);
  EXPECT_EQ(card().count("post_send"), reads) << "it is kept";
  g->at(1).hide(key);
}

// As memory of a GPU that no card can reach: nobody is told of its end, and so it is not forgotten
// at once either.
TEST_F(key_cache_test, find__what_has_no_key_is_kept) {
  auto g = open(2);
  std::vector<std::byte> there(64);
  const mem::region_name name =
      g->at(1).regions.insert({there.data(), there.size(), mem::mem_kind::device, {}, true});
  const net::remote_key key{name.slot, name.generation};
  at(1).publish(key, 0);
  ASSERT_EQ(ask(*g, 1, key), answer::ok);
  g->settle();  // the owner hears that it is known
  const net::remote_view view = at(0).check_remote(1, key);
  EXPECT_EQ(view.what, answer::ok);
  EXPECT_TRUE(view.off_network);
  EXPECT_EQ(view.size, there.size());
  g->at(1).regions.erase(name);
}

TEST_F(key_cache_test, row_that_changes__is_read_again) {
  auto g = open(2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  row& torn = row_of(1, key);
  const std::uint32_t check = torn.check;
  torn.check = check ^ 2;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(at(0).check_remote(1, key).what, answer::not_connected);
    g->poll();
  }
  torn.check = check;
  EXPECT_EQ(ask(*g, 1, key), answer::ok);
  g->at(1).hide(key);
}

// However often it is read: its writer may have lost its processor.
TEST_F(key_cache_test, row_that_changes_for_long__is_no_reason_to_give_up) {
  auto g = open(2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  row_of(1, key).check ^= 2;
  const std::size_t before = card().count("post_send");
  g->until(
      [&] {
        EXPECT_EQ(at(0).check_remote(1, key).what, answer::not_connected);
        return card().count("post_send") - before > 5000 || HasFailure();
      },
      "many reads");
  row_of(1, key).check ^= 2;
  EXPECT_EQ(ask(*g, 1, key), answer::ok);
  g->at(1).hide(key);
}

TEST_F(key_cache_test, row_that_never_checks_out__is_unknown_in_the_end) {
  auto g = open(2);
  at(0).keys().set_torn_ms(20);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  row_of(1, key).check ^= 2;
  EXPECT_EQ(ask(*g, 1, key), answer::unknown_key);
  g->at(1).hide(key);
}

// As many as there are places for look-ups, and more, at a peer that will not answer: those at
// others go on.
TEST_F(key_cache_test, dead_peer__keeps_no_look_up_of_others_waiting) {
  auto g = open(3);
  meet(*g, 0, 1);
  meet(*g, 0, 2);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(2).expose(there.data(), there.size());
  for (std::uint32_t i = 0; i < 30; ++i) (void)at(0).check_remote(1, {i + 1, 1});
  card().kill(1);
  ASSERT_TRUE(until_gone(*g, 0));
  for (std::uint32_t i = 0; i < 200; ++i) {
    (void)at(0).check_remote(1, {i + 1, 1});
    g->poll();
  }
  EXPECT_EQ(ask(*g, 2, key), answer::ok);
  EXPECT_EQ(at(0).check_remote(1, {1, 1}).what, answer::not_connected)
      << "nobody has answer that it is unknown";
  g->at(2).hide(key);
}

// More of them than can be sent at a time wait for a poll of one device: those of another go on.
TEST_F(key_cache_test, device_that_nobody_polls__keeps_no_look_up_of_others_waiting) {
  auto g = open(2, 2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  for (std::uint32_t i = 0; i < 200; ++i) (void)at(0).check_remote(1, {i + 1, 1}, 1);
  answer out = answer::not_connected;
  for (int i = 0; i < 1000 && out == answer::not_connected; ++i) {
    for (const int rank : {0, 1}) g->at(rank).devices[0]->poll(*g->at(rank).sinks[0], 32);
    out = at(0).check_remote(1, key).what;
  }
  EXPECT_EQ(out, answer::ok);
  g->at(1).hide(key);
}

// Two devices: whichever polls, the connection that exists is read over.
TEST_F(key_cache_test, look_up__makes_no_connection_of_another_device) {
  auto g = open(2, 2);
  meet(*g, 0, 1);
  std::vector<std::byte> there(64);
  const net::remote_key key = g->at(1).expose(there.data(), there.size());
  const std::size_t before = card().live().qps;
  EXPECT_EQ(ask(*g, 1, key), answer::ok);
  for (int i = 0; i < 200; ++i) g->poll();
  EXPECT_EQ(card().live().qps, before);
  g->at(1).hide(key);
}

TEST_F(key_cache_test, end_of_a_registration__is_told_over_every_device) {
  auto g = open(2, 2);
  expect_ends_are_told_on_both_devices(*g);
}

TEST_F(key_cache_test, end_of_a_registration__is_known_over_a_device_that_is_connected_later) {
  auto g = open(2, 2);
  expect_a_later_connection_does_without_what_has_ended(*g);
}

}  // namespace
}  // namespace lci::ibv
