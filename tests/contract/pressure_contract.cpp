// Is a full queue back-pressure, and never loss?
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/suite.hpp"

namespace lci::test {
namespace {

// Far more than any queue should hold while nobody polls the other side.
constexpr std::uint32_t ENOUGH = 1u << 20;

}  // namespace

TEST_P(backend_contract, full__inline_sends_answer_retry_and_nothing_is_lost) {
  group& g = open();
  g.at(1).seen().keep_bytes = false;
  std::uint32_t last = 0;
  std::uint64_t sum = 0;
  g.at(1).seen().on_arrival = [&](const net::arrival& message) {
    last = message.imm;
    sum += message.imm;
    return net::verdict::taken;
  };
  // First contact may need both sides to poll, and is not what is asked here.
  const std::uint32_t zero = 0;
  g.post([&] { return g.at(0).to().send_inline(1, 0, nullptr, 0, &zero, sizeof zero); });
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "first contact"));

  std::uint32_t accepted = 0;
  std::uint64_t expected = 0;
  for (int round = 0; round < 3; ++round) {
    // One refusal may have another reason; so many in a row are a full queue.
    int refusals = 0;
    for (std::uint32_t tries = 0; tries < ENOUGH && refusals < 200; ++tries) {
      const std::uint32_t number = accepted + 1;
      const errorcode_t answer =
          g.at(0).to().send_inline(1, number, nullptr, 0, &number, sizeof number);
      if (answer != errorcode_t::done) {
        ASSERT_TRUE(is_retry(answer)) << name_of(answer);
        ++refusals;
        continue;
      }
      refusals = 0;
      ++accepted;
      expected += number;
    }
    EXPECT_EQ(refusals, 200) << "the queue never got full";
    // Refused is refused: a hundred more attempts leave no trace.
    for (int i = 0; refusals == 200 && i < 100; ++i) {
      const std::uint32_t never = 0xdeadu;
      EXPECT_TRUE(is_retry(g.at(0).to().send_inline(1, never, nullptr, 0, &never, sizeof never)));
    }
    ASSERT_TRUE(
        g.until([&] { return g.at(1).seen().arrived() >= accepted + 1; }, "everything accepted"));
    g.settle();
    EXPECT_EQ(g.at(1).seen().arrived(), accepted + 1u);
    EXPECT_EQ(sum, expected);
    if (g.caps().ordered) {
      EXPECT_EQ(last, accepted);
    }
  }
}

TEST_P(backend_contract, full__a_refused_packet_stays_with_the_caller) {
  group& g = open();
  member& m = g.at(0);
  const std::uint32_t zero = 0;
  g.post([&] { return m.to().send_inline(1, 0, nullptr, 0, &zero, sizeof zero); });
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() == 1; }, "first contact"));

  std::deque<op_fate> fates;
  std::vector<errorcode_t> answers;
  bool refused = false;
  for (std::size_t i = 0; i < member::MAX_PACKETS; ++i) {
    mem::packet* packet = m.packets.get();
    if (packet == nullptr) break;
    const auto bytes = pattern(m.packets.payload_size(), static_cast<std::uint32_t>(i));
    std::memcpy(packet->payload(), bytes.data(), bytes.size());
    net::net_op op;
    op.rank = 1;
    op.imm = static_cast<std::uint32_t>(i);
    op.buffer = packet->payload();
    op.size = bytes.size();
    op.packet = packet;
    op.context = &fates.emplace_back();
    const errorcode_t answer = m.to().send(op);
    if (!is_retry(answer)) {
      answers.push_back(answer);
      continue;
    }
    refused = true;
    fates.pop_back();
    EXPECT_EQ(packet->state.load(std::memory_order_relaxed), mem::packet_state::out);
    EXPECT_EQ(std::memcmp(packet->payload(), bytes.data(), bytes.size()), 0);
    m.packets.put(packet);
    break;
  }
  ASSERT_TRUE(g.until([&] { return g.at(1).seen().arrived() >= answers.size() + 1; },
                      "everything accepted"));
  g.settle();
  EXPECT_EQ(g.at(1).seen().arrived(), answers.size() + 1);
  for (std::size_t i = 0; i < answers.size(); ++i) expect_fate(answers[i], fates[i]);
  // Backends that can take every packet of the pool are fine; the line says that the branch was not
  // seen.
  if (!refused) RecordProperty("note", "no packet was refused");
}

TEST_P(backend_contract, full__of_puts_that_nobody_completes_yet) {
  group& g = open();
  std::vector<std::byte> target(4096);
  const net::remote_key key = g.at(1).expose(target.data(), target.size());
  g.learn(0, 1, key);
  std::vector<std::byte> source = pattern(64, 3);
  std::deque<op_fate> fates;
  std::vector<errorcode_t> answers;
  for (int i = 0; i < 5000; ++i) {
    net::net_op op;
    op.rank = 1;
    op.buffer = source.data();
    op.size = source.size();
    op.remote = key;
    op.remote_offset = static_cast<std::uint64_t>(i % 64) * 64;
    op.context = &fates.emplace_back();
    answers.push_back(g.post([&] { return g.at(0).to().put(op); }));
  }
  g.settle();
  for (std::size_t i = 0; i < answers.size(); ++i) expect_fate(answers[i], fates[i]);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(std::memcmp(target.data() + i * 64, source.data(), 64), 0);
  g.at(1).hide(key);
}

}  // namespace lci::test
