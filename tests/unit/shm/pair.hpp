// Ranks of one job inside a test: each with an arena, a region table, a packet pool, a fabric and
// one device, and a sink that writes down what it is told. Threads: single, unless a test says
// otherwise. Always true: waiting ends: until() gives up after a while and fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/shm/device.hpp"
#include "backends/shm/device_queues.hpp"
#include "backends/shm/fabric.hpp"
#include "lci/mem/arena.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/backend.hpp"

namespace lci::shm::test {

struct note_taker final : net::sink {
  struct message {
    int rank;
    std::uint32_t imm;
    std::string data;
    mem::packet* packet;
  };
  struct error {
    int rank;
    void* context;
    std::string reason;
    bool after_parting;  // its peer was said to be gone before
  };
  struct parting {
    int rank;
    bool orderly;
    std::string reason;
    std::size_t messages_before, completed_before;
  };
  std::vector<message> messages;
  std::vector<std::uint32_t> immediates;
  std::vector<void*> completed;
  std::vector<error> errors;
  std::vector<parting> gone;
  // What to answer to a message; set by tests that poll from inside, keep or defer.
  std::function<net::verdict(const net::arrival&)> answer;

  net::verdict on_message(const net::arrival& m) noexcept override {
    const net::verdict v = answer ? answer(m) : net::verdict::taken;
    if (v != net::verdict::deferred) {
      messages.push_back(
          {m.rank, m.imm, {reinterpret_cast<const char*>(m.data), m.size}, m.packet});
    }
    return v;
  }
  void on_immediate(int, std::uint32_t imm) noexcept override { immediates.push_back(imm); }
  void on_complete(void* context) noexcept override { completed.push_back(context); }
  void on_error(int rank, void* context, std::string_view reason) noexcept override {
    const bool parted =
        std::any_of(gone.begin(), gone.end(), [rank](const parting& p) { return p.rank == rank; });
    errors.push_back({rank, context, std::string(reason), parted});
  }
  void on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept override {
    gone.push_back({rank, orderly, std::string(reason), messages.size(), completed.size()});
  }
};

// The addresses of a job, as a bootstrap would hand them out.
using addresses = std::vector<std::string>;

struct test_book final : net::address_book {
  test_book(int r, addresses& a) : rank_(r), all_(a) {}
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(all_.size()); }
  std::string lookup(int rank) override { return all_[static_cast<std::size_t>(rank)]; }

 private:
  int rank_;
  addresses& all_;
};

struct side {
  static constexpr std::size_t PACKETS = 64;

  side(int rank, addresses& all, net::fabric_config config = {})
      : book(rank, all), arena(std::size_t{1} << 30), regions(arena), pool(arena, 8192, PACKETS) {
    config.book = &book;
    config.arena = &arena;
    config.regions = &regions;
    net = std::make_unique<fabric>(config);
    all[static_cast<std::size_t>(rank)] = net->address();
    dev = net->make_device(0);
    out = dev->make_endpoint();
  }
  std::size_t poll(std::size_t max = 64) { return dev->poll(seen, max); }
  device_queues& behind() { return static_cast<device&>(*dev).behind(); }
  errorcode_t say(int to, const std::string& text, std::uint32_t imm = 0) {
    return out->send_inline(to, imm, nullptr, 0, text.data(), text.size());
  }
  net::remote_key expose(void* at, std::size_t size) {
    const mem::region_name n = regions.insert(at, size);
    return {n.slot, n.generation};
  }
  void close() {
    out.reset();
    dev.reset();
    net.reset();
  }

  test_book book;
  mem::arena arena;
  mem::region_table regions;
  mem::packet_pool pool;
  std::unique_ptr<fabric> net;
  std::unique_ptr<net::device> dev;
  std::unique_ptr<net::endpoint> out;
  note_taker seen;
};

// Two ranks of one process.
struct pair {
  explicit pair(net::fabric_config config = {}) : a(0, all, config), b(1, all, config) {}

  bool until(const std::function<bool()>& done) { return until(done, {&a, &b}); }
  // While `who` makes progress, and nobody else.
  static bool until(const std::function<bool()>& done, std::initializer_list<side*> who) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "waited in vain";
        return false;
      }
      for (side* one : who)
        if (one->dev) one->poll();
    }
    return true;
  }
  // Both have each other's memory.
  void meet() {
    ASSERT_EQ(a.say(1, "hello"), errorcode_t::done);
    until([&] {
      return b.seen.messages.size() == 1 &&
             a.net->check_remote(1, {}).what == net::remote_view::answer::unknown_key;
    });
    b.seen.messages.clear();
  }
  // Behind it b's polls take all that `from` has sent, as in a stream: see rx_lane::goes_on().
  void begin_stream(side& from) {
    constexpr std::size_t MESSAGES = rx_lane::PATIENCE + rx_lane::FEW + 1;
    for (std::size_t i = 0; i < MESSAGES; ++i) ASSERT_EQ(from.say(1, "x"), errorcode_t::done);
    until([&] { return b.seen.messages.size() == MESSAGES; });
    b.seen.messages.clear();
  }
  // Repeats a post while it answers retry.
  errorcode_t post(const std::function<errorcode_t()>& one) {
    errorcode_t rc = one();
    until([&] {
      if (rc == errorcode_t::done || rc == errorcode_t::posted || rc == errorcode_t::fatal) {
        return true;
      }
      rc = one();
      return false;
    });
    return rc;
  }

  addresses all{2};
  side a, b;
};

// A put or get of all of `buffer`.
inline net::net_op op_with(int rank, std::string& buffer, net::remote_key there, void* context) {
  net::net_op o;
  o.rank = rank;
  o.buffer = buffer.data();
  o.size = buffer.size();
  o.remote = there;
  o.context = context;
  return o;
}

inline std::string pattern(std::size_t size, unsigned salt) {
  std::string out(size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    out[i] = static_cast<char>((i * 131 + i / 251 + salt * 7919) & 0xff);
  }
  return out;
}

}  // namespace lci::shm::test
