#include "backends/shm/inbox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "lci/errors.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::note_taker;
using test::pair;

// Rank 0's own lane to rank 1, into which a test can write what no correct process would.
tx_lane& lane_to_b(pair& p) { return *p.a.behind().out.own(1); }

void write_raw(pair& p, slot_header header, const void* data, std::size_t size) {
  tx_lane& lane = lane_to_b(p);
  if (size != 0) std::memcpy(lane.next().data, data, size);
  lane.publish(header);
}

// After garbage: the sender counts as gone, what it wrote behind is not delivered, others go on.
void expect_cut_off(pair& p, std::uint64_t dropped_before) {
  p.until([&] { return !p.b.seen.gone.empty(); });
  ASSERT_EQ(p.b.seen.gone.size(), 1u);
  EXPECT_EQ(p.b.seen.gone[0].rank, 0);
  EXPECT_FALSE(p.b.seen.gone[0].orderly);
  EXPECT_GT(p.b.net->connections().dropped(), dropped_before);
  EXPECT_EQ(p.b.say(0, "x"), errorcode_t::fatal);
  EXPECT_EQ(p.post([&] { return p.b.say(1, "to myself"); }), errorcode_t::done);
  p.until([&] { return !p.b.seen.messages.empty(); });
  EXPECT_EQ(p.b.seen.messages.size(), 1u);
}

}  // namespace

TEST(poll, messages__arrive_in_order_with_rank_imm_and_data) {
  pair p;
  p.meet();
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_EQ(p.a.say(1, test::pattern(i, i), i), errorcode_t::done);
  }
  p.until([&] { return p.b.seen.messages.size() == 100; });
  for (std::uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(p.b.seen.messages[i].rank, 0);
    EXPECT_EQ(p.b.seen.messages[i].imm, i);
    EXPECT_EQ(p.b.seen.messages[i].data, test::pattern(i, i));
  }
}

TEST(poll, max__is_about_kept) {
  pair p;
  p.meet();
  p.begin_stream(p.a);
  for (int i = 0; i < 100; ++i) p.a.say(1, "x");
  EXPECT_EQ(p.b.poll(10), 10u);
  EXPECT_EQ(p.b.poll(1000), 90u);
  p.until([&] { return p.b.seen.messages.size() == 100; });
}

// A lane that has always more does not keep the others waiting: the next poll goes on behind it.
TEST(poll, max__goes_round_the_lanes) {
  pair p;
  p.meet();
  p.begin_stream(p.a);
  p.begin_stream(p.b);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(p.a.say(1, "x"), errorcode_t::done);
    ASSERT_EQ(p.b.say(1, "y"), errorcode_t::done);
  }
  const auto seen_from = [&](int rank) {
    return std::count_if(p.b.seen.messages.begin(), p.b.seen.messages.end(),
                         [rank](const auto& m) { return m.rank == rank; });
  };
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(p.b.poll(32), 32u);
    EXPECT_EQ(p.b.poll(32), 32u);
    EXPECT_EQ(seen_from(0), 32 * round);
    EXPECT_EQ(seen_from(1), 32 * round);
  }
}

// The look behind a single message costs the sender of the next one its line: it is left out where
// it was in vain before, and the next poll finds what came.
TEST(poll, one_message__the_next_polls_look_no_further) {
  pair p;
  p.meet();
  p.begin_stream(p.a);
  ASSERT_EQ(p.a.say(1, "x"), errorcode_t::done);
  EXPECT_EQ(p.b.poll(), 1u);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(p.a.say(1, "x"), errorcode_t::done);
  for (int i = 0; i < rx_lane::PATIENCE; ++i) EXPECT_EQ(p.b.poll(), 1u);
  EXPECT_EQ(p.b.poll(), 10u - rx_lane::PATIENCE);
}

TEST(poll, deferred__comes_again_and_nothing_overtakes) {
  pair p;
  p.meet();
  p.begin_stream(p.a);
  for (std::uint32_t i = 0; i < 10; ++i) p.a.say(1, "x", i);
  int refusals = 0;
  p.b.seen.answer = [&](const net::arrival& m) {
    if (m.imm == 4 && refusals < 3) {
      ++refusals;
      return net::verdict::deferred;
    }
    return net::verdict::taken;
  };
  p.b.poll();
  EXPECT_EQ(p.b.seen.messages.size(), 4u);
  p.b.poll();
  EXPECT_EQ(p.b.seen.messages.size(), 4u);
  p.until([&] { return p.b.seen.messages.size() == 10; });
  EXPECT_EQ(refusals, 3);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, i);
}

TEST(poll, deferred__those_before_it_are_handed_back) {
  pair p;
  p.meet();
  outbox& out = p.a.behind().out;
  for (std::uint32_t i = 0; i < 3; ++i) p.a.say(1, "x", i);
  const outbox::mark three = p.a.net->connections().mark(1, out);
  p.a.say(1, "x", 3);
  bool is_refused = true;
  p.b.seen.answer = [&](const net::arrival& m) {
    return m.imm == 3 && is_refused ? net::verdict::deferred : net::verdict::taken;
  };
  p.until([&] { return p.b.seen.messages.size() >= 3; });
  for (int i = 0; i < 3; ++i) p.b.poll();
  EXPECT_TRUE(out.is_past(1, three)) << "a fence would wait for the message that is deferred";
  is_refused = false;
  p.until([&] { return p.b.seen.messages.back().imm == 3; });
}

TEST(poll, nested__sees_what_is_behind_and_nothing_twice) {
  pair p;
  p.meet();
  for (std::uint32_t i = 0; i < 20; ++i) p.a.say(1, "x", i);
  std::vector<std::uint32_t> order;
  p.b.seen.answer = [&](const net::arrival& m) {
    const std::uint32_t imm = m.imm;
    if (imm % 5 == 0) p.b.poll();
    order.push_back(imm);
    return net::verdict::taken;
  };
  p.until([&] { return order.size() == 20; });
  p.b.poll();
  std::sort(order.begin(), order.end());
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(order[i], i);
}

TEST(poll, nested__deferred_inside_comes_again_first) {
  pair p;
  p.meet();
  for (std::uint32_t i = 0; i < 6; ++i) p.a.say(1, "x", i);
  int refusals = 0;
  p.b.seen.answer = [&](const net::arrival& m) {
    if (m.imm == 1) {
      p.b.poll();  // takes 2, and no more
      EXPECT_EQ(p.b.seen.messages.size(), 2u);
    }
    return m.imm == 3 && refusals++ == 0 ? net::verdict::deferred : net::verdict::taken;
  };
  p.until([&] { return p.b.seen.messages.size() == 6; });
  const std::uint32_t order[] = {0, 2, 1, 3, 4, 5};
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, order[i]);
  // The lane goes on as if nothing had been.
  p.b.seen.messages.clear();
  for (std::uint32_t i = 0; i < 300; ++i) {
    EXPECT_EQ(p.post([&] { return p.a.say(1, "x", 10 + i); }), errorcode_t::done);
  }
  p.until([&] { return p.b.seen.messages.size() == 300; });
  for (std::uint32_t i = 0; i < 300; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, 10 + i);
}

TEST(poll, nested__a_handler_may_wait_for_more_than_a_lane_holds) {
  pair p;
  p.meet();
  bool inside = false;
  std::uint32_t sent = 1;
  p.a.say(1, "first", 0);
  p.b.seen.answer = [&](const net::arrival&) {
    if (inside) return net::verdict::taken;
    inside = true;
    while (p.b.seen.messages.size() < 3 * LANE_SLOTS) {
      if (p.a.say(1, "more", sent) == errorcode_t::done) ++sent;
      p.b.poll();
    }
    return net::verdict::taken;
  };
  p.until([&] { return p.b.seen.messages.size() == sent; });
  std::uint32_t next = 1;
  for (const auto& m : p.b.seen.messages)
    if (m.imm != 0) {
      EXPECT_EQ(m.imm, next++);
    }
}

TEST(poll, another_thread__gets_nothing_while_one_is_inside) {
  pair p;
  p.meet();
  p.a.say(1, "x");
  std::size_t other = 99;
  p.b.seen.answer = [&](const net::arrival&) {
    note_taker nobody;
    std::thread([&] { other = p.b.dev->poll(nobody, 64); }).join();
    return net::verdict::taken;
  };
  p.until([&] { return !p.b.seen.messages.empty(); });
  EXPECT_EQ(other, 0u);
}

TEST(garbage, unknown_kind__cuts_the_sender_off) {
  pair p;
  p.meet();
  write_raw(p, {0, 0, static_cast<slot_kind>(200), 0}, nullptr, 0);
  p.a.say(1, "behind it");
  expect_cut_off(p, 0);
}

TEST(garbage, size_beyond_the_slot__cuts_the_sender_off) {
  pair p;
  p.meet();
  write_raw(p, {0, SLOT_DATA + 1, slot_kind::message, 0}, nullptr, 0);
  expect_cut_off(p, 0);
}

TEST(garbage, records_of_a_wrong_size__cut_the_sender_off) {
  using enum slot_kind;
  for (const auto kind : {packet, put, put_packet, put_in_ring, get_request, get_failed}) {
    pair p;
    p.meet();
    write_raw(p, {0, 3, kind, 0}, nullptr, 0);
    expect_cut_off(p, 0);
  }
}

TEST(garbage, packets_outside_the_senders_memory__cut_the_sender_off) {
  const packet_record wrong[] = {
      {0, 8, 0},                              // nowhere
      {64 + 8, 8, 0},                         // misaligned
      {std::uint64_t{1} << 40, 8, 0},         // beyond the reservation
      {(std::uint64_t{1} << 30) - 64, 8, 0},  // beyond the file
      {~std::uint64_t{63}, 8, 0},             // overflows
      {64, ~0u, 0},                           // starts inside, ends outside
  };
  for (const packet_record& r : wrong) {
    pair p;
    p.meet();
    write_raw(p, {0, sizeof(r), slot_kind::packet, MAY_KEEP}, &r, sizeof(r));
    expect_cut_off(p, 0);
  }
}

TEST(garbage, a_chunk_outside_the_senders_memory__cuts_the_sender_off_and_writes_nothing) {
  for (const slot_kind kind : {slot_kind::put_packet, slot_kind::put_in_ring}) {
    pair p;
    p.meet();
    std::string memory(100, '.');
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    const chunk_record r{{key.slot, key.generation, 0}, std::uint64_t{1} << 50, 50, 0};
    write_raw(p, {0, sizeof(r), kind, 0}, &r, sizeof(r));
    expect_cut_off(p, 0);
    EXPECT_EQ(memory, std::string(100, '.'));
  }
}

TEST(garbage, requests_to_read_too_much_or_outside__cut_the_sender_off) {
  for (const bool is_large : {true, false}) {
    pair p;
    p.meet();
    std::string memory(4096, '.');
    const net::remote_key key = p.b.expose(memory.data(), memory.size());
    read_record r;
    r.where = {key.slot, key.generation, 0};
    r.source = reinterpret_cast<std::uintptr_t>(memory.data());
    r.size = is_large ? bulk_stream::MOST_SHARE + 1 : 64;
    r.packet = is_large ? 4096 : ~std::uint64_t{0} - 64;
    const std::uint64_t before = p.b.net->connections().dropped();
    write_raw(p, {0, sizeof(r), slot_kind::read_request, 0}, &r, sizeof(r));
    expect_cut_off(p, before);
    EXPECT_EQ(memory, std::string(4096, '.'));
  }
}

TEST(garbage, forged_region_names__write_nothing_and_are_counted) {
  pair p;
  p.meet();
  std::string memory(100, '.');
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  const put_record wrong[] = {{key.slot, key.generation + 1, 0},
                              {key.slot + 1, 1, 0},
                              {0, 0, 0},
                              {~0u, ~0u, 0},
                              {key.slot, key.generation, 100 - 7},
                              {key.slot, key.generation, ~0ull}};
  for (const put_record& r : wrong) {
    std::byte data[sizeof(r) + 8] = {};
    std::memcpy(data, &r, sizeof(r));
    write_raw(p, {5, sizeof(data), slot_kind::put, HAS_IMM}, data, sizeof(data));
  }
  p.a.say(1, "end");
  p.until([&] { return !p.b.seen.messages.empty(); });
  EXPECT_EQ(memory, std::string(100, '.'));
  EXPECT_EQ(p.b.net->connections().dropped(), 6u);
  EXPECT_TRUE(p.b.seen.immediates.empty()) << "no data, no news of data";
  EXPECT_TRUE(p.b.seen.gone.empty()) << "a registration may have ended meanwhile: no crime";
}

TEST(garbage, a_get_that_nobody_asked_for__is_ignored) {
  pair p;
  p.meet();
  const get_failure r{12345, 1};
  write_raw(p, {0, sizeof(r), slot_kind::get_failed, 0}, &r, sizeof(r));
  p.a.say(1, "end");
  p.until([&] { return !p.b.seen.messages.empty(); });
  EXPECT_TRUE(p.b.seen.errors.empty());
  EXPECT_TRUE(p.b.seen.gone.empty());
}

// A sender that takes its peer for dead gives the memory of its lanes back, and may do so in either
// kind of lap. When it leaves, that is told.
class given_back : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(after, given_back, testing::Values(1, LANE_SLOTS));

TEST_P(given_back, its_zeros_are_nothing_and_no_crime) {
  pair p;
  p.meet();
  tx_lane& lane = lane_to_b(p);
  const std::uint32_t first = lane.position();
  while (lane.position() - first < GetParam()) {
    ASSERT_EQ(p.post([&] { return p.a.say(1, "x"); }), errorcode_t::done);
    p.b.poll();
  }
  p.until([&] { return p.b.seen.messages.size() == GetParam(); });
  p.a.net->connections().fail(*p.a.net->connections().find(1), "it is taken for dead");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(p.b.poll(), 0u);
  EXPECT_EQ(p.b.seen.messages.size(), GetParam());
  EXPECT_TRUE(p.b.seen.gone.empty());
  EXPECT_EQ(p.b.net->connections().dropped(), 0u);
  p.a.net->leave();
  p.a.close();
  pair::until([&] { return p.b.seen.gone.size() == 1; }, {&p.b});
}

TEST(discover, a_directory_outside_the_senders_memory__cuts_the_sender_off) {
  pair p;
  p.meet();
  // What rank 0 wrote for rank 1 lies in rank 0's arena; rank 1 has it mapped.
  p.b.net->connections().find(0)->theirs->directory[0].store(std::uint64_t{1} << 45);
  p.b.net->connections().control().announce[0].count.fetch_add(1);
  expect_cut_off(p, 0);
}

TEST(discover, a_lane_outside_the_senders_memory__cuts_the_sender_off) {
  pair p;
  p.meet();
  peer& a = *p.b.net->connections().find(0);
  auto* directory = a.memory.resolve_as<lane_directory>(a.theirs->directory[0].load());
  directory->lane[17].store((std::uint64_t{1} << 30) - 4096);
  p.b.net->connections().control().announce[0].count.fetch_add(1);
  expect_cut_off(p, 0);
}

TEST(devices, each_index_talks_to_its_like) {
  pair p;
  p.meet();
  auto a1 = p.a.net->make_device(1);
  auto b1 = p.b.net->make_device(1);
  auto out = a1->make_endpoint();
  note_taker seen;
  ASSERT_EQ(out->send_inline(1, 9, nullptr, 0, "dev1", 4), errorcode_t::done);
  p.until([&] { return b1->poll(seen, 64) > 0; });
  EXPECT_EQ(seen.messages.at(0).data, "dev1");
  EXPECT_TRUE(p.b.seen.messages.empty());
}

TEST(devices, a_new_one_of_the_same_index_finds_what_waited) {
  pair p;
  p.meet();
  p.a.say(1, "early");
  p.b.out.reset();
  p.b.dev.reset();
  p.b.dev = p.b.net->make_device(0);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  EXPECT_EQ(p.b.seen.messages[0].data, "early");
}

TEST(devices, index__outside_the_range_is_refused) {
  pair p;
  EXPECT_THROW(p.a.net->make_device(-1), backend_error);
  EXPECT_THROW(p.a.net->make_device(MAX_DEVICES), backend_error);
}

}  // namespace lci::shm
