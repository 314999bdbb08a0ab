// The numbers of devices, as all ranks of a made-up job see them: each in a thread of its own.
#include "lci/runtime/device_numbers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <mutex>
#include <thread>

namespace lci::runtime {
namespace {

// What a rank puts is seen by others at once, earlier than a bootstrap promises at the latest.
struct board {
  explicit board(int ranks) : said(static_cast<std::size_t>(ranks)), meeting(ranks) {}
  std::mutex lock;
  std::vector<std::map<std::string, std::string>> said;  // by rank
  std::barrier<> meeting;
  int gets = 0;
};

class board_bootstrap final : public boot::bootstrap {
 public:
  board_bootstrap(board& on, int rank) : on_(on), rank_(rank) {}
  const char* name() const noexcept override { return "board"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(on_.said.size()); }
  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(on_.lock);
    on_.said[static_cast<std::size_t>(rank_)][key] = value;
  }
  void fence() override { on_.meeting.arrive_and_wait(); }
  std::string get(int rank, const std::string& key) override {
    const std::lock_guard lock(on_.lock);
    ++on_.gets;
    return on_.said[static_cast<std::size_t>(rank)].at(key);
  }

 private:
  board& on_;
  const int rank_;
};

struct member {
  int alloc(const net::device_config& wanted = {}) {
    const int out = numbers.take(wanted, boot);
    numbers.meet(boot);
    return out;
  }
  int rank;
  board_bootstrap boot;
  device_numbers numbers{"key"};
};

constexpr int RANKS = 3;

// Runs body in all ranks at once; what it answers, by rank.
template <class Body>
std::vector<std::vector<int>> in_ranks(board& on, Body body) {
  std::vector<std::vector<int>> out(RANKS);
  std::vector<std::thread> threads;
  for (int r = 0; r < RANKS; ++r) {
    threads.emplace_back([&, r] {
      member me{r, board_bootstrap(on, r)};
      out[static_cast<std::size_t>(r)] = body(me);
    });
  }
  for (std::thread& one : threads) one.join();
  return out;
}

void expect_all(const std::vector<std::vector<int>>& got, const std::vector<int>& expected) {
  for (const std::vector<int>& one : got) EXPECT_EQ(one, expected);
}

TEST(device_numbers, take__one_after_the_other_asks_nobody) {
  board on(RANKS);
  expect_all(in_ranks(on,
                      [](member& me) {
                        return std::vector<int>{me.alloc(), me.alloc(), me.alloc()};
                      }),
             {0, 1, 2});
  EXPECT_EQ(on.gets, 0);
}

TEST(device_numbers, take__what_all_have_given_back_comes_again) {
  board on(RANKS);
  expect_all(in_ranks(on,
                      [](member& me) {
                        std::vector<int> seen{me.alloc()};
                        for (int i = 0; i < 5; ++i) {
                          seen.push_back(me.alloc());
                          me.numbers.give_back(seen.back());
                        }
                        return seen;
                      }),
             {0, 1, 2, 1, 2, 1});
}

// Each rank frees when it likes, and the others learn of it at the next meeting.
TEST(device_numbers, take__not_what_one_rank_has_still_in_use) {
  board on(RANKS);
  expect_all(in_ranks(on,
                      [](member& me) {
                        std::vector<int> seen{me.alloc(), me.alloc()};
                        if (me.rank != 1) me.numbers.give_back(0);
                        if (me.rank != 2) me.numbers.give_back(1);
                        for (int i = 0; i < 2; ++i) seen.push_back(me.alloc());
                        if (me.rank == 1) me.numbers.give_back(0);
                        for (int i = 0; i < 2; ++i) seen.push_back(me.alloc());
                        if (me.rank == 2) me.numbers.give_back(1);
                        for (int i = 0; i < 2; ++i) seen.push_back(me.alloc());
                        return seen;
                      }),
             {0, 1, 2, 3, 4, 0, 5, 1});
}

// A network keeps what its first device of that number had.
TEST(device_numbers, take__not_for_who_asks_for_something_else) {
  board on(RANKS);
  net::device_config deep;
  deep.max_sends = 1000;
  expect_all(in_ranks(on,
                      [&](member& me) {
                        std::vector<int> seen{me.alloc(), me.alloc(), me.alloc(deep)};
                        me.numbers.give_back(1);
                        me.numbers.give_back(2);
                        seen.push_back(me.alloc());
                        seen.push_back(me.alloc(deep));
                        seen.push_back(me.alloc(deep));
                        // Ranks that do not agree get a new one, the same for all.
                        me.numbers.give_back(0);
                        seen.push_back(me.alloc());
                        seen.push_back(me.rank == 0 ? me.alloc(deep) : me.alloc());
                        seen.push_back(me.alloc());
                        return seen;
                      }),
             {0, 1, 2, 3, 2, 4, 1, 5, 0});
}

// Others wait in the meeting for who could not make its device.
TEST(device_numbers, take__again_without_a_device_is_the_same_number_and_asks_nobody) {
  board on(RANKS);
  expect_all(in_ranks(on,
                      [](member& me) {
                        std::vector<int> seen;
                        for (int i = 0; i < 5; ++i) {
                          if (me.rank == 1) me.numbers.take({}, me.boot);
                          seen.push_back(me.alloc());
                          if (i != 0) me.numbers.give_back(seen.back());
                        }
                        return seen;
                      }),
             {0, 1, 2, 1, 2});
}

// A thousand allocations of ranks that run ahead of each other.
TEST(device_numbers, take__always_the_same_on_all_ranks) {
  board on(RANKS);
  const auto got = in_ranks(on, [](member& me) {
    std::vector<int> seen, open;
    unsigned random = 17 + static_cast<unsigned>(me.rank);
    for (int i = 0; i < 1000; ++i) {
      seen.push_back(me.alloc());
      open.push_back(seen.back());
      random = random * 1664525 + 1013904223;
      while (open.size() > 3 + random % 4) {
        me.numbers.give_back(open.front());
        open.erase(open.begin());
      }
      if (random % 8 == 0) std::this_thread::yield();
    }
    return seen;
  });
  EXPECT_EQ(got[1], got[0]);
  EXPECT_EQ(got[2], got[0]);
  EXPECT_LE(*std::max_element(got[0].begin(), got[0].end()), 12);
}

}  // namespace
}  // namespace lci::runtime
