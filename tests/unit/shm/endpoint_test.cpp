#include "backends/shm/endpoint.hpp"

#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;
using test::pattern;

mem::packet* filled(mem::packet_pool& pool, const std::string& text) {
  mem::packet* p = pool.get();
  if (p != nullptr) std::memcpy(p->payload(), text.data(), text.size());
  return p;
}

net::net_op packet_op(int rank, mem::packet* p, std::size_t size, std::uint32_t imm = 0) {
  net::net_op op;
  op.rank = rank;
  op.imm = imm;
  op.buffer = p->payload();
  op.size = size;
  op.packet = p;
  return op;
}

net::net_op region_op(int rank, void* buffer, std::size_t size, net::remote_key key,
                      std::uint64_t offset = 0) {
  net::net_op op;
  op.rank = rank;
  op.buffer = buffer;
  op.size = size;
  op.remote = key;
  op.remote_offset = offset;
  return op;
}

}  // namespace

TEST(send_inline, head_and_payload__arrive_as_one_at_every_split) {
  pair p;
  const std::string text = pattern(SLOT_DATA, 1);
  for (std::size_t head = 0; head <= SLOT_DATA; ++head) {
    ASSERT_EQ(p.post([&] {
      return p.a.out->send_inline(1, 3, text.data(), head, text.data() + head, SLOT_DATA - head);
    }),
              errorcode_t::done);
    p.until([&] { return p.b.seen.messages.size() == head + 1; });
    EXPECT_EQ(p.b.seen.messages.back().data, text);
  }
}

TEST(send_inline, first_contact__the_sender_need_not_wait) {
  pair p;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(p.a.say(1, "x"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 50; });
}

TEST(poll, presents_no_more_than_shm_max_polls) {
  pair p;
  p.meet();
  p.begin_stream(p.a);
  p.b.dev.reset();
  net::device_config config;
  config.shm_max_polls = 2;
  p.b.dev = p.b.net->make_device(0, config);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(p.a.say(1, "x"), errorcode_t::done);
  for (const std::size_t most : {2u, 4u, 5u}) {
    p.b.poll();
    EXPECT_EQ(p.b.seen.messages.size(), most);
  }
}

TEST(send_inline, to_oneself__takes_the_same_way) {
  pair p;
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(p.a.say(0, "me", i), errorcode_t::done);
  p.until([&] { return p.a.seen.messages.size() == 20; });
  EXPECT_EQ(p.a.seen.messages[19].imm, 19u);
  EXPECT_EQ(p.a.seen.messages[19].rank, 0);
}

TEST(send_inline, once_the_lane_is_there__no_heap_call) {
  if (!lci::test::has_alloc_counter()) GTEST_SKIP() << lci::test::ALLOC_COUNTER_MISSING;
  struct counting final : net::sink {
    std::size_t n = 0;
    net::verdict on_message(const net::arrival&) noexcept override {
      ++n;
      return net::verdict::taken;
    }
    void on_immediate(int, std::uint32_t) noexcept override {}
    void on_complete(void*) noexcept override {}
    void on_error(int, void*, std::string_view) noexcept override {}
    void on_peer_ended(int, bool, std::string_view) noexcept override {}
  } seen;
  pair p;
  p.meet();
  const lci::test::alloc_counter heap;
  for (int i = 0; i < 10000; ++i) {
    p.a.out->send_inline(1, 0, nullptr, 0, "12345678", 8);
    p.b.dev->poll(seen, 64);
  }
  EXPECT_EQ(heap.calls(), 0u);
  EXPECT_EQ(seen.n, 10000u);
}

TEST(send, packet_taken__is_read_in_place_and_comes_home) {
  pair p;
  p.meet();
  for (const std::size_t size : {SLOT_DATA + 1, std::size_t{1000}, p.a.pool.payload_size()}) {
    const std::string text = pattern(size, 2);
    mem::packet* packet = filled(p.a.pool, text);
    ASSERT_EQ(p.a.out->send(packet_op(1, packet, size, 7)), errorcode_t::done);
    p.b.seen.messages.clear();
    p.until([&] { return p.b.seen.messages.size() == 1; });
    EXPECT_EQ(p.b.seen.messages[0].data, text);
    EXPECT_EQ(p.b.seen.messages[0].imm, 7u);
    EXPECT_NE(p.b.seen.messages[0].packet, nullptr) << "the pool may lend";
    EXPECT_NE(p.b.seen.messages[0].packet, packet) << "the receiver has its own mapping";
  }
  p.b.poll();
  p.a.pool.reclaim();
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

TEST(send, small_packet__is_copied_and_home_at_once) {
  pair p;
  p.meet();
  mem::packet* packet = filled(p.a.pool, "tiny");
  ASSERT_EQ(p.a.out->send(packet_op(1, packet, 4)), errorcode_t::done);
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  EXPECT_EQ(p.b.seen.messages[0].data, "tiny");
}

TEST(send, packet_kept__stays_readable_until_it_is_released) {
  pair p;
  p.meet();
  const std::string text = pattern(5000, 3);
  p.b.seen.answer = [](const net::arrival& m) {
    return m.packet != nullptr ? net::verdict::kept : net::verdict::taken;
  };
  ASSERT_EQ(p.a.out->send(packet_op(1, filled(p.a.pool, text), text.size())), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  mem::packet* kept = p.b.seen.messages[0].packet;
  ASSERT_NE(kept, nullptr);
  p.a.pool.reclaim();
  EXPECT_EQ(p.a.pool.outstanding(), 1u);
  EXPECT_EQ(std::memcmp(kept->payload(), text.data(), text.size()), 0);
  mem::release_packet(p.b.arena, kept);
  p.a.pool.reclaim();
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

TEST(send, to_oneself__passes_the_packet_on) {
  pair p;
  const std::string text = pattern(5000, 4);
  p.a.seen.answer = [](const net::arrival&) { return net::verdict::kept; };
  mem::packet* packet = filled(p.a.pool, text);
  ASSERT_EQ(p.a.out->send(packet_op(0, packet, text.size())), errorcode_t::done);
  p.until([&] { return p.a.seen.messages.size() == 1; });
  EXPECT_EQ(p.a.seen.messages[0].packet, packet);
  mem::release_packet(p.a.arena, packet);
  p.a.seen.answer = nullptr;
  ASSERT_EQ(p.a.out->send(packet_op(0, filled(p.a.pool, text), text.size())), errorcode_t::done);
  p.until([&] { return p.a.seen.messages.size() == 2; });
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

TEST(send, beyond_what_may_be_lent__arrives_all_the_same_and_cannot_be_kept) {
  pair p;
  p.meet();
  const std::string text = pattern(1000, 5);
  std::vector<mem::packet*> kept;
  p.b.seen.answer = [&](const net::arrival& m) {
    if (m.packet == nullptr) return net::verdict::taken;
    kept.push_back(m.packet);
    return net::verdict::kept;
  };
  constexpr std::size_t MESSAGES = 200;
  for (std::size_t i = 0; i < MESSAGES; ++i) {
    mem::packet* packet = nullptr;
    p.until([&] { return (packet = filled(p.a.pool, text)) != nullptr; });
    ASSERT_EQ(p.post([&] { return p.a.out->send(packet_op(1, packet, text.size())); }),
              errorcode_t::done);
  }
  p.until([&] { return p.b.seen.messages.size() == MESSAGES; });
  EXPECT_GT(kept.size(), 0u);
  EXPECT_LE(kept.size(), test::side::PACKETS / 2);
  for (const auto& m : p.b.seen.messages) EXPECT_EQ(m.data, text);
  for (mem::packet* packet : kept) mem::release_packet(p.b.arena, packet);
  p.until([&] {
    p.a.pool.reclaim();
    return p.a.pool.outstanding() == 0;
  });
}

TEST(send, deferred_packet__is_presented_again) {
  pair p;
  p.meet();
  int refusals = 0;
  p.b.seen.answer = [&](const net::arrival&) {
    return ++refusals < 4 ? net::verdict::deferred : net::verdict::taken;
  };
  const std::string text = pattern(3000, 6);
  ASSERT_EQ(p.a.out->send(packet_op(1, filled(p.a.pool, text), text.size())), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  EXPECT_EQ(p.b.seen.messages[0].data, text);
}

TEST(send, buffer_that_is_no_packet__every_size_up_to_max_send) {
  pair p;
  p.meet();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, SLOT_DATA, SLOT_DATA + 1,
                                 std::size_t{8128}, p.a.net->caps().max_send}) {
    std::string text = pattern(size, 7);
    net::net_op op;
    op.rank = 1;
    op.buffer = text.data();
    op.size = size;
    p.b.seen.messages.clear();
    ASSERT_EQ(p.a.out->send(op), errorcode_t::done);
    const std::string sent = text;
    text.assign(size, '#');  // done: the buffer is ours again
    p.until([&] { return p.b.seen.messages.size() == 1; });
    EXPECT_EQ(p.b.seen.messages[0].data, sent);
  }
}

TEST(send, buffers_without_end__wait_for_packets_and_lose_nothing) {
  pair p;
  p.meet();
  std::string text = pattern(60000, 8);
  for (int i = 0; i < 600; ++i) {
    net::net_op op;
    op.rank = 1;
    op.imm = static_cast<std::uint32_t>(i);
    op.buffer = text.data();
    op.size = text.size();
    ASSERT_EQ(p.post([&] { return p.a.out->send(op); }), errorcode_t::done);
  }
  p.until([&] { return p.b.seen.messages.size() == 600; });
  for (std::uint32_t i = 0; i < 600; ++i) EXPECT_EQ(p.b.seen.messages[i].imm, i);
}

TEST(put, small_ones_nobody_waits_for__are_done_and_arrive_before_the_next_message) {
  pair p;
  p.meet();
  std::string memory(40000, '.');
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  for (const std::size_t size :
       {std::size_t{1}, MAX_SLOT_PUT, MAX_SLOT_PUT + 1, bulk_stream::PIECE}) {
    memory.assign(memory.size(), '.');
    std::string text = pattern(size, 9);
    EXPECT_EQ(p.a.out->put(region_op(1, text.data(), size, key, 77)), errorcode_t::done);
    p.a.say(1, "after");
    p.b.seen.messages.clear();
    p.until([&] { return p.b.seen.messages.size() == 1; });
    EXPECT_EQ(memory.substr(77, size), text);
    EXPECT_EQ(memory.substr(0, 77), std::string(77, '.'));
    EXPECT_EQ(memory.substr(77 + size), std::string(memory.size() - 77 - size, '.'));
  }
}

TEST(put, before_the_peer_has_answered__is_retry) {
  pair p;
  std::string text = "x";
  EXPECT_EQ(p.a.out->put(region_op(1, text.data(), 1, {1, 1})), errorcode_t::retry_nomem);
}

TEST(put, outside_the_registration__is_reported_and_writes_nothing) {
  pair p;
  p.meet();
  std::string memory(100, '.'), text(200, 'x');
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  int contexts[4];
  net::net_op ops[4] = {region_op(1, text.data(), 101, key), region_op(1, text.data(), 1, key, 100),
                        region_op(1, text.data(), 1, {key.slot, key.generation + 1}),
                        region_op(1, text.data(), 10, key, ~std::uint64_t{0} - 3)};
  for (int i = 0; i < 4; ++i) {
    ops[i].context = &contexts[i];
    EXPECT_EQ(p.a.out->put(ops[i]), errorcode_t::posted);
  }
  p.until([&] { return p.a.seen.errors.size() == 4; });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(p.a.seen.errors[static_cast<std::size_t>(i)].context, &contexts[i]);
    EXPECT_EQ(p.a.seen.errors[static_cast<std::size_t>(i)].rank, 1);
  }
  EXPECT_EQ(memory, std::string(100, '.'));
  EXPECT_TRUE(p.a.dev->is_drained());
}

TEST(put_imm, every_way__the_data_is_there_when_the_immediate_comes) {
  pair p;
  p.meet();
  std::string memory(200000, '.');
  const net::remote_key key = p.b.expose(memory.data(), memory.size());
  std::uint32_t imm = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, std::size_t{1000}, memory.size()}) {
    memory.assign(memory.size(), '.');
    std::string text = pattern(size, ++imm);
    net::net_op op = region_op(1, text.data(), size, key);
    op.imm = imm;
    const errorcode_t rc = p.a.out->put_imm(op);
    EXPECT_TRUE(rc == errorcode_t::done || rc == errorcode_t::posted);
    p.until([&] { return p.b.seen.immediates.size() == imm; });
    EXPECT_EQ(p.b.seen.immediates.back(), imm);
    EXPECT_EQ(memory.substr(0, size), text);
  }
}

TEST(rma, with_oneself__is_done_at_once_even_where_it_overlaps) {
  pair p;
  ASSERT_EQ(p.a.say(0, "x"), errorcode_t::done);
  std::string memory = pattern(1000, 1);
  const net::remote_key key = p.a.expose(memory.data(), memory.size());
  std::string expected = memory;
  std::memmove(expected.data() + 10, expected.data(), 500);
  EXPECT_EQ(p.a.out->put(region_op(0, memory.data(), 500, key, 10)), errorcode_t::done);
  EXPECT_EQ(memory, expected);
  std::string got(1000, 0);
  EXPECT_EQ(p.a.out->get(region_op(0, got.data(), 1000, key)), errorcode_t::done);
  EXPECT_EQ(got, expected);
  net::net_op op = region_op(0, got.data(), 0, key);
  op.imm = 4;
  EXPECT_EQ(p.a.out->put_imm(op), errorcode_t::done);
  p.until([&] { return p.a.seen.immediates.size() == 1; });
}

TEST(rma, to_a_rank_that_does_not_exist__is_fatal) {
  pair p;
  EXPECT_EQ(p.a.out->put(region_op(2, nullptr, 0, {1, 1})), errorcode_t::fatal);
  EXPECT_EQ(p.a.out->get(region_op(-1, nullptr, 0, {1, 1})), errorcode_t::fatal);
}

TEST(register_region, only_host_memory) {
  pair p;
  std::byte b{};
  std::string why_not;
  EXPECT_EQ(p.a.net->register_region(&b, 1, mem::mem_kind::host, why_not), 0u);
  p.a.net->deregister_region(0);
  EXPECT_THROW(p.a.net->register_region(&b, 1, mem::mem_kind::device, why_not), backend_error);
}

}  // namespace lci::shm
