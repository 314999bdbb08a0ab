// What the raw layer makes of the end of a peer.
#include "lci/proto/host/raw.hpp"

#include <gtest/gtest.h>

#include "tests/unit/proto/world.hpp"

namespace {

using lci::net::peer_state;

// Polls of rank 0 until all that is on its way must have come.
std::vector<lci::net_status_t> entries_of(lci::proto::raw_net& raw) {
  std::vector<lci::net_status_t> entries;
  for (int i = 0; i < lci::test::ROUNDS; ++i) {
    lci::net_status_t out[4];
    entries.insert(entries.end(), out, out + raw.poll(4, out));
  }
  return entries;
}

class raw_end : public testing::Test {
 protected:
  // The network tells of the end of those it has been in contact with.
  raw_end() {
    char byte = 0;
    EXPECT_EQ(w[0].queue->end().send_inline(1, 0, nullptr, 0, &byte, 1), lci::errorcode_t::done);
  }

  lci::test::proto_world w{{}, 2};
  lci::proto::raw_net raw_{w[0].queues->engine()};
};

TEST_F(raw_end, of_a_peer_that_leaves__is_known_to_the_runtime) {
  w[1].fabric->leave();
  EXPECT_TRUE(entries_of(raw_).empty());
  EXPECT_EQ(w[0].core.peers.state(1), peer_state::left);
  EXPECT_TRUE(w[0].queues->engine().watch.has_all_of(1));
}

TEST_F(raw_end, of_a_peer_that_dies__is_an_entry_and_known_to_the_runtime) {
  w.sim.kill(1);
  const std::vector<lci::net_status_t> entries = entries_of(raw_);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].opcode, lci::net_opcode_t::ERROR);
  EXPECT_EQ(entries[0].rank, 1);
  EXPECT_EQ(w[0].core.peers.state(1), peer_state::failed);
}

}  // namespace
