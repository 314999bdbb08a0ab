// Two ranks, one of which has a device that two threads share: a sink that checks what comes to
// which of them, threads that poll or send until they are told to pause, and a fixture in which
// lanes are lent as soon as can be. Threads: as each says. Always true: waiting ends, with a
// failure.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/shm/side_inboxes.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/thread_id.hpp"
#include "lci/net/wanted_by.hpp"
#include "tests/unit/shm/pair.hpp"

namespace lci::shm::test {

inline constexpr std::uint32_t NOT_BESIDE = 1u << 20;  // bit of a message's immediate
inline constexpr std::uint32_t STOP = 1u << 21;  // the handler waits in it for what comes next

// Checks that the messages of each sender come in order, and says which thread got them.
class checking_sink final : public net::sink {
 public:
  net::verdict on_message(const net::arrival& m) noexcept override { return take(m, false); }
  net::verdict on_message_beside(const net::arrival& m) noexcept override {
    return (m.imm & NOT_BESIDE) != 0 ? net::verdict::deferred : take(m, true);
  }
  void on_immediate(int, std::uint32_t) noexcept override {}
  void on_complete(void*) noexcept override {}
  void on_error(int, void*, std::string_view) noexcept override {}
  void on_peer_ended(int, bool, std::string_view) noexcept override {
    const std::lock_guard lock(mutex_);
    ++ended_;
    arrived_before_end_ = total();
  }

  net::verdict take(const net::arrival& m, bool is_beside) noexcept {
    std::uint32_t number;
    std::memcpy(&number, m.data, sizeof(number));
    const std::uint32_t sender = m.imm & 0xff;
    {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(number, next_[sender]) << "sender " << sender;
      next_[sender] = number + 1;
      ++by_[{sender, base::thread_id()}];
      if (is_beside) ++beside_[{sender, base::thread_id()}];
      if ((m.imm & NOT_BESIDE) != 0) ++specials_;
    }
    if (const auto at = wanted.find(sender); at != wanted.end()) net::wanted_by::note(at->second);
    if ((m.imm & STOP) != 0 && inside) inside(is_beside);
    return net::verdict::taken;
  }

  std::uint32_t arrived(std::uint32_t sender) const {
    const std::lock_guard lock(mutex_);
    const auto at = next_.find(sender);
    return at == next_.end() ? 0 : at->second;
  }
  std::uint64_t got(std::uint32_t sender, std::uint32_t thread) const {
    const std::lock_guard lock(mutex_);
    const auto at = by_.find({sender, thread});
    return at == by_.end() ? 0 : at->second;
  }
  // The same, of those that it got while another thread was the poller.
  std::uint64_t got_beside(std::uint32_t sender, std::uint32_t thread) const {
    const std::lock_guard lock(mutex_);
    const auto at = beside_.find({sender, thread});
    return at == beside_.end() ? 0 : at->second;
  }
  std::uint64_t specials() const {
    const std::lock_guard lock(mutex_);
    return specials_;
  }
  std::pair<int, std::uint64_t> ended() const {
    const std::lock_guard lock(mutex_);
    return {ended_, arrived_before_end_};
  }

  // Set while nobody polls.
  std::map<std::uint32_t, std::uint32_t> wanted;  // sender -> thread
  std::function<void(bool is_beside)> inside;

 private:
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [sender, next] : next_) sum += next;
    return sum;
  }
  mutable std::mutex mutex_;
  std::map<std::uint32_t, std::uint32_t> next_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> by_, beside_;
  std::uint64_t specials_ = 0;
  int ended_ = 0;
  std::uint64_t arrived_before_end_ = 0;
};

// A thread that does what it is told again and again, until it is to pause or to end.
class worker {
 public:
  // is_paused: it has to be told to go.
  explicit worker(std::function<void()> work, bool is_paused = false)
      : work_(std::move(work)), is_to_pause_(is_paused), thread_([this] { run(); }) {
    // edge worker.id: partner is run().
    while (id_.load(std::memory_order_acquire) == ~0u) std::this_thread::yield();
  }
  ~worker() {
    is_over_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  std::uint32_t id() const { return id_.load(std::memory_order_relaxed); }
  // Returns when it does nothing any more.
  void pause() {
    const std::lock_guard lock(working_);
    is_to_pause_.store(true, std::memory_order_relaxed);
  }
  void go() {
    const std::lock_guard lock(working_);  // it sees what was changed meanwhile
    is_to_pause_.store(false, std::memory_order_relaxed);
  }

 private:
  void run() {
    // edge worker.id: partner is the constructor.
    id_.store(base::thread_id(), std::memory_order_release);
    while (!is_over_.load(std::memory_order_relaxed)) {
      {
        const std::lock_guard lock(working_);
        if (!is_to_pause_.load(std::memory_order_relaxed)) work_();
      }
      std::this_thread::yield();
    }
  }
  std::function<void()> work_;
  std::atomic<std::uint32_t> id_{~0u};
  std::mutex working_;
  std::atomic<bool> is_over_{false}, is_to_pause_{false};
  std::thread thread_;
};

// Rank 0 sends from two threads, `near` (the test's) and `far`; rank 1 is polled by the test's
// thread and by `other`. Which of these is the poller changes whenever the other one has no core,
// except in run_beside().
class shared_device : public testing::Test {
 protected:
  void SetUp() override {
    sides().rules = {
        .look_every_us = 0, .steady_after = 1, .busy_from = 1, .sure_after = 2, .soon_us = 0};
  }

  static constexpr std::uint32_t NEAR = 1, FAR = 2;
  struct sender {
    std::uint32_t name, bits = 0, next = 0;
    bool is_in_packets = false;
  };
  bool say(sender& by) {
    if (by.is_in_packets) return say_in_packet(by);
    const auto rc = ranks.a.out->send_inline(1, by.name | by.bits, nullptr, 0, &by.next, 4);
    if (rc == errorcode_t::done) ++by.next;
    return rc == errorcode_t::done;
  }
  bool say_in_packet(sender& by) {
    mem::packet* const packet = ranks.a.pool.get();
    if (packet == nullptr) return false;
    std::memcpy(packet->payload(), &by.next, sizeof(by.next));
    net::net_op op;
    op.rank = 1;
    op.imm = by.name | by.bits;
    op.buffer = packet->payload();
    op.size = SLOT_DATA + 1;
    op.packet = packet;
    if (ranks.a.out->send(op) != errorcode_t::done) {
      ranks.a.pool.put(packet);
      return false;
    }
    ++by.next;
    return true;
  }
  void poll() { ranks.b.dev->poll(seen, 64); }
  void poll_sender() { ranks.a.poll(); }
  side_inboxes& sides() { return ranks.b.behind().sides; }
  // Who is inside stays the poller.
  base::owned& polling() { return ranks.b.behind().polling; }
  // The test's thread polls for both ranks and sends, until done() or far too late.
  void run_until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "waited in vain";
      run_once();
    }
  }
  void run_once() {
    say(near);
    poll();
    poll_sender();
    std::this_thread::yield();
  }
  const std::uint32_t me_ = base::thread_id();
  std::uint32_t me() const { return me_; }
  // The sender leaves, and that is told once, behind all that it has sent.
  void end_peer_after(std::uint64_t messages) {
    ranks.a.close();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (seen.ended().first == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "waited in vain";
      poll();
      std::this_thread::yield();
    }
    EXPECT_EQ(seen.ended(), std::make_pair(1, messages));
  }
  // What `other` does beside the poller, which is the test's thread throughout: it stays inside, or
  // `other` would replace it whenever it has no core.
  void run_beside(worker& other, const std::function<bool()>& done) {
    other.pause();
    run_until([&] { return polling().owner() == me(); });
    const base::owned_guard inside(polling());
    other.go();
    ASSERT_TRUE(inside);
    run_until(done);
  }
  // The lane of `far` is lent to `other`, and some messages came that way.
  void lend_far(worker& other) {
    const std::uint64_t before = seen.got_beside(FAR, other.id());
    run_beside(other, [&] { return seen.got_beside(FAR, other.id()) > before + 10; });
  }

  pair ranks;
  checking_sink seen;
  sender near{NEAR}, far{FAR};
};

}  // namespace lci::shm::test
