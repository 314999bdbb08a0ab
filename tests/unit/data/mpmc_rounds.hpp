// What every queue of many producers and consumers has to do. Threads: its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace lci::test {

// Elements that producers made, and who took them: each once, and those of one producer in order.
class tally {
 public:
  tally(std::uint64_t producers, std::uint64_t each)
      : producers_(producers), each_(each), seen_(producers * each) {}

  std::uint64_t element(std::uint64_t producer, std::uint64_t number) const {
    return producer * each_ + number;
  }
  bool is_over() const { return taken_.load(std::memory_order_relaxed) == seen_.size(); }
  // What one consumer has taken, by one thread.
  class consumer {
   public:
    explicit consumer(tally& all) : all_(all), next_(all.producers_) {}
    void took(std::uint64_t element) {
      ++all_.taken_;
      ++all_.seen_[element];
      std::uint64_t& next = next_[element / all_.each_];
      if (element % all_.each_ < next) ++all_.disorder_;
      next = element % all_.each_ + 1;
    }

   private:
    tally& all_;
    std::vector<std::uint64_t> next_;
  };
  void expect_each_once() const {
    EXPECT_EQ(disorder_, 0);
    for (std::size_t i = 0; i < seen_.size(); ++i) ASSERT_EQ(seen_[i], 1) << i;
  }

 private:
  const std::uint64_t producers_, each_;
  std::vector<std::atomic<std::uint8_t>> seen_;
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<int> disorder_{0};
};

// Every element comes out once; the elements of one producer reach one consumer in order.
// push(value) waits until there is room; try_pop(value) says whether there was one.
template <class Push, class Pop>
void expect_each_once_in_order(Push&& push, Pop&& try_pop) {
  constexpr std::uint64_t PRODUCERS = 3, CONSUMERS = 3, EACH = 20000;
  tally all(PRODUCERS, EACH);
  std::vector<std::thread> threads;
  for (std::uint64_t p = 0; p < PRODUCERS; ++p)
    threads.emplace_back([&, p] {
      for (std::uint64_t i = 0; i < EACH; ++i) push(all.element(p, i));
    });
  for (std::uint64_t c = 0; c < CONSUMERS; ++c)
    threads.emplace_back([&] {
      tally::consumer mine(all);
      for (std::uint64_t v; !all.is_over();) {
        if (try_pop(v))
          mine.took(v);
        else
          std::this_thread::yield();
      }
    });
  for (auto& t : threads) t.join();
  all.expect_each_once();
}

}  // namespace lci::test
