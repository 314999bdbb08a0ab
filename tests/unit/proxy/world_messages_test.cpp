// Messages of kernels: what is none, what lci refuses, and how receives end.
#include <gtest/gtest.h>

#include "lci/proxy/proxy_world.hpp"
#include "tests/support/race_hook.hpp"
#include "tests/unit/proxy/proxied_job.hpp"

namespace lci::proxy {
namespace {

using device::outcome;
using gpu::message_head;
using gpu::message_kind;
using wqe::opcode;
using wqe::syndrome;

class world_messages : public testing::Test {
 protected:
  world_messages() {
    mr_ = register_memory_x(words_, sizeof(words_)).runtime(job_.handle())();
    key_ = get_gpu_key(mr_).key;
  }
  ~world_messages() override {
    receives_.close(job_.runtime().default_matching_engine.p_impl->match);
    EXPECT_FALSE(receives_.any());
    EXPECT_TRUE(job_.step_until([this] { return !own_.is_in_use() && !world_.is_in_use(); }));
    deregister_memory(&mr_);
  }
  // The bytes stay until the request is over.
  device::answer send(proxy_world& w, message_head head, std::uint64_t value = 0) {
    std::memcpy(bytes_, &head, sizeof(head));
    std::memcpy(bytes_ + sizeof(head), &value, sizeof(value));
    const auto size = static_cast<std::uint32_t>(sizeof(head) + head.inline_length);
    piece_ = {bytes_, size, 0};
    return w.send(opcode::send_imm, {&piece_, 1, size}, gpu::MESSAGE, false);
  }
  static message_head small(std::uint64_t tag, message_kind kind = message_kind::send) {
    message_head head;
    head.kind = kind;
    head.tag = tag;
    head.inline_length = 8;
    return head;
  }
  static message_head all_of(const std::vector<std::byte>& bytes, mr_t region) {
    message_head head;
    head.laddr = reinterpret_cast<std::uintptr_t>(bytes.data());
    head.length = bytes.size();
    head.lkey = get_gpu_key(region).key;
    return head;
  }
  message_head receive(std::uint32_t slot, std::uint64_t tag, std::uint64_t room = 8,
                       int from = 0) {
    message_head head;
    head.kind = message_kind::recv;
    head.rcomp = slot;
    head.tag = tag;
    head.rank = from;
    head.laddr = reinterpret_cast<std::uintptr_t>(words_);
    head.length = room;
    head.lkey = key_;
    return head;
  }
  device::answer finish(proxy_world& w, device::answer a) {
    job_.step_until([&] {
      if (a.what == outcome::posted) a = w.poll();
      return a.what != outcome::posted;
    });
    return a;
  }
  void expect_refused(proxy_world& w, device::answer a, syndrome why, const char* text) {
    a = finish(w, a);
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, why) << wqe::text_of(a.why);
    EXPECT_NE(w.reason().find(text), std::string::npos) << w.reason();
  }
  // As a kernel takes the slot.
  void take(std::uint32_t slot) { slots_[slot].state = 1; }
  gpu::status ended(std::uint32_t slot) {
    EXPECT_TRUE(job_.step_until([&] { return slots_[slot].state == 2; }));
    return static_cast<gpu::status>(slots_[slot].result);
  }

  std::uint64_t words_[8] = {};
  std::byte bytes_[256];
  device::local_piece piece_{};
  gpu::receive_slot slots_[2] = {};
  test::proxied_job job_;
  mr_t mr_;
  std::uint32_t key_ = 0;
  open_receives receives_{slots_, 2};
  std::atomic<bool> aborted_{false};
  proxy_world own_{job_.device(), 0, job_.side().all_keys, receives_, aborted_};
  proxy_world world_{job_.device(), 1, job_.side().all_keys, receives_, aborted_};
};

TEST_F(world_messages, send__what_is_no_message) {
  const auto expect_none = [&](opcode op, std::uint32_t imm, std::uint32_t count, std::uint32_t key,
                               std::uint64_t length) {
    piece_.at = bytes_;
    piece_.key = key;
    piece_.length = static_cast<std::uint32_t>(length);
    expect_refused(own_, own_.send(op, {&piece_, count, length}, imm, false),
                   syndrome::local_qp_operation, "no message");
  };
  const message_head good = small(1);
  std::memcpy(bytes_, &good, sizeof(good));
  const std::uint64_t size = sizeof(good) + 8;
  expect_none(opcode::send, gpu::MESSAGE, 1, 0, size);
  expect_none(opcode::send_imm, 1, 1, 0, size);
  expect_none(opcode::send_imm, gpu::MESSAGE, 2, 0, size);
  expect_none(opcode::send_imm, gpu::MESSAGE, 1, 5, size);
  expect_none(opcode::send_imm, gpu::MESSAGE, 1, 0, size - 1);
  expect_none(opcode::send_imm, gpu::MESSAGE, 1, 0, 4);
  // As it says itself, but longer than what a message may carry: nobody has room for it.
  message_head longer = good;
  longer.inline_length = gpu::MOST_INLINE_MESSAGE + 1;
  std::memcpy(bytes_, &longer, sizeof(longer));
  expect_none(opcode::send_imm, gpu::MESSAGE, 1, 0, sizeof(longer) + longer.inline_length);
}

TEST_F(world_messages, send__meets_a_receive_of_a_kernel) {
  take(1);
  ASSERT_EQ(finish(own_, send(own_, receive(1, 7))).what, outcome::done);
  EXPECT_TRUE(receives_.any());
  ASSERT_EQ(finish(own_, send(own_, small(7), 4711)).what, outcome::done);
  EXPECT_EQ(ended(1), gpu::status::ok);
  EXPECT_EQ(words_[0], 4711u);
  EXPECT_EQ(slots_[1].size, 8u);
  EXPECT_EQ(slots_[1].tag, 7u);
  EXPECT_EQ(slots_[1].rank, 0);
}

TEST_F(world_messages, send__not_inside_the_region) {
  message_head head = small(1);
  head.inline_length = 0;
  head.laddr = reinterpret_cast<std::uintptr_t>(words_ + 7);
  head.length = 16;
  head.lkey = key_;
  expect_refused(own_, send(own_, head), syndrome::local_protection, "region of its key");
}
TEST_F(world_messages, send__by_a_key_that_is_none) {
  message_head head = small(1);
  head.inline_length = 0;
  head.laddr = reinterpret_cast<std::uintptr_t>(words_);
  head.length = 8;
  head.lkey = key_ + 1;
  expect_refused(own_, send(own_, head), syndrome::local_protection, "region of its key");
}

TEST_F(world_messages, send__to_a_peer_that_has_died) {
  job_.kill();
  ASSERT_TRUE(job_.step_until([&] { return job_.runtime().core.peers.has_ended(1); }));
  expect_refused(world_, send(world_, small(1)), syndrome::retry_exceeded, "");
}

// A large one waits for its receiver, which dies.
TEST_F(world_messages, send__that_is_lost_ends_the_queue_at_its_next_request) {
  std::vector<std::byte> bytes(test::LARGE);
  mr_t large = register_memory_x(bytes.data(), bytes.size()).runtime(job_.handle())();
  ASSERT_EQ(finish(world_, send(world_, all_of(bytes, large))).what, outcome::done);
  EXPECT_TRUE(world_.is_in_use());
  EXPECT_EQ(world_.flush().what, outcome::posted) << "its buffer is not free";
  job_.kill();
  expect_refused(world_, {outcome::posted, syndrome::none}, syndrome::retry_exceeded, "lost");
  expect_refused(world_, send(world_, small(1)), syndrome::retry_exceeded, "lost");
  EXPECT_FALSE(world_.is_in_use());
  deregister_memory(&large);
}

// Behind it nothing may come that would tell.
TEST_F(world_messages, flush__of_a_message_that_is_lost_meanwhile) {
  if (!test::has_race_points) GTEST_SKIP() << test::RACE_POINTS_MISSING;
  std::vector<std::byte> bytes(test::LARGE);
  mr_t large = register_memory_x(bytes.data(), bytes.size()).runtime(job_.handle())();
  job_.meet();
  ASSERT_EQ(finish(world_, send(world_, all_of(bytes, large))).what, outcome::done);
  ASSERT_EQ(world_.flush().what, outcome::posted);
  {
    test::race_hook hook(
        "proxy_world.poll_flush.before_any",
        [&] {
          job_.kill();
          EXPECT_TRUE(job_.step_until([&] { return !world_.is_in_use(); }));
        },
        1);
    const device::answer a = world_.poll();
    EXPECT_EQ(hook.hits(), 1);
    EXPECT_EQ(a.what, outcome::failed);
    EXPECT_EQ(a.why, syndrome::retry_exceeded) << wqe::text_of(a.why);
    EXPECT_EQ(world_.reason(), "a message was lost");
  }
  deregister_memory(&large);
}

TEST_F(world_messages, receive__without_a_slot) {
  expect_refused(own_, send(own_, receive(2, 1)), syndrome::local_qp_operation, "slot");
}
TEST_F(world_messages, receive__in_a_slot_that_no_kernel_has_taken) {
  expect_refused(own_, send(own_, receive(0, 1)), syndrome::local_qp_operation, "slot");
}
TEST_F(world_messages, receive__twice_in_one_slot) {
  take(0);
  ASSERT_EQ(finish(own_, send(own_, receive(0, 1))).what, outcome::done);
  expect_refused(own_, send(own_, receive(0, 1)), syndrome::local_qp_operation, "slot");
}
TEST_F(world_messages, receive__with_room_outside_of_its_region) {
  take(0);
  expect_refused(own_, send(own_, receive(0, 1, 65)), syndrome::local_protection, "room");
  EXPECT_FALSE(receives_.any());
}

TEST_F(world_messages, receive__that_is_too_short) {
  ASSERT_EQ(finish(own_, send(own_, small(3), 5)).what, outcome::done);
  take(0);
  ASSERT_EQ(finish(own_, send(own_, receive(0, 3, 4))).what, outcome::done);
  EXPECT_EQ(ended(0), gpu::status::too_long);
  EXPECT_EQ(words_[0], 0u);
  job_.step();
  EXPECT_EQ(job_.texts<truncation_error>().size(), 1u) << "progress throws it";
  // The message waits for one that is long enough.
  take(1);
  ASSERT_EQ(finish(own_, send(own_, receive(1, 3))).what, outcome::done);
  EXPECT_EQ(ended(1), gpu::status::ok);
  EXPECT_EQ(words_[0], 5u);
}

TEST_F(world_messages, receive__from_a_rank_that_dies_or_is_dead) {
  take(0);
  ASSERT_EQ(finish(own_, send(own_, receive(0, 1, 8, 1))).what, outcome::done);
  job_.kill();
  EXPECT_EQ(ended(0), gpu::status::peer_lost);
  take(1);
  ASSERT_EQ(finish(own_, send(own_, receive(1, 1, 8, 1))).what, outcome::done);
  EXPECT_EQ(ended(1), gpu::status::peer_lost);
}

TEST_F(world_messages, receive__that_nothing_has_met_is_taken_back) {
  take(0);
  ASSERT_EQ(finish(own_, send(own_, receive(0, 9))).what, outcome::done);
  receives_.close(job_.runtime().default_matching_engine.p_impl->match);
  EXPECT_EQ(ended(0), gpu::status::aborted);
  EXPECT_FALSE(receives_.any());
  ASSERT_EQ(finish(own_, send(own_, small(9), 5)).what, outcome::done);
  job_.step(50);
  EXPECT_EQ(words_[0], 0u);
}

}  // namespace
}  // namespace lci::proxy
