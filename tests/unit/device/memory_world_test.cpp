#include "lci/device/memory_world.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using namespace lci::device;
using lci::wqe::atomic_operands;
using lci::wqe::opcode;
using lci::wqe::syndrome;

class memory_world_test : public testing::Test {
 protected:
  memory_world_test() {
    key = keys.add({reinterpret_cast<std::byte*>(words), sizeof(words), REMOTE_ATOMIC});
  }
  // What was there, and what is there now.
  std::uint64_t atomic(opcode op, std::uint64_t before, const atomic_operands& with) {
    words[0] = before;
    std::uint64_t old = 0;
    const answer a = world.atomic(op, with, place(0), reinterpret_cast<std::byte*>(&old));
    EXPECT_EQ(a.what, outcome::done);
    EXPECT_EQ(old, with.size == 4 ? before & 0xffffffff : before);
    return words[0];
  }
  remote_place place(std::uint64_t at) {
    return {reinterpret_cast<std::uintptr_t>(words) + at, key};
  }

  alignas(8) std::uint64_t words[4] = {};
  key_table keys;
  std::uint32_t key = 0;
  memory_world world{keys, nullptr, 1};
};

TEST_F(memory_world_test, atomic__plain) {
  EXPECT_EQ(atomic(opcode::atomic_fa, 5, {3, 0, 0, 0, 8}), 8u);
  EXPECT_EQ(atomic(opcode::atomic_fa, 5, {~std::uint64_t{0}, 0, 0, 0, 8}), 4u);
  EXPECT_EQ(atomic(opcode::atomic_cs, 5, {9, 5, 0, 0, 8}), 9u);
  EXPECT_EQ(atomic(opcode::atomic_cs, 5, {9, 4, 0, 0, 8}), 5u);
}

TEST_F(memory_world_test, atomic__masked) {
  const std::uint64_t all = ~std::uint64_t{0};
  // Swap: nothing is compared. A part is compared, another written.
  EXPECT_EQ(atomic(opcode::atomic_masked_cs, 5, {9, 0, all, 0, 8}), 9u);
  EXPECT_EQ(atomic(opcode::atomic_masked_cs, 0x1234, {0xff00, 0x34, 0xff00, 0xff, 8}), 0xff34u);
  EXPECT_EQ(atomic(opcode::atomic_masked_cs, 0x1235, {0xff00, 0x34, 0xff00, 0xff, 8}), 0x1235u);
  // Addition: all boundaries are an exclusive or, none are the plain one, else fields of their own.
  EXPECT_EQ(atomic(opcode::atomic_masked_fa, 0xff, {0x0f, 0, 0, all, 8}), 0xf0u);
  EXPECT_EQ(atomic(opcode::atomic_masked_fa, 0xff, {1, 0, 0, 0, 8}), 0x100u);
  EXPECT_EQ(atomic(opcode::atomic_masked_fa, 0xff, {1, 0, 0, 0x80, 8}), 0x00u);
  EXPECT_EQ(atomic(opcode::atomic_masked_fa, 0x10ff, {0x101, 0, 0, 0x8080, 8}), 0x1100u);
}

TEST_F(memory_world_test, atomic__four_bytes_leave_the_other_four) {
  const std::uint64_t high = std::uint64_t{7} << 32;
  EXPECT_EQ(atomic(opcode::atomic_masked_fa, high | 0xffffffff, {1, 0, 0, 0, 4}), high);
  EXPECT_EQ(atomic(opcode::atomic_masked_cs, high | 5, {9, 5, 0xffffffff, 0xffffffff, 4}),
            high | 9);
}

TEST_F(memory_world_test, atomic__misplaced_or_without_access) {
  std::byte old[8] = {};
  const atomic_operands one{1, 0, 0, 0, 8};
  EXPECT_EQ(world.atomic(opcode::atomic_fa, one, place(4), old).why,
            syndrome::remote_invalid_request);
  EXPECT_EQ(world.atomic(opcode::atomic_fa, one, place(28), old).why, syndrome::remote_access);
  EXPECT_EQ(world.get(place(0), {nullptr, 0, 8}).why, syndrome::remote_access);
  EXPECT_EQ(world.put(opcode::rdma_write, {nullptr, 0, 8}, place(0), 0, false).why,
            syndrome::remote_access);
  EXPECT_EQ(world.put(opcode::rdma_write, {nullptr, 0, 0}, {0, 0}, 0, false).what, outcome::done);
  for (std::uint64_t w : words) EXPECT_EQ(w, 0u);
}

}  // namespace
