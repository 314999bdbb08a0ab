#include "backends/shm/short_gets.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backends/shm/single_copy.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

using test::pair;
using test::pattern;

constexpr std::size_t MOST = MOST_SHORT_GET;

short_gets::open_get to_rank(int rank) {
  short_gets::open_get one;
  one.rank = rank;
  one.size = 8;
  return one;
}

// a gets from b, by the target.
struct short_get : testing::Test {
  void SetUp() override {
    net::fabric_config c;
    c.shm_single_copy = false;
    p.emplace(c);
    p->meet();
    key = p->b.expose(memory.data(), memory.size());
    // Its lane is there, so what follows goes by it.
    p->a.say(1, "x");
    p->until([&] { return p->b.seen.messages.size() == 1; });
  }
  net::net_op op(void* buffer, std::size_t size, std::uint64_t offset = 0) {
    net::net_op o;
    o.rank = 1;
    o.buffer = buffer;
    o.size = size;
    o.remote = key;
    o.remote_offset = offset;
    o.context = this;
    return o;
  }
  bool is_open() { return !p->a.behind().gets.is_empty(); }
  // What b says to a in its own lane.
  void answer(const short_gets::name& to, mem::packet* packet, std::uint32_t size) {
    const chunk_record r{{to.slot, to.generation, 0}, p->b.arena.offset_of(packet), size, 0};
    tx_lane& lane = *p->b.behind().out.own(0);
    std::memcpy(lane.next().data, &r, sizeof(r));
    lane.publish({0, sizeof(r), slot_kind::put_packet, GET_DONE});
  }
  std::string memory = pattern(2 * MOST, 7);
  std::optional<pair> p;
  net::remote_key key;
};

}  // namespace

TEST(short_gets, close__only_what_is_open_and_once) {
  short_gets all(2);
  short_gets::name name;
  short_gets::open_get got;
  ASSERT_TRUE(all.open(to_rank(1), name));
  EXPECT_TRUE(short_gets::is_one(name.slot));
  EXPECT_FALSE(all.is_empty());
  EXPECT_FALSE(all.close(0, name, got)) << "of another rank";
  EXPECT_FALSE(all.close(1, {name.slot, name.generation + 1}, got));
  EXPECT_FALSE(all.close(1, {name.slot + 1, name.generation}, got));
  EXPECT_FALSE(all.close(1, {name.slot + short_gets::COUNT, name.generation}, got));
  EXPECT_FALSE(all.close(1, {1, name.generation}, got)) << "a region's";
  EXPECT_TRUE(all.close(1, name, got));
  EXPECT_EQ(got.rank, 1);
  EXPECT_FALSE(all.close(1, name, got));
  EXPECT_FALSE(all.is_empty()) << "its poster was not told yet";
  test::note_taker seen;
  all.finish(got, nullptr, seen);
  EXPECT_TRUE(all.is_empty());
  short_gets::name next;
  ASSERT_TRUE(all.open(to_rank(1), next));
  EXPECT_TRUE(next.slot != name.slot || next.generation != name.generation);
  EXPECT_FALSE(all.close(1, name, got)) << "a late answer to the one before";
}

TEST(short_gets, open__as_many_as_there_is_room_for) {
  short_gets all(2);
  std::vector<short_gets::name> names(short_gets::COUNT);
  for (short_gets::name& one : names) ASSERT_TRUE(all.open(to_rank(1), one));
  short_gets::name more;
  EXPECT_FALSE(all.open(to_rank(1), more));
  short_gets::open_get got;
  EXPECT_TRUE(all.close(1, names[7], got));
  EXPECT_TRUE(all.open(to_rank(1), more));
  EXPECT_EQ(more.slot, names[7].slot);
}

TEST(short_gets, drop__those_to_the_rank_and_none_afterwards) {
  short_gets all(3);
  short_gets::name name;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(all.open(to_rank(1 + i % 2), name));
  short_gets::open_get got;
  int dropped = 0;
  for (; all.drop(1, got); ++dropped) EXPECT_EQ(got.rank, 1);
  EXPECT_EQ(dropped, 2);
  EXPECT_FALSE(all.open(to_rank(1), name));
  EXPECT_TRUE(all.open(to_rank(2), name));
}

TEST_F(short_get, brings_the_bytes__and_makes_no_region) {
  const std::size_t live = p->a.regions.live();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4}, std::size_t{8}, MOST - 1, MOST}) {
    std::string text(size, '.');
    ASSERT_EQ(p->a.out->get(op(text.data(), size, 3)), errorcode_t::posted);
    EXPECT_TRUE(is_open()) << size;
    EXPECT_FALSE(p->a.dev->is_drained());
    EXPECT_EQ(p->a.regions.live(), live);
    p->until([&] { return !p->a.seen.completed.empty(); });
    EXPECT_EQ(text, memory.substr(3, size)) << size;
    EXPECT_EQ(p->a.seen.completed, std::vector<void*>{this});
    EXPECT_TRUE(p->a.dev->is_drained());
    p->a.seen.completed.clear();
  }
}

TEST_F(short_get, a_larger_one__goes_the_other_way) {
  std::string text(MOST + 1, '.');
  ASSERT_EQ(p->a.out->get(op(text.data(), text.size())), errorcode_t::posted);
  EXPECT_FALSE(is_open());
  p->until([&] { return !p->a.seen.completed.empty(); });
  EXPECT_EQ(text, memory.substr(0, text.size()));
}

TEST_F(short_get, many_at_once__all_come) {
  std::vector<std::string> texts(3 * short_gets::COUNT, std::string(MOST, '.'));
  for (std::string& text : texts)
    ASSERT_EQ(p->post([&] { return p->a.out->get(op(text.data(), text.size(), 5)); }),
              errorcode_t::posted);
  p->until([&] { return p->a.seen.completed.size() == texts.size(); });
  for (const std::string& text : texts) EXPECT_EQ(text, memory.substr(5, MOST));
  EXPECT_TRUE(p->a.dev->is_drained());
}

TEST_F(short_get, behind_a_put_of_its_lane__sees_it) {
  const std::string put = pattern(64, 9);
  std::string text(64, '.');
  net::net_op o = op(const_cast<char*>(put.data()), put.size());
  o.context = nullptr;
  ASSERT_EQ(p->a.out->put(o), errorcode_t::done);
  ASSERT_EQ(p->a.out->get(op(text.data(), text.size())), errorcode_t::posted);
  EXPECT_TRUE(is_open());
  p->until([&] { return !p->a.seen.completed.empty(); });
  EXPECT_EQ(text, put);
}

TEST_F(short_get, of_a_registration_that_has_ended__fails) {
  std::string text(8, '.');
  ASSERT_EQ(p->a.out->get(op(text.data(), text.size())), errorcode_t::posted);
  EXPECT_TRUE(is_open());
  p->b.regions.erase({key.slot, key.generation});
  p->until([&] { return !p->a.seen.errors.empty(); });
  EXPECT_EQ(p->a.seen.errors[0].context, this);
  EXPECT_EQ(p->a.seen.errors[0].reason, reason_of(copied::unknown));
  EXPECT_EQ(text, "........");
  EXPECT_TRUE(p->a.dev->is_drained());
}

TEST_F(short_get, an_answer_to_nothing__is_left_alone) {
  p->b.say(0, "x");
  mem::packet* const packet = p->b.pool.get();
  packet->state.store(mem::packet_state::lent);
  answer({mem::region_table::MAX_REGIONS, 0}, packet, 8);
  p->until([&] { return packet->state.load() == mem::packet_state::returned; });
  EXPECT_TRUE(p->a.seen.completed.empty());
  EXPECT_TRUE(p->a.seen.gone.empty());
}

TEST_F(short_get, an_answer_of_another_size__is_an_error) {
  p->b.say(0, "x");
  std::string text(8, '.');
  short_gets::open_get what = to_rank(1);
  what.buffer = reinterpret_cast<std::byte*>(text.data());
  what.context = this;
  short_gets::name name;
  ASSERT_TRUE(p->a.behind().gets.open(what, name));
  mem::packet* const packet = p->b.pool.get();
  packet->state.store(mem::packet_state::lent);
  answer(name, packet, 16);
  p->until([&] { return !p->a.seen.errors.empty(); });
  EXPECT_EQ(p->a.seen.errors[0].reason, "the answer has another size");
  EXPECT_EQ(text, "........");
}

TEST_F(short_get, of_a_peer_that_ends__fails) {
  std::string text(8, '.');
  ASSERT_EQ(p->a.out->get(op(text.data(), text.size())), errorcode_t::posted);
  EXPECT_TRUE(is_open());
  p->b.net->leave();
  p->b.close();
  pair::until([&] { return !p->a.seen.gone.empty(); }, {&p->a});
  ASSERT_EQ(p->a.seen.errors.size(), 1u);
  EXPECT_EQ(p->a.seen.errors[0].context, this);
  EXPECT_TRUE(p->a.dev->is_drained());
}

}  // namespace lci::shm
