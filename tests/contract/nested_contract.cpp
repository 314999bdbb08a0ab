// A sink that polls again and waits: for more messages than any queue of the network holds, inside
// of others that wait. That is all that handlers which post ask of a network. Whether their posts
// are made with COMP_NULL, with COMP_NULL_RETRY in a loop or with allow_retry(false) is settled
// above it, by the same calls to it: tests/interface/nesting_test.cpp has each of them, as real
// processes over every network.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// Sends numbered messages of rank 0 to rank 1 as fast as they are taken.
class sender {
 public:
  explicit sender(group& g) : group_(g) {}
  // One more, if the network takes it now. Of three ways, one in a packet.
  void try_one() {
    member& m = group_.at(0);
    const std::size_t size = 8 + next_ % 50;
    const auto bytes = pattern(size, next_);
    errorcode_t answer;
    if (next_ % 3 == 0) {
      net::net_op op;
      op.rank = 1;
      op.imm = next_;
      op.size = size;
      op.packet = m.packets.get();
      if (op.packet == nullptr) return;
      op.buffer = op.packet->payload();
      std::memcpy(op.buffer, bytes.data(), size);
      answer = m.to().send(op);
      if (is_retry(answer)) m.packets.put(op.packet);
    } else {
      answer = m.to().send_inline(1, next_, bytes.data(), 4, bytes.data() + 4, size - 4);
    }
    EXPECT_NE(answer, errorcode_t::fatal);
    if (!is_retry(answer)) ++next_;
  }
  std::uint32_t sent() const { return next_; }

 private:
  group& group_;
  std::uint32_t next_ = 0;
};

}  // namespace

// Each of the first sinks waits until the one inside of it has seen so many messages more.
TEST_P(backend_contract, nested__a_sink_may_wait_for_any_number_of_messages) {
  group& g = open();
  constexpr std::uint32_t DEEP = 8, EACH = 1500;
  sender from(g);
  std::uint32_t seen = 0, depth = 0, next = 0;
  bool is_in_order = true, is_whole = true;
  g.at(1).seen().keep_bytes = false;
  g.at(1).seen().on_arrival = [&](const net::arrival& message) {
    is_in_order &= message.imm == next++;
    const auto expected = pattern(message.size, message.imm);
    is_whole &= std::equal(expected.begin(), expected.end(), message.data);
    ++seen;
    if (depth == DEEP) return net::verdict::taken;
    ++depth;
    const std::uint32_t enough = seen + (DEEP + 1 - depth) * EACH;
    EXPECT_TRUE(g.until(
        [&] {
          from.try_one();
          return seen >= enough;
        },
        "messages inside of a sink"));
    return net::verdict::taken;
  };
  from.try_one();
  ASSERT_TRUE(g.until(
      [&] {
        if (from.sent() == 0) from.try_one();
        return seen != 0 && seen == from.sent();
      },
      "all messages"));
  g.settle();
  EXPECT_GE(seen, DEEP * EACH);
  EXPECT_TRUE(is_whole);
  if (g.caps().ordered) {
    EXPECT_TRUE(is_in_order);
  }
}

// What a sink keeps stays as it is, also when the sink polls again before it says that it keeps it.
TEST_P(backend_contract, nested__packets_that_are_kept_are_not_used_again) {
  group& g = open();
  constexpr std::uint32_t COUNT = 900;
  sender from(g);
  std::vector<std::pair<mem::packet*, net::arrival>> kept;
  std::uint32_t seen = 0, depth = 0;
  g.at(1).seen().keep_bytes = false;
  g.at(1).seen().on_arrival = [&](const net::arrival& message) {
    ++seen;
    const bool keeps = message.packet != nullptr && kept.size() < 40;
    if (keeps) kept.emplace_back(message.packet, message);
    if (depth < 4) {
      ++depth;
      const std::uint32_t enough = seen + 300;
      EXPECT_TRUE(g.until(
          [&] {
            if (from.sent() < COUNT) from.try_one();
            return seen >= enough || seen >= COUNT;
          },
          "messages inside of a sink"));
      --depth;
    }
    return keeps ? net::verdict::kept : net::verdict::taken;
  };
  ASSERT_TRUE(g.until(
      [&] {
        if (from.sent() < COUNT) from.try_one();
        return seen >= COUNT;
      },
      "all messages"));
  g.settle();
  for (const auto& [packet, message] : kept) {
    const auto expected = pattern(message.size, message.imm);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), message.data)) << message.imm;
    mem::release_packet(g.at(1).arena, packet);
  }
}

}  // namespace lci::test
