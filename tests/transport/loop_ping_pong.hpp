// A ping-pong of callbacks alone, for tests of event loops: the loop calls process()
// when a descriptor is readable, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "both_ends.hpp"

namespace transport_test {

class loop_ping_pong {
 public:
  // stop: ends the loop, after the last round.
  loop_ping_pong(both_ends& ends, std::size_t size, std::function<void()> stop)
      : ends_(ends), here_(pattern(size, 3)), there_(size), stop_(std::move(stop)) {}
  void start() {
    ends_.b.connect(ends_.a.bind());
    ping(nullptr);
  }
  void expect_done() const {
    EXPECT_EQ(left_, 0);
    EXPECT_EQ(there_, here_);
  }

 private:
  void ping(std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    if (--left_ == 0) return stop_();
    ends_.b.next_write().on_done([this](std::exception_ptr p) { pong(p); });
    ends_.a.write(source_.view(), target_.remote(), true);
  }
  void pong(std::exception_ptr problem) {
    EXPECT_EQ(problem, nullptr);
    ends_.a.next_write().on_done([this](std::exception_ptr p) { ping(p); });
    ends_.b.write(target_.view(), source_.remote(), true);
  }

  both_ends& ends_;
  std::vector<std::uint8_t> here_, there_;
  lci::memory source_{here_.data(), here_.size()}, target_{there_.data(), there_.size()};
  const std::function<void()> stop_;
  int left_ = 1000;
};

}  // namespace transport_test
