// Words that a GPU sets, of ranks that end before they give them back.
#include "lci/proto/gpu/flag_words.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;
using proto::gpu::flag_word;
using proto::gpu::flag_words;

namespace {

// More than the numbers of processes, which end at 2^22.
constexpr int NO_PROCESS = std::numeric_limits<int>::max() - 10;
// So many looks in vain are more than two rounds over all words.
constexpr int MISSES = 3 * static_cast<int>(flag_words::WORDS) / 8;

gpu_options with_processes_from(int first) {
  gpu_options o;
  o.sim.maps_arenas = true;
  o.sim.first_process = first;
  return o;
}

flag_word* take_one(gpu_world& w) {
  return w[0].shared.gpu.flags.take_for(1, *w[0].fabric, w[0].core.peers);
}

// How many can be had now; they stay taken.
std::size_t take_all(gpu_world& w, std::uint64_t value = wire::FLAG_TAKEN) {
  std::size_t found = 0;
  for (int misses = 0; misses < MISSES;) {
    flag_word* const word = take_one(w);
    if (word == nullptr) {
      ++misses;
      continue;
    }
    word->store(value, std::memory_order_relaxed);
    ++found;
  }
  return found;
}

}  // namespace

TEST(flag_words_of_ended_ranks, that_a_gpu_has_set__are_free_when_the_process_is_gone) {
  for (const std::uint64_t value : {wire::FLAG_SET, wire::FLAG_VOID}) {
    gpu_world w(with_processes_from(NO_PROCESS));
    EXPECT_EQ(take_all(w, value), flag_words::WORDS);
    EXPECT_EQ(take_all(w), 0u) << "it has not ended";
    w[0].core.peers.report(1, lci::net::peer_event::fail, "it died");
    EXPECT_EQ(take_all(w), flag_words::WORDS);
  }
}

// It may look at them, and give them back, when another has them.
TEST(flag_words_of_ended_ranks, that_a_living_process_may_write__stay_taken) {
  for (const auto how : {lci::net::peer_event::leave, lci::net::peer_event::fail}) {
    gpu_world w(with_processes_from(getpid() - 1));
    EXPECT_EQ(take_all(w, wire::FLAG_SET), flag_words::WORDS);
    w[0].core.peers.report(1, how, "it has gone");
    EXPECT_EQ(take_all(w), 0u);
  }
}

TEST(flag_words_of_ended_ranks, that_a_copy_is_to_set__stay_taken_until_it_has) {
  gpu_world w(with_processes_from(NO_PROCESS));
  flag_word* const word = take_one(w);
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(take_all(w), flag_words::WORDS - 1);
  w[0].core.peers.report(1, lci::net::peer_event::fail, "it died");
  EXPECT_EQ(take_all(w), 0u);
  word->store(wire::FLAG_SET, std::memory_order_release);
  EXPECT_EQ(take_all(w), 1u);
}

// By a copy to the peer's memory, and to our own slot.
TEST(flag_words_of_ended_ranks, that_operations_have_told__come_back) {
  for (const mem_kind far : {mem_kind::device, mem_kind::host}) {
    gpu_world w(with_processes_from(NO_PROCESS));
    exchange one(w, verb::put_signal, mem_kind::device, far, 500);
    one.start();
    for (int i = 0; i < 20 && w.gpu(0).under_way() != 0; ++i) w.step_one(0);
    ASSERT_EQ(w.gpu(0).flagged(), 1u);
    ASSERT_EQ(w.gpu(0).under_way(), 0u);
    w.kill(1);
    w.step(50);
    EXPECT_TRUE(w[0].core.peers.has_ended(1));
    EXPECT_EQ(take_all(w), flag_words::WORDS);
  }
}
