// Answers of net_exchange to a network that does not take all of them.
#include <gtest/gtest.h>

#include "lci/device/net_exchange.hpp"
#include "tests/unit/device/message.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
namespace net = lci::net;

// A network that takes answers to all ranks but those that it refuses.
struct refusing final : net::endpoint {
  lci::errorcode_t send_inline(int rank, std::uint32_t, const void*, std::size_t, const void*,
                               std::size_t) noexcept override {
    if (rank <= last_refused) return lci::errorcode_t::retry_nomem;
    ++taken[rank];
    return lci::errorcode_t::done;
  }
  lci::errorcode_t send(const net::net_op&) noexcept override { return lci::errorcode_t::fatal; }
  lci::errorcode_t put(const net::net_op&) noexcept override { return lci::errorcode_t::fatal; }
  lci::errorcode_t put_imm(const net::net_op&) noexcept override { return lci::errorcode_t::fatal; }
  lci::errorcode_t get(const net::net_op&) noexcept override { return lci::errorcode_t::fatal; }

  int last_refused = -1;
  std::size_t taken[3] = {};
};

TEST(net_exchange, progress_st__a_refused_answer_holds_back_no_other) {
  refusing network;
  key_table keys;
  net_exchange exchange(network, 64, keys);
  std::uint32_t ticket = 0;
  for (int rank : {0, 1, 0, 2})
    exchange.on_message(message(opcode::send, 1000, ++ticket, 4).arrives(rank));
  network.last_refused = 0;
  exchange.progress_st();
  EXPECT_EQ(network.taken[0], 0u);
  EXPECT_EQ(network.taken[1], 1u);
  EXPECT_EQ(network.taken[2], 1u);
  network.last_refused = -1;
  exchange.progress_st();
  exchange.progress_st();
  EXPECT_EQ(network.taken[0], 2u);
  EXPECT_EQ(network.taken[1] + network.taken[2], 2u);
}

// Who asks and takes no answer fills no memory, and what came last is answered when there is room.
TEST(net_exchange, progress_st__more_answers_than_there_may_be) {
  refusing network;
  key_table keys;
  net_exchange exchange(network, 64, keys);
  network.last_refused = 0;
  constexpr std::uint32_t REQUESTS = 2 * net_exchange::MAX_REPLIES;
  for (std::uint32_t ticket = 1; ticket <= REQUESTS; ++ticket)
    exchange.on_message(message(opcode::send, 1000, ticket, 4).arrives());
  exchange.progress_st();
  network.last_refused = -1;
  exchange.progress_st();
  EXPECT_EQ(network.taken[0], net_exchange::MAX_REPLIES);
  exchange.progress_st();
  EXPECT_EQ(network.taken[0], net_exchange::MAX_REPLIES + 1);
}

}  // namespace
