// A sink that writes down what it is told, so that a test can compare.
//
// One per device of a group. Threads: shared; a test that looks while others poll uses the locked
// accessors. Always true: what a sink must never see (a context that is not out, a second
// peer_ended) is a failure at once.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lci/net/backend.hpp"

namespace lci::test {

// Counts what happened to one posted operation. Its address is the context.
struct op_fate {
  std::atomic<int> completed{0};
  std::atomic<int> failed{0};
  // edge fate.signal: who sees the count may use the buffer and this object again; partner is the
  // fetch_add in recorder.
  int signals() const {
    return completed.load(std::memory_order_acquire) + failed.load(std::memory_order_acquire);
  }
};

struct seen_message {
  int rank;
  std::uint32_t imm;
  std::vector<std::byte> bytes;
};

struct seen_gone {
  int rank;
  bool orderly;
  std::size_t messages_before;  // of that rank, when it was said
  std::string reason;
};

class recorder final : public net::sink {
 public:
  net::verdict on_message(const net::arrival& message) noexcept override {
    // The hook decides first: a deferred message has not arrived yet.
    if (on_arrival) {
      const net::verdict v = on_arrival(message);
      if (v == net::verdict::deferred) return v;
      record(message);
      return v;
    }
    record(message);
    return net::verdict::taken;
  }
  net::verdict on_message_beside(const net::arrival& message) noexcept override {
    return takes_beside ? on_message(message) : net::verdict::deferred;
  }
  void on_immediate(int rank, std::uint32_t imm) noexcept override {
    if (on_imm) on_imm(rank, imm);
    std::lock_guard lock(mutex_);
    immediates_.push_back({rank, imm});
  }
  void on_complete(void* context) noexcept override {
    if (context == nullptr) {
      ADD_FAILURE() << "on_complete() without a context";
      return;
    }
    // edge fate.signal: partner is op_fate::signals().
    static_cast<op_fate*>(context)->completed.fetch_add(1, std::memory_order_release);
  }
  void on_error(int, void* context, std::string_view reason) noexcept override {
    EXPECT_FALSE(reason.empty()) << "on_error() without a reason";
    // edge fate.signal, as above.
    if (context != nullptr)
      static_cast<op_fate*>(context)->failed.fetch_add(1, std::memory_order_release);
  }
  void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept override {
    EXPECT_FALSE(reason.empty()) << "on_peer_ended() without a reason";
    std::lock_guard lock(mutex_);
    gone_.push_back({rank, orderly, arrived_from_[rank], std::string(reason)});
  }

  std::size_t arrived() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  std::size_t immediates() const {
    std::lock_guard lock(mutex_);
    return immediates_.size();
  }
  std::vector<seen_message> messages() const {
    std::lock_guard lock(mutex_);
    return messages_;
  }
  std::vector<std::pair<int, std::uint32_t>> immediate_list() const {
    std::lock_guard lock(mutex_);
    return immediates_;
  }
  std::vector<seen_gone> gone() const {
    std::lock_guard lock(mutex_);
    return gone_;
  }
  void forget() {
    std::lock_guard lock(mutex_);
    messages_.clear();
    immediates_.clear();
    count_ = 0;
  }

  // Set while nobody polls. on_arrival runs before the message is written down.
  std::function<net::verdict(const net::arrival&)> on_arrival;
  std::function<void(int rank, std::uint32_t imm)> on_imm;
  bool takes_beside = false;  // on_arrival may run in several threads at once
  bool keep_bytes = true;     // false: only counts, for long runs

 private:
  void record(const net::arrival& message) {
    std::lock_guard lock(mutex_);
    ++count_;
    ++arrived_from_[message.rank];
    if (keep_bytes)
      messages_.push_back({message.rank, message.imm, {message.data, message.data + message.size}});
  }

  mutable std::mutex mutex_;
  std::size_t count_ = 0;
  std::map<int, std::size_t> arrived_from_;
  std::vector<seen_message> messages_;
  std::vector<std::pair<int, std::uint32_t>> immediates_;
  std::vector<seen_gone> gone_;
};

}  // namespace lci::test
