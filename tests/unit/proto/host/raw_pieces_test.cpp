// Messages of the raw layer that are longer than a send of the network.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lci/proto/host/raw.hpp"
#include "tests/unit/proto/world.hpp"

namespace {

using lci::errorcode_t;
using lci::net_opcode_t;

class raw_pieces : public testing::Test {
 protected:
  explicit raw_pieces(const lci::test::sim_options& options = {}) : w{options, 2} {
    EXPECT_GT(data_.size(), 4 * from_.longest_whole(1)) << "several pieces";
  }
  // The first piece, or as many as it takes for the answer not to be retry.
  errorcode_t send() {
    lci::proto::raw_net::record* const r = from_.make_record(net_opcode_t::SEND, 1, &data_);
    lci::net::net_op op;
    op.rank = 1;
    op.imm = 7;
    op.buffer = data_.data();
    op.size = data_.size();
    errorcode_t code = errorcode_t::retry;
    for (int i = 0; i < lci::test::ROUNDS && lci::error_t(code).is_retry(); ++i) {
      code = from_.send_in_pieces(w[0].queue->end(), op, r);
      if (lci::error_t(code).is_retry()) move(1);
    }
    return code;
  }
  void move(int rounds = lci::test::ROUNDS) {
    for (int i = 0; i < rounds; ++i) {
      poll(from_, sent_);
      poll(to_, received_);
    }
  }
  static void poll(lci::proto::raw_net& one, std::vector<lci::net_status_t>& entries) {
    lci::net_status_t out[4];
    entries.insert(entries.end(), out, out + one.poll(4, out));
  }

  std::vector<std::byte> data_ = lci::test::pattern(1 << 20);
  std::vector<std::byte> into_ = std::vector<std::byte>(data_.size());
  lci::test::proto_world w;
  lci::proto::raw_net from_{w[0].queues->engine()}, to_{w[1].queues->engine()};
  std::vector<lci::net_status_t> sent_, received_;
};

class raw_pieces_in_any_order : public raw_pieces {
 protected:
  static lci::test::sim_options options() {
    lci::test::sim_options out;
    out.caps.ordered = false;
    out.reorder_one_in = 2;
    out.late = true;  // a piece is read after its post
    return out;
  }
  raw_pieces_in_any_order() : raw_pieces(options()) {}
};

TEST_F(raw_pieces_in_any_order, message__is_put_together) {
  to_.post_recv(into_.data(), into_.size(), &into_);
  ASSERT_EQ(send(), errorcode_t::posted);
  move();
  ASSERT_EQ(sent_.size(), 1u);
  EXPECT_EQ(sent_[0].opcode, net_opcode_t::SEND);
  EXPECT_EQ(sent_[0].user_context, &data_);
  ASSERT_EQ(received_.size(), 1u);
  EXPECT_EQ(received_[0].opcode, net_opcode_t::RECV);
  EXPECT_EQ(received_[0].user_context, &into_);
  EXPECT_EQ(received_[0].imm_data, 7u);
  EXPECT_EQ(received_[0].length, data_.size());
  EXPECT_EQ(into_, data_);
}

TEST_F(raw_pieces, message__waits_for_its_receive) {
  ASSERT_EQ(send(), errorcode_t::posted);
  move();
  EXPECT_TRUE(received_.empty());
  to_.post_recv(into_.data(), into_.size(), nullptr);
  move();
  EXPECT_EQ(received_.size(), 1u);
  EXPECT_EQ(into_, data_);
}

TEST_F(raw_pieces, further_send__waits_for_the_last_piece) {
  EXPECT_FALSE(from_.has_pieces_for(1));
  ASSERT_EQ(send(), errorcode_t::posted);
  EXPECT_TRUE(from_.has_pieces_for(1));
  EXPECT_FALSE(from_.has_pieces_for(0));
  to_.post_recv(into_.data(), into_.size(), nullptr);
  move();
  EXPECT_FALSE(from_.has_pieces_for(1));
}

TEST_F(raw_pieces, end_of_the_receiver__is_an_error_of_the_send) {
  ASSERT_EQ(send(), errorcode_t::posted);
  w.sim.kill(1);
  for (int i = 0; i < lci::test::ROUNDS; ++i) poll(from_, sent_);
  EXPECT_EQ(std::count_if(sent_.begin(), sent_.end(),
                          [this](const auto& one) {
                            return one.opcode == net_opcode_t::ERROR && one.rank == 1 &&
                                   one.user_context == &data_;
                          }),
            1);
}

TEST_F(raw_pieces, end_of_the_sender__is_an_error_of_the_receive) {
  to_.post_recv(into_.data(), into_.size(), &into_);
  ASSERT_EQ(send(), errorcode_t::posted);
  for (int i = 0; i < lci::test::ROUNDS; ++i) poll(to_, received_);
  EXPECT_TRUE(received_.empty()) << "pieces are missing";
  w.sim.kill(0);
  for (int i = 0; i < lci::test::ROUNDS; ++i) poll(to_, received_);
  EXPECT_EQ(std::count_if(received_.begin(), received_.end(),
                          [this](const auto& one) {
                            return one.opcode == net_opcode_t::ERROR && one.rank == 0 &&
                                   one.user_context == &into_;
                          }),
            1);
}

}  // namespace
