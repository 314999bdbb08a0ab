// What tests of wrong arguments share: a typed error whose text has the value and what would be
// legal, thrown by the call that made the mistake; and afterwards nothing is lost or changed, which
// every test proves by sending a message.
#pragma once

#include <initializer_list>
#include <string>

#include "world.hpp"

namespace interface_test {

using lci::argument_error;

class bad_input : public testing::Test {
 protected:
  // Everything still works, and nothing came of the wrong call.
  void TearDown() override {
    int value = world().rank;
    char got[64] = {};
    owned_comp cq(lci::alloc_cq());
    insist(lci::post_send_x(world().next(), &value, sizeof value, TAG, lci::COMP_NULL)
               .device(world().device));
    lci::status_t status;
    // The wildcard also takes what the wrong call may have sent, so that it harms no later test.
    do {
      lci::post_recv_x(lci::ANY_SOURCE, got, sizeof got, lci::ANY_TAG, cq)
          .device(world().device)
          .allow_done(false)();
      status = pop(cq);
      EXPECT_EQ(status.tag, TAG) << "the wrong call sent something";
    } while (status.tag != TAG);
    EXPECT_EQ(status.rank, world().previous());
    EXPECT_TRUE(stays_empty(cq_)) << "the wrong call signalled something";
    EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_done())
        << "the wrong call left something open";
    barrier();
  }

  // The call throws argument_error, and each of `parts` is in the text.
  template <class Action>
  static void refused(Action action, std::initializer_list<std::string> parts) {
    const std::string text = text_thrown<argument_error>(action);
    EXPECT_NE(text, "nothing thrown");
    EXPECT_EQ(text.find("another type"), std::string::npos) << text;
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
  static std::string last_rank() { return std::to_string(world().n - 1); }

  static constexpr lci::tag_t TAG = 12;
  owned_comp cq_{lci::alloc_cq()};
  char buffer_[64] = {};
};

}  // namespace interface_test
