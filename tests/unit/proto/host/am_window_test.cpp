// The window by itself; what uses it is tested in large_arrival_test.
#include "lci/proto/host/am_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "tests/support/failing_new/each_allocation.hpp"

namespace {

using lci::proto::am_window;
using lci::proto::wire::rts;

rts request_of(std::size_t size, std::uint64_t tag = 0) {
  rts request;
  request.size = size;
  request.tag = tag;
  return request;
}

std::vector<std::uint64_t> grant(am_window& window, int rank, std::size_t limit) {
  std::vector<std::uint64_t> tags;
  if (!window.begin(rank)) return tags;
  while (const auto next = window.next(rank, limit)) tags.push_back(next->tag);
  return tags;
}

using tags = std::vector<std::uint64_t>;

TEST(am_window, next__goes_by_bytes_in_order) {
  am_window window;
  for (std::uint64_t i = 0; i < 5; ++i) window.add(7, request_of(100, i));
  EXPECT_EQ(grant(window, 7, 300), (tags{0, 1, 2}));
  EXPECT_EQ(window.waiting(), 2u);
  window.leave(7, 100);
  EXPECT_EQ(grant(window, 7, 300), (tags{3}));
  window.add(8, request_of(100, 9));
  EXPECT_EQ(grant(window, 8, 300), (tags{9})) << "each rank has its own";
  for (int i = 0; i < 3; ++i) window.leave(7, 100);
  EXPECT_EQ(grant(window, 7, 300), (tags{4}));
  EXPECT_EQ(window.waiting(), 0u);
}

TEST(am_window, next__gives_two_however_large) {
  am_window window;
  for (std::uint64_t i = 0; i < 4; ++i) window.add(0, request_of(~std::size_t{0} / 2 + 7, i));
  EXPECT_EQ(grant(window, 0, 300), (tags{0, 1}));
  window.leave(0, ~std::size_t{0} / 2 + 7);
  EXPECT_EQ(grant(window, 0, 300), (tags{2}));
}

TEST(am_window, begin__lets_one_grant_at_a_time) {
  am_window window;
  EXPECT_FALSE(window.begin(0)) << "nothing was ever asked for";
  window.add(0, request_of(1, 1));
  ASSERT_TRUE(window.begin(0));
  EXPECT_FALSE(window.begin(0));
  window.add(0, request_of(1, 2));
  EXPECT_TRUE(window.next(0, 10));
  EXPECT_TRUE(window.next(0, 10)) << "what came meanwhile";
  EXPECT_FALSE(window.next(0, 10));
  EXPECT_TRUE(window.begin(0));
}

TEST(am_window, put_back__is_the_first_again_and_starved_once) {
  am_window window;
  for (std::uint64_t i = 0; i < 3; ++i) window.add(4, request_of(10, i));
  ASSERT_TRUE(window.begin(4));
  const auto first = window.next(4, 100);
  ASSERT_TRUE(first);
  // Behind it the requests before are not moved, as the place is needed again.
  for (std::uint64_t i = 3; i < 5; ++i) window.add(4, request_of(10, i));
  EXPECT_TRUE(window.put_back(4, *first));
  ASSERT_TRUE(window.begin(4));
  EXPECT_FALSE(window.put_back(4, *window.next(4, 100))) << "it is known";
  EXPECT_EQ(window.take_starved(), 4);
  EXPECT_EQ(window.take_starved(), -1);
  EXPECT_EQ(grant(window, 4, 100), (tags{0, 1, 2, 3, 4}));
}

TEST(am_window, try_look__names_ranks_whose_requests_wait) {
  am_window window;
  const auto look = [&] {
    std::map<int, std::pair<std::uint64_t, std::uint64_t>> found;
    EXPECT_TRUE(window.try_look([&](int rank, std::uint64_t requests, std::uint64_t bytes) {
      found[rank] = {requests, bytes};
    }));
    return found;
  };
  for (std::uint64_t i = 0; i < 5; ++i) window.add(7, request_of(100 + i, i));
  window.add(8, request_of(100));
  EXPECT_EQ(grant(window, 7, 300).size(), 2u);
  EXPECT_EQ(grant(window, 8, 300).size(), 1u);
  using waits = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(look(), (waits{{7, {3, 309}}}));
  for (int i = 0; i < 2; ++i) window.leave(7, 100 + static_cast<std::size_t>(i));
  EXPECT_EQ(grant(window, 7, 1000).size(), 3u);
  EXPECT_EQ(look(), waits{});
}

// Like a signal handler that has interrupted a thread inside.
TEST(am_window, try_look__does_not_wait_for_the_lock) {
  am_window window;
  window.add(7, request_of(100));
  int looks = 0;
  EXPECT_TRUE(window.try_look([&](int, std::uint64_t, std::uint64_t) {
    ++looks;
    EXPECT_FALSE(window.try_look([](int, std::uint64_t, std::uint64_t) {}));
  }));
  EXPECT_EQ(looks, 1);
}

// Others spin on the lock, and the heap may call the system.
class am_window_heap : public testing::Test {
 protected:
  void SetUp() override {
    if (!lci::test::CAN_NEW_FAIL) GTEST_SKIP() << "this sanitizer has an operator new of its own";
  }
  // At each use of the heap; adds as many for rank 3 as another thread might.
  static void see(void* with) {
    auto& mine = *static_cast<am_window_heap*>(with);
    ++mine.uses_;
    if (!mine.window_.try_look([](int, std::uint64_t, std::uint64_t) {}))
      ++mine.locked_;
    else
      for (int i = 0; i < mine.meanwhile_; ++i) mine.window_.add(3, request_of(1, mine.added_++));
  }

  am_window window_;
  int uses_ = 0, locked_ = 0, meanwhile_ = 0;
  std::uint64_t added_ = 1000;
};

TEST_F(am_window_heap, add__uses_it_while_the_lock_is_free) {
  {
    const lci::test::on_each_new watch(&see, this);
    for (int rank = 0; rank < 20; ++rank)
      for (std::uint64_t i = 0; i < 100; ++i) window_.add(rank, request_of(1, i));
    for (int rank = 0; rank < 20; ++rank) {
      ASSERT_TRUE(window_.begin(rank));
      window_.put_back(rank, *window_.next(rank, 50));
      ASSERT_TRUE(window_.begin(rank));
      while (window_.next(rank, 50)) window_.leave(rank, 1);
    }
  }
  EXPECT_GT(uses_, 20);
  EXPECT_EQ(locked_, 0);
}

TEST_F(am_window_heap, add__others_that_came_meanwhile_stay) {
  meanwhile_ = 8;  // fill what the first of a rank has, and then what is made for the next
  {
    const lci::test::on_each_new watch(&see, this);
    for (std::uint64_t i = 0; i < 50; ++i) window_.add(3, request_of(1, i));
  }
  EXPECT_EQ(locked_, 0);
  tags mine, others;
  for (const std::uint64_t tag : grant(window_, 3, 10000))
    (tag < 1000 ? mine : others).push_back(tag);
  EXPECT_EQ(mine.size(), 50u);
  EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
  EXPECT_EQ(others.size(), added_ - 1000);
  EXPECT_GE(others.size(), 16u);
  EXPECT_TRUE(std::is_sorted(others.begin(), others.end()));
}

TEST(am_window, add__each_allocation_in_turn__nothing_has_changed) {
  lci::test::for_each_allocation([](std::uint64_t n) {
    am_window window;
    tags expected;
    expected.reserve(100);
    bool has_fired = false;
    {
      const lci::test::fail_nth_new failing(n);
      for (std::uint64_t i = 0; i < 100; ++i) {
        try {
          window.add(3, request_of(1, i));
          expected.push_back(i);
        } catch (const std::bad_alloc&) {
        }
        EXPECT_EQ(window.waiting(), expected.size());
      }
      has_fired = failing.fired();
    }
    EXPECT_EQ(expected.size(), has_fired ? 99u : 100u);
    EXPECT_EQ(grant(window, 3, 100), expected);
    return has_fired;
  });
}

TEST(am_window, add__keeps_no_more_than_what_waits) {
  am_window window;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    window.add(0, request_of(10, i));
    window.add(0, request_of(10, i));
    EXPECT_EQ(grant(window, 0, 100).size(), 2u);
    window.leave(0, 10);
    window.leave(0, 10);
  }
  EXPECT_EQ(window.waiting(), 0u);
}

}  // namespace
