// Do real processes agree, also when one of them is killed at whatever moment, and is nothing left
// of them afterwards?
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <sstream>

#include "tests/contract/processes.hpp"
#include "tests/contract/rank_bodies.hpp"
#include "tests/contract/rank_process.hpp"
#include "tests/contract/verifier.hpp"
#include "tests/support/seed.hpp"

namespace lci::test {
namespace {

using stamp_t = stream_verifier::stamp_t;

constexpr std::size_t BIG = 100000;

// Rank 1: sends to rank 0 as fast as it can, in every way, until it is killed.
[[noreturn]] void stream_until_killed(child_process& me, rank_process& world) {
  member& self = world.self;
  auto rng = seeded(1);
  std::vector<std::byte> big(BIG);
  const net::remote_key key = world.published(0);
  me.reach("connecting");
  for (std::uint32_t i = 0;; ++i) {
    const stamp_t stamp = stream_verifier::stamp(1, 0, i);
    world.post([&] {
      if (i % 5 != 0) return self.to().send_inline(0, i, nullptr, 0, &stamp, sizeof stamp);
      net::net_op op;
      op.rank = 0;
      if ((op.packet = self.packets.get()) == nullptr) return errorcode_t::retry_nopacket;
      op.buffer = op.packet->payload();
      op.size = sizeof stamp + rng() % 4000;
      std::memcpy(op.buffer, &stamp, sizeof stamp);
      const errorcode_t answer = self.to().send(op);
      if (is_retry(answer)) self.packets.put(op.packet);
      return answer;
    });
    if (i % 50 == 7) {
      net::net_op op;
      op.rank = 0;
      op.buffer = big.data();
      op.size = std::min(big.size(), self.fabric->caps().max_rma);
      op.remote = key;
      (void)self.to().put(op);  // a retry is as good: there is another one soon
      self.poll();
    }
    if (i == 500) me.reach("streaming");
  }
}

// Every other rank: checks what rank 1 sends, and talks to the other survivor, if there is one.
class survivor {
 public:
  survivor(child_process& me, rank_process& world)
      : world_(world), self_(world.self), other_(me.size() > 2 ? 2 - me.rank() : -1) {
    self_.seen().keep_bytes = false;
    self_.seen().on_arrival = [this](const net::arrival& message) { return on_message(message); };
  }

  void step() {
    world_.poll();
    if (other_ < 0) return;
    const stamp_t stamp = stream_verifier::stamp(2, 0, sent_);
    const errorcode_t answer = self_.to().send_inline(other_, 0, nullptr, 0, &stamp, sizeof stamp);
    EXPECT_NE(answer, errorcode_t::fatal) << "the living are not gone";
    sent_ += answer == errorcode_t::done;
  }

  // After the news that rank 1 is gone.
  void check() {
    const auto gone = self_.seen().gone();
    ASSERT_EQ(gone.size(), 1u) << "said more than once";
    EXPECT_FALSE(gone[0].orderly);
    EXPECT_EQ(gone[0].messages_before, next_) << "said before everything was delivered";
    const std::uint32_t word = 0;
    EXPECT_EQ(self_.to().send_inline(1, 0, nullptr, 0, &word, sizeof word), errorcode_t::fatal);
    for (const auto& [packet, stamp] : kept_) {
      EXPECT_EQ(std::memcmp(packet->payload(), &stamp, sizeof stamp), 0)
          << "a kept packet changed after its owner died";
      mem::release_packet(self_.arena, packet);
    }
  }

  std::uint32_t from_the_dead() const { return next_; }
  std::uint32_t from_the_other() const { return from_the_other_; }

 private:
  net::verdict on_message(const net::arrival& message) {
    stamp_t stamp{};
    std::memcpy(&stamp, message.data, sizeof stamp);
    if (message.rank != 1) {
      ++from_the_other_;
      return net::verdict::taken;
    }
    // What is there must be a gapless beginning of the stream.
    const stamp_t expected = stream_verifier::stamp(1, 0, next_++);
    EXPECT_EQ(std::memcmp(&stamp, &expected, sizeof stamp), 0) << "message " << expected.number;
    // A few packets stay here beyond the death of their owner.
    if (message.packet == nullptr || kept_.size() >= 4) return net::verdict::taken;
    kept_.emplace_back(message.packet, stamp);
    return net::verdict::kept;
  }

  rank_process& world_;
  member& self_;
  const int other_;
  std::uint32_t next_ = 0;
  std::uint32_t from_the_other_ = 0;
  std::uint32_t sent_ = 0;
  std::vector<std::pair<mem::packet*, stamp_t>> kept_;
};

int stream_into_a_death(child_process& me, const std::string& provider) {
  rank_process world(me, provider);
  if (me.rank() == 1) stream_until_killed(me, world);
  std::vector<std::byte> memory(BIG);
  if (me.rank() == 0) world.publish(world.self.expose(memory.data(), memory.size()));
  survivor survives(me, world);
  world.self.fabric->connect(1);
  me.reach("ready");
  std::uint64_t polls = 0;
  for (; !world.is_gone(1); ++polls) survives.step();
  for (int i = 0; i < 2000; ++i) survives.step();
  survives.check();
  std::printf("rank %d: %u messages from the dead, %u from the other, %llu polls\n", me.rank(),
              survives.from_the_dead(), survives.from_the_other(),
              static_cast<unsigned long long>(polls));
  world.leave({1});
  return 0;
}

// Rank 1 puts more than what lies between two processes, and rank 0 stops it in the middle, as when
// a host goes silent. Then rank 0 closes everything; no end of rank 1 has been heard of.
int close_amid_a_put(child_process& me, const std::string& provider) {
  constexpr std::size_t HUGE_SIZE = std::size_t{64} << 20;
  rank_process world(me, provider);
  member& self = world.self;
  std::vector<std::byte> memory(HUGE_SIZE, std::byte{static_cast<unsigned char>(me.rank())});
  if (me.rank() == 0) {
    const net::remote_key key = self.expose(memory.data(), HUGE_SIZE);
    world.publish(key);
    const volatile std::byte* const first = memory.data();
    world.until([&] { return *first == std::byte{1}; });
    const pid_t other = std::stoi(me.lookup(1, "pid"));
    EXPECT_EQ(::kill(other, SIGSTOP), 0);
    for (int i = 0; i < 20000; ++i) world.poll();
    std::printf("the put is %s\n", memory.back() == std::byte{1} ? "over" : "under way");
    self.hide(key);
    return 0;
  }
  const net::remote_key key = world.published(0);
  world.meet(0, key);
  net::net_op op;
  op.rank = 0;
  op.buffer = memory.data();
  op.size = std::min(HUGE_SIZE, self.fabric->caps().max_rma);
  op.remote = key;
  const bool has_immediate = self.fabric->caps().write_with_immediate;
  world.post([&] { return has_immediate ? self.to().put_imm(op) : self.to().put(op); });
  for (;;) world.poll();
}

}  // namespace

void process_contract::expect_clean_ends(processes& all, const std::vector<process_end>& expected) {
  all.expect_ends(expected);
  for (int rank = 0; rank < all.size(); ++rank) {
    std::istringstream names(all.lookup(rank, "sockets"));
    for (std::string name; names >> name;) {
      EXPECT_TRUE(abstract_sockets(name).empty())
          << "rank " << rank << " left a bound socket behind: " << name;
    }
  }
  // Other jobs on this host may be about to map a file, or to remove one.
  std::vector<std::string> left;
  for (int looks = 0; looks < 100; ++looks) {
    left = left_shared_memory_files(files_before_);
    if (left.empty()) return;
    usleep(20000);
  }
  EXPECT_EQ(left, std::vector<std::string>{}) << "something was left under /dev/shm";
}

TEST_P(process_contract, exchange__two_processes) {
  processes all(2, [&](child_process& me) { return exchange(me, GetParam(), 5000); });
  expect_clean_ends(all);
}

TEST_P(process_contract, exchange__more_processes_than_cores) {
  processes all(5, [&](child_process& me) { return exchange(me, GetParam(), 300); });
  expect_clean_ends(all);
}

TEST_P(process_contract, exchange__one_process_alone) {
  processes all(1, [&](child_process& me) { return exchange(me, GetParam(), 1000); });
  expect_clean_ends(all);
}

TEST_P(process_contract, remote_memory__put_and_get_of_large_blocks) {
  processes all(2, [&](child_process& me) { return remote_memory(me, GetParam()); });
  expect_clean_ends(all);
}

TEST_P(process_contract, every_verb__between_three) {
  processes all(3, [&](child_process& me) { return every_verb(me, GetParam(), 300); });
  expect_clean_ends(all);
}

TEST_P(process_contract, kill__in_the_middle_of_a_stream) {
  processes all(2, [&](child_process& me) { return stream_into_a_death(me, GetParam()); });
  ASSERT_TRUE(all.wait_for(1, "streaming"));
  all.kill(1);
  expect_clean_ends(all, {ENDED_WELL, KILLED});
}

TEST_P(process_contract, kill__the_other_two_go_on) {
  processes all(3, [&](child_process& me) { return stream_into_a_death(me, GetParam()); });
  ASSERT_TRUE(all.wait_for(1, "streaming"));
  ASSERT_TRUE(all.wait_for(2, "ready"));
  all.kill(1);
  expect_clean_ends(all, {ENDED_WELL, KILLED, ENDED_WELL});
}

// Rank 0 knows the address of a process that is gone already.
TEST_P(process_contract, kill__before_first_contact) {
  processes all(2, [&](child_process& me) -> int {
    rank_process world(me, GetParam());
    if (me.rank() == 1) {
      me.reach("idle");
      for (;;) pause();
    }
    const pid_t other = std::stoi(me.lookup(1, "pid"));
    world.until([&] { return ::kill(other, 0) != 0; });
    const std::uint32_t word = 0;
    EXPECT_FALSE(world.post(
        [&] { return world.self.to().send_inline(1, 0, nullptr, 0, &word, sizeof word); }));
    world.until([&] { return world.is_gone(1); });
    EXPECT_FALSE(world.self.seen().gone()[0].orderly);
    return 0;
  });
  ASSERT_TRUE(all.wait_for(1, "idle"));
  EXPECT_NE(all.lookup(1, "address"), "");
  all.kill(1);
  all.wait(1);  // until then its number is still taken
  expect_clean_ends(all, {ENDED_WELL, KILLED});
}

// Also around first contact, and in the middle of whatever: every round at another moment.
TEST_P(process_contract, kill__at_random_moments) {
  auto rng = seeded(99);
  for (int round = 0; round < 12; ++round) {
    const auto wait_us = static_cast<useconds_t>(rng() % (round < 6 ? 500 : 20000));
    processes all(2, [&](child_process& me) { return stream_into_a_death(me, GetParam()); });
    ASSERT_TRUE(all.wait_for(1, "connecting"));
    ASSERT_TRUE(all.wait_for(0, "ready"));
    usleep(wait_us);
    all.kill(1);
    expect_clean_ends(all, {ENDED_WELL, KILLED});
    ASSERT_FALSE(HasFailure()) << "round " << round << ", killed after " << wait_us << " us";
  }
}

TEST_P(process_contract, close__amid_a_put_of_who_stands_still) {
  processes all(2, [&](child_process& me) { return close_amid_a_put(me, GetParam()); });
  all.wait(0);
  all.kill(1);
  expect_clean_ends(all, {ENDED_WELL, KILLED});
}

TEST_P(process_contract, kill__all_at_once_leaves_nothing) {
  processes all(3, [&](child_process& me) -> int {
    rank_process world(me, GetParam());
    for (int to = 0; to < 3; ++to) {
      world.post([&] { return world.self.to().send_inline(to, 0, nullptr, 0, nullptr, 0); });
    }
    world.until([&] { return world.self.seen().arrived() == 3; });
    me.reach("connected");
    for (;;) world.poll();
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(all.wait_for(rank, "connected"));
  for (int rank = 0; rank < 3; ++rank) all.kill(rank);
  expect_clean_ends(all, {KILLED, KILLED, KILLED});
}

}  // namespace lci::test
