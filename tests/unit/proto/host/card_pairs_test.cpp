#include "lci/proto/host/card_pairs.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/proto/world.hpp"

namespace lci::proto {
namespace {

using wire::card_matter;
using wire::card_result;

struct pairs_world : test::proto_world {
  using proto_world::proto_world;
  card_pairs& of(int rank) { return (*this)[rank].queues->pairs; }
  std::int64_t dropped(int rank) {
    return static_cast<std::int64_t>((*this)[rank].queues->engine().dropped.sum());
  }
  void ask(card_question& one, card_matter what, int to = 1) {
    one.rank = to;
    one.ask.matter = what;
    errorcode_t code;
    while (is_retry(code = of(0).start(one))) step(1);
    ASSERT_EQ(code, errorcode_t::posted);
  }
  void finish(card_question& one) {
    for (int i = 0; one.now() == card_question::waiting && i < 20 * test::ROUNDS; ++i) step(1);
  }
  template <class Body>
  void forge(wire::kind what, const Body& body) {
    (*this)[0].queues->engine().control.accept_control(1, what, body);
    step(10);
  }
};

// The fake network drives none.
TEST(card_pairs, no_card_there__is_an_answer) {
  pairs_world w;
  for (const card_matter what : {card_matter::pair, card_matter::key}) {
    card_question one;
    w.ask(one, what);
    w.finish(one);
    ASSERT_EQ(one.now(), card_question::answered);
    EXPECT_EQ(one.answer.result, card_result::no_card);
    EXPECT_FALSE(text_of(one.answer.result).empty());
  }
  EXPECT_EQ(w.of(1).count(), 0u);
}

TEST(card_pairs, cancel__the_answer_finds_nobody) {
  pairs_world w;
  {
    card_question one;
    w.ask(one, card_matter::pair);
    w.of(0).cancel(one);
    EXPECT_EQ(one.now(), card_question::idle);
  }
  const std::int64_t before = w.dropped(0);
  w.step(20);
  EXPECT_EQ(w.dropped(0), before + 1);
}

TEST(card_pairs, a_peer_that_dies__ends_the_question) {
  pairs_world w;
  card_question one;
  w.ask(one, card_matter::pair);
  w.finish(one);  // they have met
  card_question late;
  w.ask(late, card_matter::pair);
  w.sim.kill(1);
  for (int i = 0; late.now() == card_question::waiting && i < 20 * test::ROUNDS; ++i) w.step(1);
  EXPECT_NE(late.now(), card_question::waiting);
  card_question after;
  after.rank = 1;
  for (int i = 0; i < test::ROUNDS; ++i) w.step(1);
  EXPECT_EQ(w.of(0).start(after), errorcode_t::fatal);
}

TEST(card_pairs, forged_ends_and_answers__find_nothing) {
  pairs_world w;
  card_question one;
  w.ask(one, card_matter::pair);
  w.finish(one);
  std::int64_t before = w.dropped(1);
  wire::card_ask end;
  end.matter = card_matter::end;
  end.about = {3, 5};
  w.forge(wire::kind::card_ask, end);
  EXPECT_EQ(w.dropped(1), ++before);
  wire::card_answer answer;
  answer.requester = {0, 1};
  w.forge(wire::kind::card_answer, answer);
  EXPECT_EQ(w.dropped(1), ++before);
}

}  // namespace
}  // namespace lci::proto
