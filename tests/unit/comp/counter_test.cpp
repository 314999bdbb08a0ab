#include "lci/comp/counter.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

using lci::comp::counter;

TEST(counter, add_one__counts_from_zero) {
  counter c{lci::comp_attr_t()};
  EXPECT_EQ(c.get(), 0);
  c.add_one();
  c.signal(lci::errorcode_t::done);
  EXPECT_EQ(c.get(), 2);
}

TEST(counter, set__later_signals_count_from_there) {
  counter c{lci::comp_attr_t()};
  c.set(-5);
  c.add_one();
  EXPECT_EQ(c.get(), -4);
}

TEST(counter, attr__says_counter_and_keeps_the_rest) {
  lci::comp_attr_t attr;
  attr.name = "mine";
  counter c(attr);
  EXPECT_EQ(c.attr.comp_type, lci::attr_comp_type_t::counter);
  EXPECT_STREQ(c.attr.name, "mine");
}

// Plain data written before a signal is read after the count says so; thread sanitizer would object
// to a relaxed counter.
TEST(counter, get__sees_what_was_written_before_the_signals) {
  constexpr int THREADS = 4, EACH = 1000;
  counter c{lci::comp_attr_t()};
  std::vector<int> data(THREADS * EACH);
  std::vector<std::thread> threads;
  for (int t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < EACH; ++i) {
        data[static_cast<std::size_t>(t * EACH + i)] = 1;
        c.add_one();
      }
    });
  while (c.get() < THREADS * EACH) std::this_thread::yield();
  int sum = 0;
  for (int d : data) sum += d;
  EXPECT_EQ(sum, THREADS * EACH);
  for (auto& t : threads) t.join();
}
