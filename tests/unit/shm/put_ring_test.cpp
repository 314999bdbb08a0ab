// The ring of bytes of puts: alone beside a lane, and between two ranks.
#include "backends/shm/put_ring.hpp"

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/shm/pair.hpp"

namespace lci::shm {
namespace {

constexpr std::uint32_t EIGHTH = put_ring::SIZE / 8;

// A lane whose consumer is the test.
class ring : public testing::Test {
 protected:
  void SetUp() override { lane_.begin(slots_.data(), first_position(0), consumed_); }
  // One put; null: no room.
  std::byte* put(std::size_t size) {
    std::byte* const at = ring_.reserve(lane_, size);
    if (at != nullptr) {
      ring_.commit(lane_);
      message();
    }
    return at;
  }
  void message() { lane_.publish({0, 0, slot_kind::message, 0}); }
  void consume(std::uint32_t n) { consumed_ += n; }

  mem::arena arena_{std::size_t{64} << 20};
  std::vector<slot> slots_{LANE_SLOTS};
  consumed_count consumed_{first_position(0)};
  tx_lane lane_;
  put_ring ring_{arena_};
};

}  // namespace

TEST_F(ring, puts__lie_one_behind_the_other_on_lines_of_their_own) {
  std::byte* const first = put(1);
  EXPECT_EQ(put(64), first + 64);
  EXPECT_EQ(put(65), first + 128);
  EXPECT_EQ(put(1), first + 256);
}

TEST_F(ring, that_is_full__has_room_again_where_the_oldest_was_consumed) {
  std::byte* const first = put(EIGHTH);
  for (int i = 1; i < 8; ++i) EXPECT_EQ(put(EIGHTH), first + i * EIGHTH);
  EXPECT_EQ(put(1), nullptr);
  consume(1);
  EXPECT_EQ(put(EIGHTH), first);
  EXPECT_EQ(put(1), nullptr);
  consume(2);
  EXPECT_EQ(put(1), first + EIGHTH);
}

TEST_F(ring, other_messages_of_the_lane__hold_no_room) {
  ASSERT_NE(put(8 * EIGHTH), nullptr);
  message();
  EXPECT_EQ(put(1), nullptr);
  consume(1);  // the put, and not the message behind it
  EXPECT_NE(put(1), nullptr);
}

TEST_F(ring, at_its_end__a_put_is_not_cut_in_two) {
  std::byte* const first = put(5 * EIGHTH);
  EXPECT_EQ(put(2 * EIGHTH), first + 5 * EIGHTH);
  consume(1);
  EXPECT_EQ(put(2 * EIGHTH), first);  // an eighth is left out
  EXPECT_EQ(put(3 * EIGHTH), first + 2 * EIGHTH);
  EXPECT_EQ(put(1), nullptr);
  consume(1);  // what was left out becomes free with the put behind it
  EXPECT_EQ(put(2 * EIGHTH + 1), nullptr);
  EXPECT_EQ(put(2 * EIGHTH), first + 5 * EIGHTH);
}

TEST_F(ring, what_is_reserved_and_not_taken__is_free) {
  std::byte* const first = ring_.reserve(lane_, 8 * EIGHTH);
  EXPECT_EQ(ring_.reserve(lane_, 8 * EIGHTH), first);
  EXPECT_EQ(put(EIGHTH), first);
}

TEST_F(ring, as_many_puts_as_a_lane_has_slots__wait_until_one_was_consumed) {
  for (std::uint32_t i = 0; i < LANE_SLOTS; ++i) ASSERT_NE(put(8), nullptr);
  EXPECT_EQ(ring_.reserve(lane_, 8), nullptr);
  consume(1);
  EXPECT_NE(ring_.reserve(lane_, 8), nullptr);
}

TEST_F(ring, counts_that_wrap__change_nothing) {
  // 33 KiB leave a rest at the end of each lap; some 9 GiB in all. One is always under way.
  constexpr std::uint32_t SIZE = 33 * 1024;
  std::byte* const first = put(SIZE);
  std::uint32_t laps = 0;
  for (std::uint64_t n = 0; n < std::uint64_t{2} * (std::uint64_t{1} << 32) / SIZE; ++n) {
    std::byte* const at = put(SIZE);
    ASSERT_NE(at, nullptr) << n;
    ASSERT_LE(at + SIZE, first + put_ring::SIZE);
    if (at == first) ++laps;
    consume(1);
  }
  EXPECT_NEAR(laps, 2.0 * (1ull << 32) / SIZE / 15, 2);
}

TEST_F(ring, puts_that_are_waited_for__use_its_start_alone) {
  for (const std::size_t size : {512u, 1024u, 2048u, 4096u, 8192u}) {
    std::set<std::byte*> places;
    for (int i = 0; i < 1000; ++i) {
      std::byte* const at = put(size);
      if (i >= 50) places.insert(at);  // the first ones go on behind those before
      consume(1);
    }
    EXPECT_LE(places.size() * size, size <= 2048 ? 4096 + size : 9 * size) << size;
  }
}

TEST_F(ring, that_began_anew_before_its_end__is_free_behind_that) {
  for (int i = 0; i < 8; ++i) ASSERT_NE(put(1024), nullptr);
  consume(8);
  std::byte* const first = put(1024);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(put(EIGHTH), first + 1024 + i * EIGHTH);
}

TEST_F(ring, large_puts_of_which_one_is_always_under_way__go_all_the_way_round) {
  std::byte* const first = put(8192);
  std::byte* last = first;
  for (int i = 1; i < 64; ++i) {
    std::byte* const at = put(8192);
    EXPECT_EQ(at, last + 8192);
    last = at;
    consume(1);
  }
  EXPECT_EQ(put(8192), first);
}

TEST_F(ring, small_puts__begin_anew_when_half_of_a_few_kib_is_free_there) {
  std::byte* const first = put(2048);
  for (int i = 1; i < 8; ++i) ASSERT_NE(put(2048), nullptr);
  consume(3);  // 6 KiB
  EXPECT_EQ(put(2048), first + 16 * 1024);
  for (int i = 0; i < 3; ++i) ASSERT_NE(put(2048), nullptr);
  consume(1);  // 8 KiB
  EXPECT_EQ(put(2048), first);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(put(2048), first + i * 2048);
  EXPECT_EQ(put(2048), nullptr);  // the next ones there are under way
  consume(1);
  EXPECT_EQ(put(2048), first + 8192);
}

namespace {

class puts : public testing::Test {
 protected:
  void SetUp() override {
    p_.meet();
    key_ = p_.b.expose(there_.data(), there_.size());
  }
  errorcode_t put(std::size_t size, std::size_t from) {
    net::net_op op;
    op.rank = 1;
    op.buffer = data_.data() + from;
    op.size = size;
    op.remote = key_;
    op.remote_offset = from;
    op.imm = static_cast<std::uint32_t>(size);
    return p_.a.out->put_imm(op);
  }
  static net::fabric_config through_lanes() {
    net::fabric_config config;
    config.shm_single_copy_min = std::size_t{1} << 30;
    return config;
  }

  test::pair p_{through_lanes()};
  std::string data_ = test::pattern(1 << 20, 3);
  std::string there_ = std::string(1 << 20, '.');
  net::remote_key key_;
};

}  // namespace

TEST_F(puts, more_than_the_ring_holds__wait_for_the_target_and_all_arrive) {
  constexpr std::size_t SIZE = 24 * 1024;
  std::size_t posted = 0;
  while (put(SIZE, posted * SIZE) == errorcode_t::done) ++posted;
  EXPECT_EQ(posted, put_ring::SIZE / SIZE);
  EXPECT_EQ(there_, std::string(there_.size(), '.'));
  for (const std::size_t all = there_.size() / SIZE; posted < all; ++posted)
    ASSERT_EQ(p_.post([&] { return put(SIZE, posted * SIZE); }), errorcode_t::done);
  p_.until([&] { return p_.b.seen.immediates.size() == posted; });
  EXPECT_EQ(there_.substr(0, posted * SIZE), data_.substr(0, posted * SIZE));
}

TEST_F(puts, a_target_that_always_finds_some__says_what_it_read_before_the_ring_is_full) {
  constexpr std::size_t SIZE = 8 * 1024;
  std::size_t from = 0;
  const auto post = [&] {
    const errorcode_t rc = put(SIZE, from % there_.size());
    from += SIZE;
    return rc;
  };
  ASSERT_EQ(post(), errorcode_t::done);
  // One is always left, so no poll finds nothing.
  for (std::size_t i = 0; i < 4 * put_ring::SIZE / SIZE; ++i) {
    ASSERT_EQ(post(), errorcode_t::done) << i;
    p_.b.poll(1);
  }
}

TEST_F(puts, without_memory_for_a_ring__go_in_packets) {
  // A large one makes the packets.
  ASSERT_EQ(p_.post([&] { return put(100 * 1024, 1024); }), errorcode_t::posted);
  p_.until([&] { return p_.b.seen.immediates.size() == 1; });
  for (bool is_full = false; !is_full;) {
    try {
      p_.a.arena.allocate(put_ring::SIZE);
    } catch (const std::bad_alloc&) {
      is_full = true;
    }
  }
  ASSERT_EQ(p_.post([&] { return put(1024, 0); }), errorcode_t::posted);
  p_.until([&] { return p_.b.seen.immediates.size() == 2; });
  EXPECT_EQ(there_.substr(0, 1024), data_.substr(0, 1024));
}

TEST_F(puts, to_a_registration_that_ended__are_counted_and_the_next_arrives) {
  const net::remote_key other = p_.b.expose(there_.data() + 1000, 1000);
  ASSERT_EQ(put(500, 0), errorcode_t::done);
  EXPECT_TRUE(p_.b.regions.erase({key_.slot, key_.generation}));
  const std::uint64_t before = p_.b.net->connections().dropped();
  p_.until([&] { return p_.b.net->connections().dropped() == before + 1; });
  EXPECT_TRUE(p_.b.seen.immediates.empty());
  key_ = other;
  ASSERT_EQ(put(500, 0), errorcode_t::done);
  p_.until([&] { return !p_.b.seen.immediates.empty(); });
  EXPECT_EQ(there_.substr(1000, 500), data_.substr(0, 500));
}

}  // namespace lci::shm
