// Lanes that have been silent for long and are asked in groups: what they bring is found at once.
#include "backends/shm/silent_lanes.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "backends/shm/inbox.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;

// A rank that others have spoken to and are silent.
struct crowd {
  static constexpr int PEERS = 12;  // more than are asked at once
  crowd() {
    for (int i = 0; i <= PEERS; ++i) ranks.push_back(std::make_unique<test::side>(i, all));
    for (int i = 1; i <= PEERS; ++i) ranks[static_cast<std::size_t>(i)]->say(0, "hello");
    wait([&] { return me().seen.messages.size() == PEERS; });
    me().seen.messages.clear();
    fall_silent();
  }
  test::side& me() { return *ranks[0]; }
  test::side& peer(int i) { return *ranks[static_cast<std::size_t>(i)]; }
  void wait(const std::function<bool()>& done) { pair::until(done, {&me()}); }
  void fall_silent(std::size_t less = 0) {
    wait([&] { return me().behind().in.silent() == PEERS - less; });
  }
  test::addresses all{PEERS + 1};
  std::vector<std::unique_ptr<test::side>> ranks;
};

}  // namespace

TEST(silent_lane, wakes__what_it_brings_is_found_by_the_next_poll) {
  crowd c;
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= crowd::PEERS; ++i) {
      c.peer(i).say(0, "x", static_cast<std::uint32_t>(i));
      EXPECT_EQ(c.me().poll(), 1u) << i;
      ASSERT_FALSE(c.me().seen.messages.empty());
      EXPECT_EQ(c.me().seen.messages.back().rank, i);
    }
    c.fall_silent();
  }
}

// Lanes in laps with and without the bit are asked apart from each other.
TEST(silent_lane, wakes__in_whatever_lap_it_and_the_others_are) {
  crowd c;
  for (const int in_second_lap : {1, 5, 8, 9, crowd::PEERS}) {
    for (int i = 1; i <= in_second_lap; ++i) {
      for (std::uint32_t sent = 0; sent < LANE_SLOTS; ++sent) {
        c.wait([&] { return c.peer(i).say(0, "x") == errorcode_t::done; });
        c.me().poll();
      }
    }
    c.wait([&] { return c.me().behind().in.silent() == crowd::PEERS; });
    EXPECT_EQ(c.me().poll(), 0u);
    for (int i = crowd::PEERS; i >= 1; --i) {
      c.me().seen.messages.clear();
      c.peer(i).say(0, "x");
      EXPECT_EQ(c.me().poll(), 1u) << i << ", " << in_second_lap;
      ASSERT_EQ(c.me().seen.messages.size(), 1u);
      EXPECT_EQ(c.me().seen.messages[0].rank, i);
    }
    c.fall_silent();
  }
}

TEST(silent_lane, wakes__in_a_poll_inside_a_message) {
  crowd c;
  c.me().seen.answer = [&](const net::arrival& m) {
    if (m.rank == 1) {
      c.peer(12).say(0, "x");
      c.me().poll();
      EXPECT_EQ(c.me().seen.messages.size(), 1u);
    }
    return net::verdict::taken;
  };
  c.peer(1).say(0, "x");
  EXPECT_EQ(c.me().poll(), 1u);
  ASSERT_EQ(c.me().seen.messages.size(), 2u);
  EXPECT_EQ(c.me().seen.messages[0].rank, 12);
}

TEST(silent_lane, peer_ends__its_last_message_comes_first) {
  crowd c;
  c.peer(7).say(0, "last");
  c.peer(7).net->leave();
  c.peer(7).close();
  c.peer(3).close();
  c.wait([&] { return c.me().seen.gone.size() == 2; });
  ASSERT_EQ(c.me().seen.messages.size(), 1u);
  for (const auto& gone : c.me().seen.gone) {
    if (gone.rank == 7) {
      EXPECT_EQ(gone.messages_before, 1u);
    }
  }
  c.peer(12).say(0, "x");
  c.wait([&] { return c.me().seen.messages.size() == 2; });
}

}  // namespace lci::shm
