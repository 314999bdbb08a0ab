// Magazines and lent lists, the parts of a pool.
#include "lci/mem/packet_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace lci::mem {
namespace {

constexpr auto EVERY = [](const packet&) { return true; };

class lent_list_test : public testing::Test {
 protected:
  void lend(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      packets_[i].note = i;
      list_.add(&packets_[i]);
    }
  }
  template <class Want>
  std::vector<std::uint64_t> remove(std::uint32_t limit, Want want) {
    std::vector<std::uint64_t> seen;
    const std::uint32_t n = list_.remove(limit, want, [&](packet* p) { seen.push_back(p->note); });
    EXPECT_EQ(n, seen.size());
    return seen;
  }
  using notes = std::vector<std::uint64_t>;

  packet packets_[8];
  lent_list list_;
};
using remove__lent = lent_list_test;

TEST(magazine__order, last_in_first_out) {
  packet packets[3];
  magazine m;
  EXPECT_TRUE(m.is_empty());
  EXPECT_EQ(m.pop(), nullptr);
  for (auto& p : packets) m.push(&p);
  EXPECT_EQ(m.count(), 3u);
  EXPECT_EQ(m.pop(), &packets[2]);
  EXPECT_EQ(m.pop(), &packets[1]);
  EXPECT_EQ(m.pop(), &packets[0]);
  EXPECT_EQ(m.pop(), nullptr);
  EXPECT_EQ(m.count(), 0u);
}

TEST(magazine__move, a_chain_keeps_order_and_count) {
  packet packets[3];
  magazine from, to;
  for (auto& p : packets) from.push(&p);
  packet* const chain = from.release();
  EXPECT_TRUE(from.is_empty());
  EXPECT_EQ(from.count(), 0u);
  to.load(chain, 3);
  EXPECT_EQ(to.count(), 3u);
  EXPECT_EQ(to.pop(), &packets[2]);
}

TEST(magazine__capacity, full_at_the_constant) {
  std::vector<packet> packets(magazine::CAPACITY);
  magazine m;
  for (auto& p : packets) {
    EXPECT_FALSE(m.is_full());
    m.push(&p);
  }
  EXPECT_TRUE(m.is_full());
}

TEST_F(remove__lent, all_oldest_first) {
  lend(4);
  EXPECT_EQ(remove(0, EVERY), (notes{0, 1, 2, 3}));
  EXPECT_EQ(list_.count(), 0u);
  lend(2);
  EXPECT_EQ(remove(0, EVERY), (notes{0, 1})) << "works again after it was empty";
}

TEST_F(remove__lent, from_the_middle_and_both_ends) {
  lend(8);
  EXPECT_EQ(remove(8, [](const packet& p) { return p.note % 2 == 1; }), (notes{1, 3, 5, 7}));
  EXPECT_EQ(remove(8, [](const packet& p) { return p.note == 0; }), (notes{0}));
  packets_[7].note = 70;
  list_.add(&packets_[7]);
  EXPECT_EQ(remove(8, EVERY), (notes{2, 4, 6, 70}));
}

TEST_F(remove__lent, the_look_stops_after_so_many_others) {
  lend(8);
  const auto last = [](const packet& p) { return p.note == 7; };
  EXPECT_EQ(remove(6, last), notes{});
  EXPECT_EQ(list_.count(), 8u);
  EXPECT_EQ(remove(7, last), notes{7});
}

// More than the table has places for, and the table's end in the middle: as a plain list would.
TEST_F(remove__lent, as_many_as_there_are_in_any_order) {
  std::vector<packet> packets(3 * lent_list::TABLE);
  std::vector<packet*> idle;
  std::vector<std::uint64_t> expected;  // notes, oldest first
  for (packet& p : packets) idle.push_back(&p);
  std::mt19937 random(7);
  std::uint64_t note = 0;
  std::size_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    const bool is_growing = round / 500 % 2 == 0;
    const std::uint32_t in = random() % (is_growing ? 12 : 4);
    for (std::uint32_t i = 0; i < in && !idle.empty(); ++i) {
      idle.back()->note = note;
      list_.add(idle.back());
      idle.pop_back();
      expected.push_back(note++);
    }
    most = std::max(most, expected.size());
    const std::uint32_t limit = random() % 8 == 0 ? ~0u : random() % 10;
    const std::uint32_t part = is_growing ? 300 + random() % 4 : 1 + random() % 4;
    notes taken;
    std::uint32_t left = limit;
    bool is_over = false;
    std::erase_if(expected, [&](std::uint64_t n) {
      if (is_over) return false;
      if (n % part == 0) {
        taken.push_back(n);
        return true;
      }
      is_over = left-- == 0;
      return false;
    });
    notes seen;
    list_.remove(
        limit, [&](const packet& p) { return p.note % part == 0; },
        [&](packet* p) {
          seen.push_back(p->note);
          idle.push_back(p);
        });
    ASSERT_EQ(seen, taken) << "round " << round;
    ASSERT_EQ(list_.count(), expected.size());
  }
  EXPECT_GT(most, 2 * lent_list::TABLE);
}

}  // namespace
}  // namespace lci::mem
