// What do send_inline() and send() answer, and does what they accepted arrive once and unchanged?
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// One message per size has arrived at `to`, in any order, each as it was sent.
void expect_all(group& g, int to, int from, const std::vector<std::size_t>& sizes) {
  ASSERT_TRUE(g.until([&] { return g.at(to).seen().arrived() >= sizes.size(); }, "all sizes"));
  g.settle();
  std::vector<seen_message> seen = g.at(to).seen().messages();
  ASSERT_EQ(seen.size(), sizes.size());
  std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.imm < b.imm; });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(seen[i].imm, static_cast<std::uint32_t>(i));
    EXPECT_EQ(seen[i].rank, from);
    EXPECT_TRUE(seen[i].bytes == pattern(sizes[i], seen[i].imm))
        << "size " << sizes[i] << " came damaged";
  }
  g.at(to).seen().forget();
}

}  // namespace

TEST_P(backend_contract, caps__are_what_the_layers_above_rely_on) {
  group& g = open();
  EXPECT_GE(g.caps().max_inject, 64u);
  EXPECT_LE(g.caps().max_inject, g.caps().max_send);
  EXPECT_GE(g.caps().max_send, member::PACKET_SIZE - sizeof(mem::packet));
  EXPECT_GE(g.caps().max_rma, 4096u);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(g.at(rank).fabric->name().empty());
    EXPECT_LE(g.at(rank).fabric->address().size(), 200u);
    EXPECT_TRUE(g.at(rank).devices[0]->is_drained());
  }
}

TEST_P(backend_contract, send_inline__head_and_payload_arrive_as_one_message) {
  group& g = open();
  for (const auto& way : pairs()) {
    const int from = way.first, to = way.second;
    std::vector<std::size_t> sizes;
    for (std::size_t size : sizes_up_to(g.caps().max_inject, g.caps())) {
      for (std::size_t head :
           {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{16}, size}) {
        if (head > size) continue;
        const auto number = static_cast<std::uint32_t>(sizes.size());
        std::vector<std::byte> bytes = pattern(size, number);
        const errorcode_t answer = g.post([&] {
          return g.at(from).to().send_inline(to, number, bytes.data(), head, bytes.data() + head,
                                             size - head);
        });
        EXPECT_EQ(answer, errorcode_t::done) << "send_inline() answers done or retry";
        // Both buffers are reusable at once.
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
        sizes.push_back(size);
      }
    }
    expect_all(g, to, from, sizes);
  }
}

TEST_P(backend_contract, send__from_a_packet_every_size) {
  group& g = open();
  for (const auto& way : pairs()) {
    const int from = way.first, to = way.second;
    member& m = g.at(from);
    const auto sizes = sizes_up_to(std::min(m.packets.payload_size(), g.caps().max_send), g.caps());
    std::deque<op_fate> fates;
    std::vector<errorcode_t> answers;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      mem::packet* packet = m.packets.get();
      ASSERT_NE(packet, nullptr);
      const auto bytes = pattern(sizes[i], static_cast<std::uint32_t>(i));
      if (!bytes.empty()) std::memcpy(packet->payload(), bytes.data(), bytes.size());
      net::net_op op;
      op.rank = to;
      op.imm = static_cast<std::uint32_t>(i);
      op.buffer = packet->payload();
      op.size = sizes[i];
      op.packet = packet;
      op.context = &fates.emplace_back();
      answers.push_back(g.post([&] { return m.to().send(op); }));
    }
    expect_all(g, to, from, sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i) expect_fate(answers[i], fates[i]);
  }
}

TEST_P(backend_contract, send__from_a_plain_buffer_every_size) {
  group& g = open();
  for (const auto& way : pairs()) {
    const int from = way.first, to = way.second;
    const auto sizes = sizes_up_to(std::min(g.caps().max_send, std::size_t{1} << 20), g.caps());
    std::deque<op_fate> fates;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::byte> bytes = pattern(sizes[i], static_cast<std::uint32_t>(i));
      op_fate& fate = fates.emplace_back();
      net::net_op op;
      op.rank = to;
      op.imm = static_cast<std::uint32_t>(i);
      op.buffer = bytes.data();
      op.size = bytes.size();
      op.context = &fate;
      const errorcode_t answer = g.post([&] { return g.at(from).to().send(op); });
      // Posted: the buffer is the network's until the signal. Done: it is ours again.
      if (answer == errorcode_t::posted) {
        ASSERT_TRUE(g.until([&] { return fate.signals() != 0; }, "a completion"));
      }
      std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
      g.settle();
      expect_fate(answer, fate);
    }
    expect_all(g, to, from, sizes);
  }
}

TEST_P(backend_contract, send__without_context_completes_silently) {
  group& g = open();
  std::vector<std::byte> bytes = pattern(512, 7);
  for (int i = 0; i < 10; ++i) {
    net::net_op op;
    op.rank = 1;
    op.buffer = bytes.data();
    op.size = bytes.size();
    g.post([&] { return g.at(0).to().send(op); });  // the recorder fails on a null context
  }
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 10; }, "ten messages"));
}

TEST_P(backend_contract, send__all_32_bits_of_the_immediate_travel) {
  group& g = open();
  for (std::uint32_t imm : {0u, 1u, 0x80000000u, 0x7fffffffu, 0xa5a5a5a5u, 0xffffffffu}) {
    g.at(1).seen().forget();
    std::uint64_t word = imm;
    g.post([&] { return g.at(0).to().send_inline(1, imm, nullptr, 0, &word, sizeof word); });
    ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "the message"));
    EXPECT_EQ(g.at(1).seen().messages()[0].imm, imm);
  }
}

TEST_P(backend_contract, send__three_ranks_know_each_other) {
  group& g = open(3);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const auto imm = static_cast<std::uint32_t>(from * 3 + to);
      g.post([&] { return g.at(from).to().send_inline(to, imm, nullptr, 0, &imm, sizeof imm); });
    }
  }
  for (int to = 0; to < 3; ++to) {
    ASSERT_TRUE(
        g.until([&] { return g.at(to).seen().arrived() == 3; }, "one message from each rank"));
    for (const seen_message& m : g.at(to).seen().messages()) {
      EXPECT_EQ(m.imm, static_cast<std::uint32_t>(m.rank * 3 + to)) << "the sender's rank is wrong";
    }
  }
}

TEST_P(backend_contract, device__messages_stay_on_their_device) {
  group& g = open(2, 3);
  for (int round = 0; round < 50; ++round) {
    for (int d = 0; d < 3; ++d) {
      const auto imm = static_cast<std::uint32_t>(d);
      g.post([&] { return g.at(0).to(d).send_inline(1, imm, nullptr, 0, &imm, sizeof imm); });
    }
  }
  for (int d = 0; d < 3; ++d) {
    ASSERT_TRUE(
        g.until([&] { return g.at(1).seen(d).arrived() == 50; }, "fifty messages per device"));
  }
  g.settle();
  for (int d = 0; d < 3; ++d) {
    for (const seen_message& m : g.at(1).seen(d).messages())
      EXPECT_EQ(m.imm, static_cast<std::uint32_t>(d));
  }
}

}  // namespace lci::test
