// A card, and how its completion queues are made and polled. Threads: the test's.
#pragma once

#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {

struct kind_of_queue {
  const char* name;
  bool is_asked_for;  // LCI_IBV_EXTENDED_CQ
  bool is_offered;    // by the card
};

class completions_test : public on_a_card, public testing::WithParamInterface<kind_of_queue> {
 protected:
  completions_test() {
    test::fake_ibv_config config;
    config.devices[0].has_extended_queues = GetParam().is_offered;
    card().reset(config);
    environment_.set("LCI_IBV_EXTENDED_CQ", GetParam().is_asked_for ? "1" : "0");
  }
  static std::string poll_call() {
    return GetParam().is_asked_for && GetParam().is_offered ? "start_poll" : "poll_cq";
  }
};

}  // namespace lci::ibv
