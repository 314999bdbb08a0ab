// A sink that takes messages only once it has heard of a completion, as who has no packet left
// does. Threads: the polling one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lci/net/backend.hpp"

namespace lci::test {

// Takes so many messages, and the rest once an operation has completed: at once, in a poll of its
// own.
class waiting_sink final : public net::sink {
 public:
  waiting_sink(net::device& from, std::size_t at_first) : from_(from), may_take_(at_first) {}
  net::verdict on_message(const net::arrival& message) noexcept override {
    if (completed == 0 && taken.size() >= may_take_) return net::verdict::deferred;
    taken.push_back(message.imm);
    return net::verdict::taken;
  }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {
    ++completed;
    from_.poll(*this, 8);
  }
  void on_error(int, void*, std::string_view) noexcept override { ADD_FAILURE(); }
  void on_peer_ended(int, bool, std::string_view) noexcept override { ADD_FAILURE(); }

  int completed = 0;
  std::vector<std::uint32_t> taken;

 private:
  net::device& from_;
  const std::size_t may_take_;
};

}  // namespace lci::test
