// Every order in which two sides can send, spin, fall asleep and hear each other, up to a number of
// steps: nobody sleeps over a notification.
#include "lci/transport/doorbell.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>

#include "tests/support/sanitized.hpp"

namespace lci::transports {
namespace {

struct side {
  doorbell bell;
  std::deque<lci::transports::bell> told;  // on the way to this side
  int notes = 0;                           // on the way to this side's device
  int to_send = 0;
  int turns = 0;   // spins left
  int begins = 1;  // bursts left
  bool is_under_way = false;
};

struct world {
  side a, b;
};

// What a side may do, one at a time. False: it cannot be done now.
enum class act { send, begin, end, spin, sleep, hear, poll, count };

bool perform(side& me, side& peer, act what) {
  switch (what) {
    case act::send:
      if (me.to_send == 0) return false;
      --me.to_send;
      me.bell.sent_note();
      ++peer.notes;
      break;
    case act::begin:
      if (me.is_under_way || me.to_send == 0 || me.begins == 0) return false;
      --me.begins;
      me.is_under_way = true;
      me.bell.begin();
      break;
    case act::end:
      if (!me.is_under_way) return false;
      me.is_under_way = false;
      me.bell.end();
      break;
    case act::spin:
      if (me.turns == 0 || me.bell.is_awake()) return false;
      --me.turns;
      me.bell.wake();
      break;
    case act::sleep:
      if (!me.bell.is_awake()) return false;
      me.bell.sleep();
      break;
    case act::hear:
      if (me.told.empty()) return false;
      me.bell.hear(me.told.front());
      me.told.pop_front();
      break;
    case act::poll:
      // Only one that spins, or whose timer fires, looks at its device.
      if (me.notes == 0) return false;
      if (!me.bell.is_awake() && !me.bell.must_poll() && !me.bell.is_falling_asleep()) return false;
      --me.notes;
      me.bell.received_note();
      break;
    case act::count:
      return false;
  }
  if (const auto news = me.bell.to_tell()) peer.told.push_back(*news);
  return true;
}

bool may_sleep(const side& one) {
  return !one.bell.is_awake() && !one.bell.must_poll() && !one.bell.is_falling_asleep();
}

// Where nothing is on its way on the control connections, nobody sleeps over a notification.
bool is_sound(const world& w) {
  if (!w.a.told.empty() || !w.b.told.empty()) return true;
  return !(may_sleep(w.a) && w.a.notes > 0) && !(may_sleep(w.b) && w.b.notes > 0);
}

// All that tells one world from another.
std::string text_of(const side& one) {
  std::string text;
  const auto add = [&](std::uint64_t n) { text += std::to_string(n) + ","; };
  const auto add_bell = [&](const bell& b) {
    add(b.is_under_way), add(b.is_awake), add(b.turn), add(b.heard_turn), add(b.notes);
  };
  for (const auto& each : one.told) add_bell(each);
  text += "|";
  add(static_cast<std::uint64_t>(one.notes)), add(static_cast<std::uint64_t>(one.to_send));
  add(static_cast<std::uint64_t>(one.turns)), add(static_cast<std::uint64_t>(one.begins));
  add(one.is_under_way);
  for (const auto& each : one.bell.states()) add_bell(each);
  add(one.bell.received());
  return text;
}

struct explorer {
  std::set<std::string> seen;
  std::size_t worlds = 0, asleep = 0;
  void go(const world& w) {
    if (!seen.insert(text_of(w.a) + "/" + text_of(w.b)).second) return;
    ++worlds;
    ASSERT_TRUE(is_sound(w)) << text_of(w.a) << "/" << text_of(w.b);
    bool any = false;
    for (int who = 0; who < 2; ++who) {
      for (int what = 0; what < static_cast<int>(act::count); ++what) {
        world next = w;
        side& me = who == 0 ? next.a : next.b;
        side& peer = who == 0 ? next.b : next.a;
        if (!perform(me, peer, static_cast<act>(what))) continue;
        any = true;
        go(next);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    // Nobody can do anything any more: all has arrived, and both sleep.
    if (any) return;
    ++asleep;
    EXPECT_EQ(w.a.notes + w.b.notes, 0);
    EXPECT_TRUE(may_sleep(w.a) && may_sleep(w.b)) << text_of(w.a) << "/" << text_of(w.b);
  }
};

void explore(int to_send, int turns_of_a, int turns_of_b, int back) {
  explorer all;
  world w;
  w.a.to_send = to_send;
  w.b.to_send = back;
  w.a.turns = turns_of_a;
  w.b.turns = turns_of_b;
  if (back != 0) w.b.begins = 0;  // there are enough orders
  all.go(w);
  EXPECT_GT(all.worlds, 10u);
  EXPECT_GT(all.asleep, 0u);
  testing::Test::RecordProperty("worlds", static_cast<int>(all.worlds));
}

TEST(doorbell, last__says_how_many_notifications_were_sent) {
  doorbell sender, receiver;
  receiver.wake();
  sender.hear(*receiver.to_tell());
  sender.begin();
  sender.sent_note();
  sender.to_tell();
  EXPECT_FALSE(sender.to_tell()) << "who is awake is told nothing";
  const bell last = sender.last();
  EXPECT_FALSE(last.is_under_way);
  receiver.hear(last);
  EXPECT_TRUE(receiver.is_missing_notes());
  EXPECT_TRUE(receiver.must_poll());
  receiver.received_note();
  EXPECT_FALSE(receiver.is_missing_notes());
  EXPECT_FALSE(receiver.must_poll());
}

TEST(doorbell, every_order__one_sends_and_the_other_turns) { explore(2, 0, 2, 0); }
// A model in one thread, which takes ten times as long under a sanitizer: one sample is enough
// there.
TEST(doorbell, every_order__both_send_and_turn) {
  if (lci::test::IS_SANITIZED)
    GTEST_SKIP() << "a larger model of one thread, without a sanitizer only";
  explore(1, 1, 1, 1);
}
TEST(doorbell, every_order__the_sender_turns_too) {
  if (lci::test::IS_SANITIZED)
    GTEST_SKIP() << "a larger model of one thread, without a sanitizer only";
  explore(1, 2, 1, 0);
}

TEST(doorbell, a_side_that_is_awake__is_told_nothing) {
  doorbell me, peer;
  peer.wake();
  me.hear(*peer.to_tell());
  EXPECT_FALSE(me.to_tell());
  for (int i = 0; i < 1000; ++i) {
    me.begin();
    me.sent_note();
    me.end();
    EXPECT_FALSE(me.to_tell());
  }
}

TEST(doorbell, a_side_that_sleeps__is_told_once_per_burst) {
  doorbell me;
  me.begin();
  EXPECT_TRUE(me.to_tell());
  for (int i = 0; i < 1000; ++i) {
    me.sent_note();
    EXPECT_FALSE(me.to_tell());
  }
  me.end();
  const auto last = me.to_tell();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->notes, 1000u);
  EXPECT_FALSE(last->is_under_way);
  EXPECT_FALSE(me.to_tell());
}

}  // namespace
}  // namespace lci::transports
