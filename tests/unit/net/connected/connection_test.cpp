#include "lci/net/connected/connection.hpp"

#include <gtest/gtest.h>

#include "lci/net/peer_table.hpp"

namespace lci::net::connected {
namespace {

using stage = connection::stage;

TEST(connection, move__forward_only) {
  connection on(1);
  EXPECT_EQ(on.state(), stage::calling);
  EXPECT_EQ(on.refusal(), errorcode_t::retry_nomem);
  EXPECT_TRUE(on.move(stage::left));
  EXPECT_FALSE(on.move(stage::ready));
  EXPECT_FALSE(on.move(stage::left));
  EXPECT_EQ(on.refusal(), errorcode_t::fatal);
}

TEST(connection, report_to__that_it_calls_and_that_it_is_ready) {
  peer_table peers(2);
  connection on(1);
  on.report_to(&peers);
  EXPECT_EQ(peers.state(1), peer_state::connecting);
  on.move(stage::ready);
  EXPECT_EQ(peers.state(1), peer_state::ready);
}

TEST(connection, is_known_failed__when_anybody_has_reported_it) {
  peer_table peers(2);
  connection on(1), alone(1);
  on.report_to(&peers);
  EXPECT_FALSE(on.is_known_failed());
  peers.report(1, peer_event::leave, "it has left another network");
  EXPECT_FALSE(on.is_known_failed());
  peers.report(1, peer_event::fail, "it died");
  EXPECT_TRUE(on.is_known_failed());
  EXPECT_FALSE(alone.is_known_failed()) << "without a table";
}

}  // namespace
}  // namespace lci::net::connected
