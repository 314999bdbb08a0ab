// Messages of the protocols find their handlers.
#include "lci/proto/engine/control_dispatch.hpp"

#include <gtest/gtest.h>

#include <new>

using lci::net::verdict;
namespace wire = lci::proto::wire;

namespace {

struct listener {
  void on_ack(int from, const wire::ack& body) {
    rank = from;
    name = body.sender;
  }
  verdict on_fin(int, const wire::fin&) { return verdict::deferred; }
  void on_rtr(int, const wire::rtr&) { throw std::bad_alloc(); }
  int rank = -1;
  wire::name name;
};

class control_dispatch : public testing::Test {
 protected:
  control_dispatch() {
    to.add<wire::ack, &listener::on_ack>(wire::kind::ack, heard);
    to.add<wire::fin, &listener::on_fin>(wire::kind::fin, heard);
    to.add<wire::rtr, &listener::on_rtr>(wire::kind::rtr, heard);
  }
  template <class Body>
  bool send(std::uint32_t imm, const Body& body, std::size_t size = sizeof(Body)) {
    return to.handle({7, imm, reinterpret_cast<const std::byte*>(&body), size, nullptr}, answer);
  }
  lci::proto::control_dispatch to;
  listener heard;
  verdict answer = verdict::kept;
};

}  // namespace

TEST_F(control_dispatch, handle__kind_with_a_handler_gets_rank_and_body) {
  EXPECT_TRUE(send(wire::kind_imm(wire::kind::ack), wire::ack{{3, 4}}));
  EXPECT_EQ(heard.rank, 7);
  EXPECT_EQ(heard.name.slot, 3u);
  EXPECT_EQ(answer, verdict::taken);
}

TEST_F(control_dispatch, handle__the_handler_says_what_becomes_of_the_message) {
  EXPECT_TRUE(send(wire::kind_imm(wire::kind::fin), wire::fin{}));
  EXPECT_EQ(answer, verdict::deferred);
  EXPECT_THROW(
      send(wire::kind_imm(wire::kind::rtr), wire::rtr{}, sizeof(wire::rtr) - sizeof(wire::target)),
      std::bad_alloc);
}

TEST_F(control_dispatch, handle__what_nobody_has_asked_for_or_does_not_parse_is_not_taken) {
  EXPECT_FALSE(send(wire::kind_imm(wire::kind::piece), wire::piece{}));
  EXPECT_FALSE(send(wire::kind_imm(wire::kind::ack), wire::ack{}, sizeof(wire::ack) - 1));
  // Kinds that there are not, up to the largest that can be written.
  EXPECT_FALSE(send(wire::MORE << 28 | (wire::KINDS - wire::FIRST_OF_MORE), wire::ack{}));
  EXPECT_FALSE(send(wire::MORE << 28 | 0x0fffffffu, wire::ack{}));
  EXPECT_FALSE(send(7u << 28, wire::ack{}));
  EXPECT_EQ(heard.rank, -1);
}
