// What tests of waits inside handlers stand on: a handler at the greatest depth, and one that has
// to wait for it. Threads: the one thread of the tests.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "world.hpp"

namespace interface_test {

inline int limit() { return lci::get_g_runtime().get_attr_max_handler_depth(); }

// Runs `body` in a handler at the greatest depth, and tells what it threw. Handlers that send
// themselves a message and make progress lead there.
class deepest {
 public:
  explicit deepest(std::function<void()> body)
      : handler_(lci::alloc_handler(on_step)), rcomp_(lci::register_rcomp(handler_)) {
    body_ = std::move(body);
    depth_ = returned_ = 0;
    rcomp_now_ = rcomp_;
    barrier();
    step();
    while (returned_ < limit()) {
      try {
        progress();
      } catch (const std::exception& problem) {
        problems_.push_back(problem.what());
      }
    }
  }
  ~deepest() {
    lci::deregister_rcomp(rcomp_);
    body_ = nullptr;
  }
  deepest(const deepest&) = delete;
  deepest& operator=(const deepest&) = delete;
  // What progress has thrown meanwhile outside of all handlers.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  static void step() {
    char byte = 0;
    lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL, rcomp_now_).device(world().device)();
  }
  static void on_step(lci::status_t status) {
    std::free(status.buffer);
    const int mine = ++depth_;
    if (mine == limit()) {
      body_();
    } else {
      step();
      wait_until([mine] { return depth_ > mine; });
    }
    ++returned_;
  }

  inline static std::function<void()> body_;
  inline static int depth_ = 0, returned_ = 0;
  inline static lci::rcomp_t rcomp_now_ = 0;
  owned_comp handler_;
  const lci::rcomp_t rcomp_;
  std::vector<std::string> problems_;
};

// Sends this rank something for a handler, which counts it.
struct waiting_handler {
  waiting_handler()
      : handler(lci::alloc_handler([](lci::status_t status) {
          std::free(status.buffer);
          ++handled;
        })),
        rcomp(lci::register_rcomp(handler)) {
    handled = 0;
  }
  ~waiting_handler() { lci::deregister_rcomp(rcomp); }
  void send() const {
    char byte = 0;
    lci::post_am_x(world().rank, &byte, 1, lci::COMP_NULL, rcomp).device(world().device)();
  }
  inline static std::atomic<int> handled;
  owned_comp handler;
  const lci::rcomp_t rcomp;
};

}  // namespace interface_test
