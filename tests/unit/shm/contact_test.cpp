// First contact and the end of peers, within one process; real deaths are in process_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/leak_guard.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;

std::size_t mappings_of_memory_files() {
  std::ifstream maps("/proc/self/maps");
  std::size_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find("memfd:") != std::string::npos;
  return n;
}

// Somebody who knows b's address and says `said`, passing `file` along.
lci::base::descriptor stranger(pair& p, const void* said, std::size_t size, int file) {
  lci::base::descriptor s;
  EXPECT_EQ(connect_to(address::parse(p.all[1])->id, s), 0);
  EXPECT_EQ(send_record(s.get(), {static_cast<const std::byte*>(said), size}, file), 0);
  return s;
}

hello hello_to_b(pair& p) {
  hello said;
  said.rank = 0;
  said.from = address::parse(p.all[0])->id;
  said.to = address::parse(p.all[1])->id;
  said.arena_reserve = p.a.arena.reserved();
  said.control = p.a.arena.offset_of(&p.a.net->connections().control());
  said.table = said.control;
  return said;
}

// One that b believes.
lci::base::descriptor forged_a(pair& p) {
  hello said = hello_to_b(p);
  said.table = p.a.arena.offset_of(new (p.a.arena.allocate(sizeof(device_table))) device_table);
  return stranger(p, &said, sizeof(said), p.a.arena.fd());
}

// b hangs up on it, and does not take it for rank 0.
void expect_refused(pair& p, const hello& said, int file) {
  const lci::base::descriptor s = stranger(p, &said, sizeof(said), file);
  received end;
  p.until([&] {
    end = receive_record(s.get());
    // What it says of its reasons comes before.
    const bool is_words = !words_of_refusal({end.bytes.data(), end.size}).empty();
    return end.error != EAGAIN && !is_words;
  });
  EXPECT_TRUE(end.size == 0);
  const peer* zero = p.b.net->connections().find(0);
  EXPECT_TRUE(zero == nullptr || zero->state.load() != contact::mapped);
  EXPECT_GE(p.b.net->connections().dropped(), 1u);
}

}  // namespace

TEST(meet, both_at_once__messages_cross_and_nobody_is_mapped_twice) {
  const std::size_t before = mappings_of_memory_files();
  pair p;
  EXPECT_EQ(p.a.say(1, "to b"), errorcode_t::done);
  EXPECT_EQ(p.b.say(0, "to a"), errorcode_t::done);
  p.until([&] { return p.a.seen.messages.size() == 1 && p.b.seen.messages.size() == 1; });
  p.until([&] {
    return p.a.net->connections().find(1)->state.load() == contact::mapped &&
           p.b.net->connections().find(0)->state.load() == contact::mapped;
  });
  for (int i = 0; i < 10000; ++i) {
    p.a.poll();
    p.b.poll();
  }
  EXPECT_EQ(mappings_of_memory_files(), before + 4) << "two arenas, each mapped by the other";
  EXPECT_EQ(p.a.say(1, "again"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 2; });
}

TEST(meet, a_lane_made_after_the_hello__is_found_all_the_same) {
  pair p;
  p.meet();
  EXPECT_EQ(p.b.say(0, "back"), errorcode_t::done);
  p.until([&] { return p.a.seen.messages.size() == 1; });
  EXPECT_EQ(p.a.net->connections().find(1)->links, 1) << "the answer came on the same connection";
}

TEST(meet, connect__makes_contact_without_a_message) {
  pair p;
  p.a.net->connect(1);
  p.until([&] {
    return p.a.net->check_remote(1, {1, 1}).what == net::remote_view::answer::unknown_key;
  });
  EXPECT_TRUE(p.b.seen.messages.empty());
}

// It has written without an answer of ours, and left: no poll has seen it yet.
TEST(meet, a_caller_that_has_left__is_known_once_callers_are_heard) {
  pair p;
  EXPECT_EQ(p.a.say(1, "last words"), errorcode_t::done);
  p.a.net->leave();
  p.a.close();
  EXPECT_FALSE(p.b.dev->may_bring(0));
  EXPECT_TRUE(p.b.net->hear_callers());
  EXPECT_TRUE(p.b.dev->may_bring(0));
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_TRUE(p.b.seen.gone[0].orderly);
  EXPECT_EQ(p.b.seen.gone[0].messages_before, 1u);
}

TEST(meet, nobody_there__the_rank_is_gone_and_the_reason_is_said) {
  pair p;
  p.b.close();
  EXPECT_EQ(p.a.say(1, "x"), errorcode_t::fatal);
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_FALSE(p.a.seen.gone[0].orderly);
  EXPECT_NE(p.a.seen.gone[0].reason.find("no process listens"), std::string::npos);
}

TEST(meet, another_host_or_namespace__is_said_precisely) {
  for (const bool other_host : {true, false}) {
    pair p;
    address there = *address::parse(p.all[1]);
    if (other_host) there.host = "elsewhere";
    ++there.network_ns;
    p.all[1] = there.text();
    EXPECT_EQ(p.a.say(1, "x"), errorcode_t::fatal);
    p.until([&] { return !p.a.seen.gone.empty(); });
    EXPECT_NE(p.a.seen.gone[0].reason.find(other_host ? "another host" : "network namespace"),
              std::string::npos)
        << p.a.seen.gone[0].reason;
  }
}

TEST(meet, an_address_that_is_none__is_said) {
  pair p;
  p.all[1] = "mlx5 0x1234";
  EXPECT_EQ(p.a.say(1, "x"), errorcode_t::fatal);
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_NE(p.a.seen.gone[0].reason.find("does not parse"), std::string::npos);
}

TEST(take_hello, wrong_claims__are_refused) {
  const auto refused = [](const std::function<void(hello&)>& spoil) {
    pair p;
    hello said = hello_to_b(p);
    spoil(said);
    expect_refused(p, said, p.a.arena.fd());
  };
  refused([](hello& h) { h.magic = 0; });
  refused([](hello& h) { h.version = 99; });
  refused([](hello& h) { h.rank = 2; });
  refused([](hello& h) { h.rank = -1; });
  refused([](hello& h) { h.rank = 1; });  // that is b itself
  refused([](hello& h) { h.to[3] ^= 1; });
  refused([](hello& h) { h.from[3] ^= 1; });  // not whom the address book names
}

TEST(take_hello, wrong_places__are_refused) {
  const auto refused = [](const std::function<void(hello&)>& spoil) {
    pair p;
    hello said = hello_to_b(p);
    spoil(said);
    expect_refused(p, said, p.a.arena.fd());
  };
  refused([](hello& h) { h.control = 0; });
  refused([](hello& h) { h.control += 8; });
  refused([](hello& h) { h.control += 64; });  // aligned, but no control page
  refused([](hello& h) { h.control = std::uint64_t{1} << 40; });
  refused([](hello& h) { h.table = std::uint64_t{1} << 40; });
  refused([](hello& h) { h.rows = std::uint64_t{1} << 40; });
  refused([](hello& h) { h.arena_reserve = 0; });
  refused([](hello& h) { h.arena_reserve = ~std::uint64_t{0}; });
}

TEST(take_hello, without_a_memory_file__is_refused) {
  pair p;
  expect_refused(p, hello_to_b(p), -1);
}

TEST(take_hello, noise_and_silence__hurt_nobody) {
  pair p;
  const char noise[] = "GET / HTTP/1.1";
  const lci::base::descriptor loud = stranger(p, noise, sizeof(noise), -1);
  lci::base::descriptor silent;
  ASSERT_EQ(connect_to(address::parse(p.all[1])->id, silent), 0);
  p.meet();
  silent.reset();
  EXPECT_EQ(p.a.say(1, "x"), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  EXPECT_TRUE(p.b.seen.gone.empty());
}

// As when both called at once, and one has met the other over its call and is through.
TEST(take_hello, of_one_that_has_left__comes_late_and_is_no_error) {
  for (const bool in_good_order : {true, false}) {
    pair p;
    p.meet();
    const hello said = hello_to_b(p);
    if (in_good_order) p.a.net->leave();
    p.a.close();
    p.until([&] { return p.b.seen.gone.size() == 1; });
    const std::uint64_t before = p.b.net->connections().dropped();
    const lci::base::descriptor late = stranger(p, &said, sizeof(said), p.a.arena.fd());
    received end;
    p.until([&] {
      end = receive_record(late.get());
      return end.error != EAGAIN;
    });
    EXPECT_EQ(end.size, 0u);
    EXPECT_EQ(p.b.net->connections().dropped(), before + (in_good_order ? 0 : 1));
    EXPECT_EQ(p.b.seen.gone.size(), 1u);
  }
}

TEST(hang_up, with_leave__is_orderly_and_comes_after_the_last_message) {
  pair p;
  p.meet();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(p.a.say(1, "x"), errorcode_t::done);
  p.a.net->leave();
  p.a.net->leave();
  p.a.close();
  p.until([&] { return !p.b.seen.gone.empty(); });
  ASSERT_EQ(p.b.seen.gone.size(), 1u);
  EXPECT_TRUE(p.b.seen.gone[0].orderly);
  EXPECT_EQ(p.b.seen.gone[0].messages_before, 100u);
}

// What the system tells first is that the connection was reset.
TEST(hang_up, with_words_of_ours_unread__a_bye_still_counts) {
  pair p;
  p.meet();
  p.b.net->leave();
  p.a.net->leave();
  p.a.close();
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_TRUE(p.b.seen.gone[0].orderly) << p.b.seen.gone[0].reason;
}

// Both sides called at once: two connections, and the news of them come in any order.
TEST(hang_up, of_one_connection_of_two__a_bye_on_the_other_counts) {
  pair p;
  lci::base::descriptor first = forged_a(p), second = forged_a(p);
  p.until([&] {
    return p.b.net->connections().find(0) != nullptr && p.b.net->connections().find(0)->links == 2;
  });
  first.reset();  // the look comes to this one first
  const bye farewell;
  EXPECT_EQ(send_record(second.get(), std::as_bytes(std::span(&farewell, 1)), -1), 0);
  second.reset();
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_TRUE(p.b.seen.gone[0].orderly) << p.b.seen.gone[0].reason;
  EXPECT_EQ(p.b.seen.gone.size(), 1u);
}

TEST(hang_up, of_one_connection_of_two_without_a_bye__is_a_death) {
  pair p;
  lci::base::descriptor first = forged_a(p);
  const lci::base::descriptor second = forged_a(p);
  p.until([&] {
    return p.b.net->connections().find(0) != nullptr && p.b.net->connections().find(0)->links == 2;
  });
  first.reset();
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_FALSE(p.b.seen.gone[0].orderly);
  EXPECT_NE(p.b.seen.gone[0].reason.find("hung up"), std::string::npos);
}

// It called, and its call was not answered yet when we left.
TEST(hang_up, leave__is_told_to_callers_that_were_not_accepted_yet) {
  pair p;
  EXPECT_EQ(p.a.say(1, "nobody looked yet"), errorcode_t::done);
  p.b.net->leave();
  p.b.close();
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_TRUE(p.a.seen.gone[0].orderly) << p.a.seen.gone[0].reason;
}

TEST(hang_up, before_the_first_look__nothing_is_lost) {
  pair p;
  EXPECT_EQ(p.a.say(1, "first and last"), errorcode_t::done);
  p.a.close();
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_FALSE(p.b.seen.gone[0].orderly);
  EXPECT_EQ(p.b.seen.gone[0].messages_before, 1u);
}

TEST(hang_up, before_the_first_look_and_we_call_it__nothing_is_lost_either) {
  pair p;
  EXPECT_EQ(p.a.say(1, "first and last"), errorcode_t::done);
  p.a.close();
  // Rank 1 has not looked yet: its call is refused, but what waits in its queue comes first.
  const errorcode_t rc = p.b.say(0, "are you there?");
  EXPECT_EQ(rc, errorcode_t::fatal);
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_EQ(p.b.seen.gone[0].messages_before, 1u);
}

TEST(hang_up, deferred_messages__hold_the_news_back) {
  pair p;
  p.meet();
  p.a.say(1, "x");
  bool ready = false;
  p.b.seen.answer = [&](const net::arrival&) {
    return ready ? net::verdict::taken : net::verdict::deferred;
  };
  p.a.close();
  p.until([&] { return p.b.net->connections().find(0)->has_ended(); });
  for (int i = 0; i < 1000; ++i) p.b.poll();
  EXPECT_TRUE(p.b.seen.gone.empty());
  ready = true;
  p.until([&] { return !p.b.seen.gone.empty(); });
  EXPECT_EQ(p.b.seen.gone[0].messages_before, 1u);
}

TEST(hang_up, packets_that_were_lent__come_home) {
  pair p;
  p.meet();
  p.b.seen.answer = [](const net::arrival& m) {
    return m.packet != nullptr ? net::verdict::kept : net::verdict::taken;
  };
  for (int i = 0; i < 5; ++i) {
    net::net_op op;
    op.rank = 1;
    op.packet = p.a.pool.get();
    op.buffer = op.packet->payload();
    op.size = 1000;
    ASSERT_EQ(p.a.out->send(op), errorcode_t::done);
  }
  p.until([&] { return p.b.seen.messages.size() == 5; });
  EXPECT_EQ(p.a.pool.outstanding(), 5u);
  p.b.close();
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

// Pools come and go while packets of others are lent.
TEST(hang_up, a_pool_that_is_gone__is_not_asked_for_its_packets) {
  pair p;
  p.meet();
  auto pool = std::make_unique<mem::packet_pool>(p.a.arena, 4096, 8);
  net::net_op op;
  op.rank = 1;
  op.packet = pool->get();
  op.buffer = op.packet->payload();
  op.size = 1000;
  ASSERT_EQ(p.a.out->send(op), errorcode_t::done);
  p.until([&] { return p.b.seen.messages.size() == 1; });
  pool.reset();
  // What lies where the pool was is no pool.
  const std::vector<std::byte> ruins(sizeof(mem::packet_pool), std::byte{0xee});
  p.b.close();
  p.until([&] { return !p.a.seen.gone.empty(); });
  EXPECT_EQ(p.a.pool.outstanding(), 0u);
}

TEST(hang_up, every_device__is_told_once) {
  pair p;
  p.meet();
  auto second = p.b.net->make_device(1);
  test::note_taker seen;
  p.a.close();
  p.until([&] {
    second->poll(seen, 64);
    return !seen.gone.empty() && !p.b.seen.gone.empty();
  });
  for (int i = 0; i < 1000; ++i) {
    p.b.poll();
    second->poll(seen, 64);
  }
  EXPECT_EQ(seen.gone.size(), 1u);
  EXPECT_EQ(p.b.seen.gone.size(), 1u);
}

TEST(fabric, closed__leaves_no_descriptor_and_no_mapping) {
  const std::size_t mappings = mappings_of_memory_files();
  lci::test::leak_guard guard;
  {
    pair p;
    p.meet();
    p.a.say(0, "me");
    p.until([&] { return p.a.seen.messages.size() == 1; });
  }
  EXPECT_EQ(mappings_of_memory_files(), mappings);
  guard.check();
}

}  // namespace lci::shm
