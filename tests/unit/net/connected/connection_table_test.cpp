#include "lci/net/connected/connection_table.hpp"

#include <gtest/gtest.h>

#include "lci/net/connected/connection.hpp"
#include "lci/net/peer_table.hpp"

namespace lci::net::connected {
namespace {

using stage = connection::stage;

class open_table : public connection_table<connection> {
 public:
  using connection_table::add;
  using connection_table::are_all;
  using connection_table::connection_table;
  using connection_table::unreached;
};

class connection_table_test : public testing::Test {
 protected:
  connection& add(int rank) { return table_.add(std::make_unique<connection>(rank)); }
  errorcode_t answer(int rank) {
    errorcode_t code{};
    EXPECT_EQ(table_.ready(rank, code), nullptr);
    return code;
  }

  attention polls_;
  connect_requests requests_{polls_};
  std::atomic<const char*> failure_{nullptr};
  peer_table peers_{4};
  open_table table_{4, requests_, &failure_, &peers_};
};

TEST_F(connection_table_test, ready__where_there_is_none_asks_for_it_once) {
  EXPECT_EQ(answer(2), errorcode_t::retry_nomem);
  EXPECT_TRUE(requests_.take());
  EXPECT_EQ(answer(2), errorcode_t::retry_nomem);
  EXPECT_FALSE(polls_.is_due());
  EXPECT_EQ(table_.take_pending(), std::vector<int>{2});
  EXPECT_EQ(answer(-1), errorcode_t::fatal);
  EXPECT_EQ(answer(4), errorcode_t::fatal);
  EXPECT_TRUE(table_.take_pending().empty());
}

TEST_F(connection_table_test, ready__says_what_the_stage_says) {
  connection& on = add(1);
  EXPECT_EQ(table_.find(1), &on);
  EXPECT_EQ(answer(1), errorcode_t::retry_nomem);
  EXPECT_TRUE(on.move(stage::ready));
  errorcode_t code{};
  EXPECT_EQ(table_.ready(1, code), &on);
  EXPECT_TRUE(on.move(stage::failed));
  EXPECT_EQ(answer(1), errorcode_t::fatal);
  EXPECT_FALSE(on.move(stage::left)) << "only forward";
  EXPECT_FALSE(requests_.take()) << "nobody asks for what there is";
}

TEST_F(connection_table_test, connection__reports_that_it_is_made_and_that_it_is_ready) {
  EXPECT_EQ(peers_.state(1), peer_state::unknown);
  connection& on = add(1);
  EXPECT_EQ(peers_.state(1), peer_state::connecting);
  EXPECT_TRUE(on.move(stage::ready));
  EXPECT_EQ(peers_.state(1), peer_state::ready);
  // That the rank has ended the sink reports, when all of it is delivered.
  EXPECT_TRUE(on.move(stage::failed));
  EXPECT_EQ(peers_.state(1), peer_state::ready);
  EXPECT_EQ(peers_.state(0), peer_state::unknown);
}

TEST_F(connection_table_test, give_up__refused_once_the_sink_has_heard_why) {
  table_.give_up(3, "there is no memory");
  EXPECT_EQ(answer(3), errorcode_t::retry_nomem);
  EXPECT_FALSE(requests_.take()) << "it is not asked for any more";
  table_.unreached().set_told(3);
  EXPECT_EQ(answer(3), errorcode_t::fatal);
}

TEST_F(connection_table_test, request__while_nobody_can_be_connected_any_more) {
  failure_.store("the card failed", std::memory_order_relaxed);
  EXPECT_EQ(answer(2), errorcode_t::retry_nomem);
  EXPECT_FALSE(requests_.take());
  EXPECT_TRUE(table_.unreached().has(2));
}

TEST_F(connection_table_test, are_all__those_that_there_are) {
  const auto is_low = [](const connection& on) { return on.rank < 2; };
  EXPECT_TRUE(table_.are_all(is_low));
  add(1);
  EXPECT_TRUE(table_.are_all(is_low));
  add(3);
  EXPECT_FALSE(table_.are_all(is_low));
}

}  // namespace
}  // namespace lci::net::connected
