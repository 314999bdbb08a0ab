// Sends, immediate data and atomic operations between two ranks, each with a card in software.
#include "lci/device/net_exchange.hpp"

#include <gtest/gtest.h>

#include "lci/device/net_world.hpp"
#include "tests/contract/group.hpp"
#include "tests/support/device_code/wqe_inputs.hpp"
#include "tests/support/failing_new/each_allocation.hpp"
#include "tests/support/sim/sim.hpp"
#include "tests/unit/device/message.hpp"
#include "tests/unit/device/pair.hpp"

namespace {

using namespace lci::device;
using namespace lci::test;
using lci::wqe::cqe_opcode;
using lci::wqe::opcode;
using lci::wqe::status;
using lci::wqe::syndrome;
namespace net = lci::net;
namespace wqe = lci::wqe;

// Rank 0 posts; rank 1 has the receives and the memory of its own pair.
class net_exchange_test : public testing::TestWithParam<int> {
 protected:
  net_exchange_test() {
    sim_options o{.packets = sim_packets::own, .depth = 4};
    if (GetParam() == 1) {
      o.late = true;
      o.refuse_one_in = 3;
      o.max_delay_polls = 4;
      o.connect_polls = 5;
    }
    auto world = std::make_shared<sim_world>(2, o);
    ranks_ = std::make_unique<group>(
        2, 1, [world](int rank, const net::fabric_config& c) { return world->open(rank, c); });
    name_ = ranks_->at(1).expose(there_.remote.data(), there_.remote.size());
    ranks_->learn(0, 1, name_);
    for (int rank : {0, 1}) {
      exchanges_[rank] = std::make_unique<net_exchange>(
          ranks_->at(rank).to(), ranks_->caps().max_inject, rank == 0 ? here_.keys : there_.keys);
      ranks_->at(rank).seen().on_arrival = [this, rank](const net::arrival& m) {
        return exchanges_[rank]->on_message(m);
      };
    }
    exchanges_[1]->add(pair::PEER, *there_.peer);
    beyond_ = std::make_unique<net_world>(
        ranks_->at(0).to(), peer_queue{1, pair::QPN, pair::PEER}, ranks_->caps().max_rma,
        net_fate{&fate_, &fate_.completed, &fate_.failed}, exchanges_[0].get());
    rkey_ = beyond_->add({name_, there_.remote.address(), there_.remote.size(),
                          REMOTE_READ | REMOTE_WRITE | REMOTE_ATOMIC, there_.rkey});
    card_ = std::make_unique<card_queue>(here_.options, here_.keys, *beyond_);
    for (std::size_t i = 0; i < here_.local.size(); ++i)
      here_.local.data()[i] = static_cast<std::byte>(i * 7 + 1);
  }
  ~net_exchange_test() override {
    card_.reset();
    beyond_.reset();
    ranks_->at(1).hide(name_);
    ranks_.reset();
    EXPECT_TRUE(here_.is_whole());
    EXPECT_TRUE(there_.is_whole());
  }

  status post(wqe::send_request r, std::uint64_t at, std::uint64_t length, std::uint64_t to = 0) {
    const wqe::sge one = here_.entry(at, length);
    r.entries = &one;
    r.entry_count = length != 0;
    r.raddr = there_.remote.address() + to;
    r.rkey = rkey_;
    std::uint64_t end = 0;
    return wqe::post(here_.queue, r, &end);
  }
  void step() {
    card_->progress_st();
    for (auto& e : exchanges_) e->progress_st();
  }
  wqe::completion completed(status expected = status::ok) {
    wqe::completion c;
    status s = status::nothing;
    EXPECT_TRUE(ranks_->until(
        [&] {
          step();
          s = here_.poll(&c);
          return s != status::nothing;
        },
        "a completion"));
    EXPECT_EQ(s, expected);
    return c;
  }
  wqe::completion received(status expected = status::ok) {
    wqe::completion c;
    EXPECT_EQ(there_.poll_receive(&c), expected);
    return c;
  }

  pair here_, there_;
  op_fate fate_;
  std::unique_ptr<group> ranks_;
  net::remote_key name_;
  std::unique_ptr<net_exchange> exchanges_[2];
  std::unique_ptr<net_world> beyond_;
  std::unique_ptr<card_queue> card_;
  std::uint32_t rkey_ = 0;
};

TEST_P(net_exchange_test, send__every_size_up_to_many_parts) {
  for (std::uint64_t size : {0u, 1u, 31u, 32u, 33u, 100u, 4000u}) {
    there_.post_receive(0, 4096);
    wqe::send_request r = request_for(opcode::send_imm);
    r.imm = static_cast<std::uint32_t>(size) + 5;
    r.solicited = true;
    ASSERT_EQ(post(r, 8, size), status::ok);
    completed();
    const wqe::completion c = received();
    EXPECT_EQ(c.kind, cqe_opcode::resp_send_imm);
    EXPECT_EQ(c.imm, size + 5);
    EXPECT_EQ(c.byte_count, size);
    EXPECT_EQ(c.source_qp, pair::QPN);
    EXPECT_TRUE(c.solicited);
    EXPECT_EQ(std::memcmp(there_.landing.data(), here_.local.data() + 8, size), 0);
  }
}

TEST_P(net_exchange_test, send__waits_for_a_receive) {
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  wqe::completion c;
  for (int i = 0; i < 200; ++i) {
    step();
    ranks_->poll();
  }
  EXPECT_EQ(here_.poll(&c), status::nothing);
  there_.post_receive(0, 128);
  completed();
  EXPECT_EQ(received().byte_count, 100u);
}

TEST_P(net_exchange_test, write_imm__the_data_is_there_when_it_is_told) {
  there_.post_receive(0, 8);
  wqe::send_request r = request_for(opcode::rdma_write_imm);
  r.imm = 77;
  ASSERT_EQ(post(r, 0, 1000, 16), status::ok);
  wqe::completion c;
  ASSERT_TRUE(ranks_->until(
      [&] {
        step();
        return there_.poll_receive(&c) == status::ok;
      },
      "the notice"));
  EXPECT_EQ(std::memcmp(there_.remote.data() + 16, here_.local.data(), 1000), 0);
  EXPECT_EQ(c.kind, cqe_opcode::resp_write_imm);
  EXPECT_EQ(c.imm, 77u);
  EXPECT_EQ(c.byte_count, 1000u);
  completed();
  // Without data, as a notice alone.
  there_.post_receive(0, 8);
  ASSERT_EQ(post(r, 0, 0), status::ok);
  completed();
  EXPECT_EQ(received().byte_count, 0u);
}

TEST_P(net_exchange_test, atomic__both_widths_and_what_was_there) {
  const auto apply = [&](opcode op, const wqe::atomic_operands& with) {
    wqe::send_request r = request_for(op);
    r.atomic = with;
    EXPECT_EQ(post(r, 64, with.size, 8), status::ok);
    completed();
    std::uint64_t old = 0;
    std::memcpy(&old, here_.local.data() + 64, with.size);
    return old;
  };
  std::uint64_t now = 5;
  std::memcpy(there_.remote.data() + 8, &now, 8);
  EXPECT_EQ(apply(opcode::atomic_fa, {std::uint64_t{1} << 40, 0, 0, 0, 8}), 5u);
  EXPECT_EQ(apply(opcode::atomic_cs, {9, 0, 0, 0, 8}), (std::uint64_t{1} << 40) + 5);
  EXPECT_EQ(apply(opcode::atomic_masked_fa, {2, 0, 0, 0, 4}), 5u);
  std::memcpy(&now, there_.remote.data() + 8, 8);
  EXPECT_EQ(now, (std::uint64_t{1} << 40) + 7);
}

TEST_P(net_exchange_test, send_inval__takes_the_key_back) {
  there_.post_receive(0, 64);
  wqe::send_request r = request_for(opcode::send_inval);
  r.imm = there_.rkey;
  ASSERT_EQ(post(r, 0, 8), status::ok);
  completed();
  const wqe::completion c = received();
  EXPECT_EQ(c.kind, cqe_opcode::resp_send_inv);
  EXPECT_EQ(c.imm, there_.rkey);
  ASSERT_EQ(post(request_for(opcode::atomic_fa), 64, 8, 8), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_access);
}

TEST_P(net_exchange_test, errors__of_the_peer_come_back_with_their_syndrome) {
  there_.post_receive(0, 4);
  ASSERT_EQ(post(request_for(opcode::send), 0, 8), status::ok);
  ASSERT_EQ(post(request_for(opcode::send), 0, 8), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_invalid_request);
  EXPECT_EQ(completed(status::failed).error, syndrome::flushed);
  EXPECT_EQ(received(status::failed).error, syndrome::local_length);
}

TEST_P(net_exchange_test, errors__write_imm_to_a_receiver_that_failed_ends) {
  there_.post_receive(0, 64);
  there_.post_receive(0, 64);
  const local_piece long_one{here_.local.data(), 65};
  EXPECT_EQ(there_.peer->take(opcode::send, {&long_one, 1, 65}, 0, 1000, false).what,
            outcome::failed);
  ASSERT_EQ(post(request_for(opcode::rdma_write_imm), 0, 8), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::retry_exceeded);
}

TEST_P(net_exchange_test, errors__the_peers_key_was_taken_back) {
  there_.keys.remove(there_.rkey);
  wqe::send_request r = request_for(opcode::atomic_fa);
  ASSERT_EQ(post(r, 64, 8, 8), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_access);
}

TEST_P(net_exchange_test, on_peer_ended__ends_what_waits) {
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  for (int i = 0; i < 50; ++i) step();
  exchanges_[0]->on_peer_ended(1);
  exchanges_[1]->on_peer_ended(0);
  EXPECT_EQ(completed(status::failed).error, syndrome::retry_exceeded);
}

// Whatever arrives: nothing is written but what entries and keys name, and real requests go on.
TEST_P(net_exchange_test, on_message__garbage_is_dropped) {
  random_numbers random(1, 1);
  int delivered = 0;
  const auto keep_receives = [&] {
    wqe::completion c;
    while (there_.poll_receive(&c) == status::ok) ++delivered;
    while (there_.receives - there_.recv_consumed < 12) there_.post_receive(0, 4096);
  };
  for (int i = 0; i < 20000; ++i) {
    keep_receives();
    std::uint32_t words[16];
    for (std::uint32_t& w : words)
      w = random.below(3) == 0 ? static_cast<std::uint32_t>(random.next()) : random.below(200);
    words[0] = 0x4c435158 + random.below(3);
    words[1] = random.below(64);
    if (random.below(2) == 0) words[2] = pair::PEER;
    words[3] = 1000 + random.below(4);  // of queues that there are not
    net::arrival a;
    a.rank = static_cast<int>(random.below(2));
    a.data = reinterpret_cast<const std::byte*>(words);
    a.size = random.below(sizeof(words) + 1);
    if (a.size >= 32 && random.below(2) == 0) {  // of one part, and often new
      words[1] = static_cast<std::uint32_t>(opcode::rdma_write_imm) + random.below(3);
      words[5] = static_cast<std::uint32_t>(a.size - 32);
      words[6] = 0;
      words[7] = static_cast<std::uint32_t>(random.next());
    }
    for (std::uint32_t& w : words) w = wqe::be32(w);
    if (i % 8 == 0) {
      step();
      ranks_->poll();
    }
    EXPECT_EQ(exchanges_[1]->on_message(a), net::verdict::taken);
  }
  EXPECT_TRUE(there_.is_whole());
  for (std::size_t i = 0; i < there_.remote.size(); ++i)
    ASSERT_EQ(there_.remote.data()[i], std::byte{0});
  keep_receives();  // more than there are queues that may still wait for one
  EXPECT_GT(delivered, 100);
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  completed();
}

// Memory for what strangers begin is bounded; what is known goes on.
TEST_P(net_exchange_test, on_message__more_senders_than_there_may_be) {
  there_.post_receive(0, 128);
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  completed();
  for (std::uint32_t qpn = 1; qpn <= 2 * net_exchange::MAX_SENDERS; ++qpn) {
    const message m(opcode::send, 0x10000 + qpn, 1, 64);
    ASSERT_EQ(exchanges_[1]->on_message(m.arrives()), net::verdict::taken);
  }
  EXPECT_EQ(exchanges_[1]->senders(), net_exchange::MAX_SENDERS);
  there_.post_receive(0, 128);
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  completed();
}

// Whichever allocation fails, a request is delivered once: also if the thread that drives the cards
// comes between a message and its repetition. Without memory for its answer it waits.
TEST_P(net_exchange_test, on_message__each_allocation_fails_in_turn) {
  constexpr std::uint32_t STRANGER = 1000;
  for_each_allocation([&](std::uint64_t n) {
    std::uint32_t ticket = 0;
    bool has_failed = false;
    constexpr std::uint32_t REQUESTS = 64;  // so many that some answers need memory
    for (std::uint32_t i = 0; i < REQUESTS; ++i) {
      there_.post_receive(0, 128);
      there_.post_receive(0, 128);  // for what would come twice
      message m(opcode::send, STRANGER, ++ticket, 4);
      std::uint64_t calls = 0;
      net::verdict v;
      {
        fail_nth_new fail(has_failed ? 0 : n);
        v = exchanges_[1]->on_message(m.arrives());
        has_failed = has_failed || fail.fired();
        calls = fail.count();
      }
      if (!has_failed) n -= calls;
      exchanges_[1]->progress_st();
      if (v == net::verdict::deferred) exchanges_[1]->on_message(m.arrives());
      exchanges_[1]->progress_st();
      received();
      wqe::completion c;
      EXPECT_EQ(there_.poll_receive(&c), status::nothing);
      // The other receive is used up by an own message.
      exchanges_[1]->on_message(message(opcode::send, STRANGER, ++ticket, 4).arrives());
      exchanges_[1]->progress_st();
      received();
    }
    exchanges_[1]->on_peer_ended(0);  // it forgets the answers
    return has_failed;
  });
}

// Whose queue is one too many is told so.
TEST_P(net_exchange_test, on_message__a_sender_that_is_refused_is_answered) {
  for (std::uint32_t i = 0; i < net_exchange::MAX_SENDERS; ++i)
    exchanges_[1]->on_message(message(opcode::send, 0x10000 + i, 1, 64).arrives());
  ASSERT_EQ(exchanges_[1]->senders(), net_exchange::MAX_SENDERS);
  there_.post_receive(0, 128);
  ASSERT_EQ(post(request_for(opcode::send), 0, 100), status::ok);
  EXPECT_EQ(completed(status::failed).error, syndrome::remote_operation);
  wqe::completion c;
  EXPECT_EQ(there_.poll_receive(&c), status::nothing);
}

INSTANTIATE_TEST_SUITE_P(sim, net_exchange_test, testing::Values(0, 1),
                         [](const auto& which) { return which.param == 0 ? "plain" : "late"; });

}  // namespace
