// In which order do messages come, and what happens to those that the sink does not take at once?
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// Posts message `number` in one of the three ways, so that the ways are mixed.
void post_numbered(group& g, int from, int to, std::uint32_t number,
                   std::vector<std::vector<std::byte>>& buffers) {
  member& m = g.at(from);
  std::uint32_t size = 8 + number % 40;
  if (number % 3 == 0) {
    const auto bytes = pattern(size, number);
    g.post([&] {
      return m.to().send_inline(to, number, bytes.data(), 4, bytes.data() + 4, size - 4);
    });
    return;
  }
  net::net_op op;
  op.rank = to;
  op.imm = number;
  op.size = size = 8 + number % 2000;
  if (number % 3 == 1) {
    while ((op.packet = m.packets.get()) == nullptr) g.poll();
    op.buffer = op.packet->payload();
    std::memcpy(op.buffer, pattern(size, number).data(), size);
  } else {
    buffers.push_back(
        pattern(size, number));  // stays until the end of the test: nobody is told about completion
    op.buffer = buffers.back().data();
  }
  g.post([&] { return m.to().send(op); });
}

void expect_in_order(const std::vector<seen_message>& seen, std::uint32_t count) {
  ASSERT_EQ(seen.size(), count);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(seen[i].imm, i) << "out of order";
    ASSERT_TRUE(seen[i].bytes == pattern(seen[i].bytes.size(), i))
        << "message " << i << " came damaged";
  }
}

}  // namespace

// 0 once everything was dealt with at the other end; else a number for each state.
TEST_P(backend_contract, unconsumed__says_whether_what_was_sent_is_through) {
  group& g = open();
  net::endpoint& end = g.at(0).to();
  const std::uint64_t data = 5;
  const auto send = [&] {
    g.post([&] { return end.send_inline(1, 1, nullptr, 0, &data, sizeof(data)); });
  };
  send();
  if (end.unconsumed(1) == net::endpoint::UNKNOWN) GTEST_SKIP() << "the backend cannot tell";
  ASSERT_TRUE(g.until([&] { return end.unconsumed(1) == 0; }, "the first message"));
  EXPECT_EQ(g.at(1).seen().arrived(), 1u);
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 3; ++i) {
    send();
    all.push_back(end.unconsumed(1));
    EXPECT_EQ(end.unconsumed(1), all.back()) << "nothing was sent in between";
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), 0), 0);
  EXPECT_TRUE(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
  // A message that the sink does not take yet is not through.
  g.at(1).seen().on_arrival = [](const net::arrival&) { return net::verdict::deferred; };
  for (int i = 0; i < 20; ++i) g.poll();
  EXPECT_EQ(end.unconsumed(1), all.back());
  g.at(1).seen().on_arrival = nullptr;
  ASSERT_TRUE(g.until([&] { return end.unconsumed(1) == 0; }, "the others"));
  EXPECT_EQ(g.at(1).seen().arrived(), 4u);
}

TEST_P(backend_contract, ordered__mixed_ways_of_sending_keep_the_order_of_posts) {
  group& g = open();
  if (!g.caps().ordered) GTEST_SKIP() << "the backend does not promise order";
  constexpr std::uint32_t COUNT = 3000;
  for (const auto& way : {std::pair{0, 1}, std::pair{1, 1}}) {
    const int from = way.first, to = way.second;
    std::vector<std::vector<std::byte>> buffers;
    for (std::uint32_t i = 0; i < COUNT; ++i) post_numbered(g, from, to, i, buffers);
    ASSERT_TRUE(g.until([&] { return g.at(to).seen().arrived() >= COUNT; }, "all messages"));
    g.settle();
    expect_in_order(g.at(to).seen().messages(), COUNT);
    g.at(to).seen().forget();
  }
}

TEST_P(backend_contract, deferred__the_same_message_comes_again_and_nothing_overtakes_it) {
  group& g = open();
  constexpr std::uint32_t COUNT = 300;
  std::uint32_t offers = 0;
  std::uint32_t times = 0;      // how often the message of the moment was deferred
  std::uint32_t blocked = ~0u;  // its number, while it is deferred
  bool overtaken = false;
  g.at(1).seen().on_arrival = [&](const net::arrival& message) {
    ++offers;
    overtaken |= blocked != ~0u && message.imm != blocked;
    // Each message is deferred once, twice or not at all.
    if (times < message.imm % 3) {
      ++times;
      blocked = message.imm;
      return net::verdict::deferred;
    }
    times = 0;
    blocked = ~0u;
    return net::verdict::taken;
  };
  std::vector<std::vector<std::byte>> buffers;
  for (std::uint32_t i = 0; i < COUNT; ++i) post_numbered(g, 0, 1, i, buffers);
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() >= COUNT; }, "all messages"));
  g.settle();
  EXPECT_EQ(offers, 2 * COUNT);
  EXPECT_FALSE(overtaken);
  if (g.caps().ordered)
    expect_in_order(g.at(1).seen().messages(), COUNT);
  else
    EXPECT_EQ(g.at(1).seen().arrived(), COUNT);
}

TEST_P(backend_contract, deferred__does_not_count_as_progress_for_ever) {
  group& g = open();
  bool let_in = false;
  g.at(1).seen().on_arrival = [&](const net::arrival&) {
    return let_in ? net::verdict::taken : net::verdict::deferred;
  };
  std::uint64_t word = 5;
  g.post([&] { return g.at(0).to().send_inline(1, 9, nullptr, 0, &word, sizeof word); });
  for (int i = 0; i < 100; ++i) g.poll();  // a poll that meets only a deferred message returns
  EXPECT_EQ(g.at(1).seen().arrived(), 0u);
  let_in = true;
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "the deferred message"));
}

TEST_P(backend_contract, kept__packets_stay_as_they_are_until_released) {
  group& g = open();
  std::vector<std::pair<mem::packet*, net::arrival>> kept;
  g.at(1).seen().on_arrival = [&](const net::arrival& message) {
    if (message.packet == nullptr) return net::verdict::taken;
    EXPECT_EQ(message.data, message.packet->payload()) << "data is the packet's payload";
    kept.emplace_back(message.packet, message);
    return net::verdict::kept;
  };
  std::vector<std::vector<std::byte>> buffers;
  constexpr std::uint32_t COUNT = 120;
  for (std::uint32_t i = 0; i < COUNT; ++i) post_numbered(g, 0, 1, i, buffers);
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() >= COUNT; }, "all messages"));
  for (const auto& [packet, message] : kept) {
    const auto expected = pattern(message.size, message.imm);
    EXPECT_EQ(std::memcmp(message.data, expected.data(), message.size), 0)
        << "message " << message.imm;
    mem::release_packet(g.at(1).arena, packet);
  }
  g.at(1).seen().on_arrival = nullptr;
}

TEST_P(backend_contract, poll__from_inside_a_sink_sees_later_messages) {
  group& g = open();
  int depth = 0;
  int deepest = 0;
  std::vector<std::uint32_t> order;
  member& m = g.at(1);
  m.seen().on_arrival = [&](const net::arrival& message) {
    const auto expected = pattern(message.size, message.imm);
    order.push_back(message.imm);
    deepest = std::max(deepest, ++depth);
    if (depth < 5) m.devices[0]->poll(*m.sinks[0], 3);
    --depth;
    // Its slot stayed as it was while later ones were looked at.
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), message.data))
        << "message " << message.imm;
    return net::verdict::taken;
  };
  std::vector<std::vector<std::byte>> buffers;
  constexpr std::uint32_t COUNT = 500;
  for (std::uint32_t i = 0; i < COUNT; ++i) {
    post_numbered(g, 0, 1, i, buffers);
  }
  ASSERT_TRUE(g.until([&] { return m.seen().arrived() >= COUNT; }, "all messages"));
  g.settle();
  EXPECT_EQ(m.seen().arrived(), COUNT);
  EXPECT_GT(deepest, 1) << "no message was seen by an inner poll";
  if (g.caps().ordered) {
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

}  // namespace lci::test
