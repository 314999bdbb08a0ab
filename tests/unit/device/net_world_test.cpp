// The card in software over networks of lci: the fake one in several shapes, and shared memory.
#include "lci/device/net_world.hpp"

#include <gtest/gtest.h>

#include "backends/shm/select.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/sim/sim.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::opcode;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace net = lci::net;
namespace wqe = lci::wqe;

std::unique_ptr<group> over_sim(const sim_options& options) {
  auto world = std::make_shared<sim_world>(2, options);
  return std::make_unique<group>(
      2, 1, [world](int rank, const net::fabric_config& c) { return world->open(rank, c); });
}

sim_options late() {
  sim_options o{.packets = sim_packets::own, .depth = 4, .late = true, .connect_polls = 5};
  o.caps.max_rma = 64;
  o.refuse_one_in = 3;
  return o;
}

// Rank 0 has the queue and the card, rank 1 the memory.
class net_world_test : public testing::Test {
 protected:
  void make(std::unique_ptr<group> ranks) {
    ranks_ = std::move(ranks);
    name_ = ranks_->at(1).expose(memory_.data(), memory_.size());
    ranks_->learn(0, 1, name_);
    beyond_ = std::make_unique<net_world>(ranks_->at(0).to(), peer_queue{1, pair::QPN, pair::PEER},
                                          ranks_->caps().max_rma,
                                          net_fate{&fate_, &fate_.completed, &fate_.failed});
    rkey_ = beyond_->add({name_, memory_.address(), memory_.size()});
    card_ = std::make_unique<card_queue>(p_.options, p_.keys, *beyond_);
    for (std::size_t i = 0; i < p_.local.size(); ++i)
      p_.local.data()[i] = static_cast<std::byte>(i * 7 + 1);
  }
  void TearDown() override {
    card_.reset();
    beyond_.reset();
    if (ranks_) ranks_->at(1).hide(name_);
    ranks_.reset();
    EXPECT_TRUE(p_.is_whole());
    EXPECT_TRUE(memory_.is_whole());
  }
  status post(opcode op, std::uint64_t at, std::uint64_t length, std::uint64_t to) {
    const wqe::sge one = p_.entry(at, length);
    wqe::send_request r = request_for(op);
    r.entries = &one;
    r.entry_count = 1;
    r.raddr = memory_.address() + to;
    r.rkey = rkey_;
    if (is_atomic(op)) r.atomic.swap_add = 1;
    return wqe::post(p_.queue, r, &end_);
  }
  // The next completion, while card and network go on.
  wqe::completion completed(status expected) {
    wqe::completion c;
    status s = status::nothing;
    EXPECT_TRUE(ranks_->until(
        [&] {
          card_->progress_st();
          s = p_.poll(&c);
          return s != status::nothing;
        },
        "a completion"));
    EXPECT_EQ(s, expected);
    return c;
  }
  void write_and_read() {
    for (std::uint64_t size : {1u, 8u, 63u, 64u, 65u, 1000u, 1500u}) {
      ASSERT_EQ(post(opcode::rdma_write, 8, size, 16), status::ok);
      ASSERT_EQ(post(opcode::rdma_read, 2048, size, 16), status::ok);
      completed(status::ok);
      EXPECT_EQ(std::memcmp(memory_.data() + 16, p_.local.data() + 8, size), 0);
      EXPECT_EQ(completed(status::ok).byte_count, size);
      EXPECT_EQ(std::memcmp(p_.local.data() + 2048, p_.local.data() + 8, size), 0);
    }
  }

  pair p_;
  guarded memory_{4096};
  op_fate fate_;
  std::unique_ptr<group> ranks_;
  net::remote_key name_;
  std::uint32_t rkey_ = 0;
  std::uint64_t end_ = 0;
  std::unique_ptr<net_world> beyond_;
  std::unique_ptr<card_queue> card_;
};

TEST_F(net_world_test, write_and_read__fake_network) {
  make(over_sim({}));
  write_and_read();
}

// Completions come late, pieces are longer than a put may be, and the network refuses one in three.
TEST_F(net_world_test, write_and_read__late_short_and_refusing) {
  make(over_sim(late()));
  write_and_read();
}

TEST_F(net_world_test, write_and_read__shared_memory) {
  make(std::make_unique<group>(
      2, 1, [](int, const net::fabric_config& config) { return lci::shm::PROVIDER.open(config); }));
  write_and_read();
}

TEST_F(net_world_test, begin__keys_and_bounds_of_the_peer) {
  struct wrong {
    std::uint32_t key_change;
    std::int64_t move;
    opcode op;
    syndrome expected;
  };
  const wrong all[] = {{1, 0, opcode::rdma_write, syndrome::remote_access},
                       {0xffff0000, 0, opcode::rdma_read, syndrome::remote_access},
                       {0, -1, opcode::rdma_write, syndrome::remote_access},
                       {0, 4096 - 7, opcode::rdma_read, syndrome::remote_access},
                       {0, 0, opcode::atomic_fa, syndrome::local_qp_operation},
                       {0, 0, opcode::send, syndrome::local_qp_operation},
                       {0, 0, opcode::rdma_write_imm, syndrome::local_qp_operation}};
  make(over_sim({}));
  for (const wrong& w : all) {
    const local_piece piece{p_.local.data(), 8};
    const local_data data{&piece, 1, 8};
    const remote_place place{memory_.address() + static_cast<std::uint64_t>(w.move),
                             rkey_ ^ w.key_change};
    const answer a = is_atomic(w.op)             ? beyond_->atomic(w.op, {}, place, p_.local.data())
                     : w.op == opcode::rdma_read ? beyond_->get(place, data)
                     : w.op == opcode::send      ? beyond_->send(w.op, data, 0, false)
                                                 : beyond_->put(w.op, data, place, 0, false);
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, w.expected);
  }
  for (std::size_t i = 0; i < memory_.size(); ++i) ASSERT_EQ(memory_.data()[i], std::byte{0});
}

// The peer has taken its memory back: the network says so, and the rest is flushed.
TEST_F(net_world_test, poll__what_the_network_fails_ends_with_an_error) {
  make(over_sim(late()));
  ranks_->at(1).hide(name_);
  ASSERT_EQ(post(opcode::rdma_write, 0, 8, 0), status::ok);
  ASSERT_EQ(post(opcode::rdma_write, 0, 8, 0), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_operation);
  EXPECT_EQ(completed(status::failed).error, syndrome::flushed);
  name_ = ranks_->at(1).expose(memory_.data(), memory_.size());  // for the end
}

}  // namespace
