// Ranks over the fake network that ask each other for atomic operations. Threads: one, unless a
// test makes more.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lci/proto/host/remote_atomics.hpp"
#include "lci/wqe/apply_change.hpp"
#include "tests/unit/proto/world.hpp"

namespace lci::test {

using proto::atomic_outcome;

inline constexpr std::uint64_t ALL = ~std::uint64_t{0};

struct asked final : proto::atomic_request {
  void on_atomic(atomic_outcome how) noexcept override {
    ended = how;
    ++times;
    if (then) then();
  }
  atomic_outcome ended = atomic_outcome::device_freed;
  int times = 0;
  std::function<void()> then;
};

inline wqe::word_change add(std::uint64_t value, std::uint32_t size = 8) {
  return {value, 0, 0, 0, wqe::word_change::ADD, size};
}

struct atomics_world : proto_world {
  using proto_world::proto_world;
  static proto::wire::name name_of(lci::net::remote_key key) { return {key.slot, key.generation}; }
  proto::remote_atomics& of(int rank) { return (*this)[rank].queues->atomics; }
  std::int64_t dropped(int rank) {
    return static_cast<std::int64_t>((*this)[rank].queues->engine().dropped.sum());
  }
  void post(int from, asked& one) {
    errorcode_t code;
    while (proto::is_retry(code = of(from).start(one))) step(1);
    ASSERT_EQ(code, errorcode_t::posted);
  }
  // Until it has ended.
  atomic_outcome finish(asked& one) {
    for (int i = 0; one.times == 0 && i < 20 * ROUNDS; ++i) step(1);
    EXPECT_EQ(one.times, 1);
    return one.ended;
  }
  // Rank 0 asks `to`.
  atomic_outcome change(asked& one, proto::wire::name region, std::uint64_t offset,
                        const wqe::word_change& how, int to = 1) {
    one.rank = to;
    one.region = region;
    one.offset = offset;
    one.change = how;
    one.times = 0;
    post(0, one);
    return finish(one);
  }
  void expect_quiet() {
    step(50);
    for (int r = 0; r < static_cast<int>(nodes.size()); ++r) {
      if (!nodes[static_cast<std::size_t>(r)]) continue;
      EXPECT_EQ(of(r).open(), 0u);
      EXPECT_TRUE((*this)[r].queues->is_drained());
    }
  }
};

// Networks that deliver late, in another order, and refuse.
inline std::vector<sim_options> moods() {
  sim_options slow, wild;
  slow.max_delay_polls = 5;
  slow.refuse_one_in = 2;
  slow.depth = 2;
  wild.caps.ordered = false;
  wild.reorder_one_in = 2;
  wild.refuse_one_in = 3;
  wild.connect_polls = 3;
  return {sim_options{}, sim_options{.late = true}, card_options(), slow, wild};
}

}  // namespace lci::test
