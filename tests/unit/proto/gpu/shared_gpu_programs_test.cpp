// Operations between two processes on one GPU, once it is learned that the host is faster, or while
// it is: every one arrives, and tells how long it took.
#include <gtest/gtest.h>

#include "tests/unit/proto/gpu_world.hpp"

namespace lci::test {
namespace {

using mem::mem_kind;
using ways = proto::gpu::shared_gpu_ways;
// Longer than any message of a test takes, however slow the machine is.
constexpr std::uint64_t HOUR = 3600ull * 1'000'000'000;

gpu_options one_gpu() {
  gpu_options o;
  o.sim.maps_arenas = true;
  o.gpu.is_shared = true;
  return o;
}

ways& ways_of(gpu_world& w, int rank) { return w[rank].shared.gpu.shared_gpu; }
std::size_t choices_of(gpu_world& w, int rank) {
  return w[rank].shared.gpu.paths.count_by_choice();
}

// So many copies by the GPU have taken an hour each.
void be_slow(ways& at, int peer, std::size_t size, bool is_get, std::uint64_t times) {
  at.enter(peer);
  for (std::uint64_t i = 0; i < times; ++i)
    at.note(peer, size, is_get, ways::BY_GPU, i * HOUR, (i + 1) * HOUR);
}
// For sizes of each power of two the host is known to be the faster way.
void learn_host(gpu_world& w) {
  for (const int rank : {0, 1})
    for (const bool is_get : {false, true})
      for (std::size_t size = 1; size <= std::size_t{1} << 20; size *= 2) {
        be_slow(ways_of(w, rank), 1 - rank, size, is_get, ways::STRETCH);
        for (std::uint64_t i = 0; i < ways::STRETCH; ++i)
          ways_of(w, rank).note(1 - rank, size, is_get, ways::BY_HOST, i * 1000, (i + 1) * 1000);
        ASSERT_EQ(ways_of(w, rank).pick(1 - rank, size, is_get), ways::BY_HOST);
      }
}

TEST(shared_gpu_programs, through_the_host_by_choice__all_arrive) {
  for (const bool maps : {true, false}) {
    gpu_options o = one_gpu();
    o.sim.maps_arenas = maps;
    gpu_world w(o);
    learn_host(w);
    expect_each_arrives(w, {1, 100, 8193, 65'537, 300'001});
    // Sends, puts with and without a signal, and gets, of each size.
    EXPECT_EQ(choices_of(w, 0), maps ? 20u : 0u) << "where nothing is mapped there is no choice";
  }
}

TEST(shared_gpu_programs, receives_that_are_told_of_before__are_found_by_the_request) {
  gpu_world w(one_gpu());
  learn_host(w);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 70'000);
  one.preposted();
  one.start();
  EXPECT_TRUE(w.step_until([&] { return one.is_over(); }));
  one.expect_good();
  EXPECT_EQ(choices_of(w, 0), 1u);
}

// What ends through the host is noted: after so many of them the GPU is tried again.
TEST(shared_gpu_programs, puts_and_gets_and_sends__tell_their_time) {
  for (const verb what : {verb::put, verb::get, verb::send}) {
    gpu_world w(one_gpu());
    learn_host(w);
    const bool is_get = what == verb::get;
    for (std::uint32_t i = 0; i < ways::SHORTEST; ++i) {
      ASSERT_EQ(ways_of(w, 0).pick(1, 9000, is_get), ways::BY_HOST) << i;
      run_one(w, what, mem_kind::device, mem_kind::device, 9000);
    }
    EXPECT_EQ(choices_of(w, 0), ways::SHORTEST);
    EXPECT_EQ(ways_of(w, 0).pick(1, 9000, is_get), ways::BY_GPU) << name_of(what);
  }
}

// And what the GPU copies: the last of a stretch is a real one.
TEST(shared_gpu_programs, copies_by_the_gpu__tell_their_time) {
  for (const verb what : {verb::put, verb::get, verb::send}) {
    gpu_world w(one_gpu());
    const bool is_get = what == verb::get;
    be_slow(ways_of(w, 0), 1, 9000, is_get, ways::STRETCH - 1);
    ASSERT_EQ(ways_of(w, 0).pick(1, 9000, is_get), ways::BY_GPU);
    run_one(w, what, mem_kind::device, mem_kind::device, 9000);
    EXPECT_EQ(ways_of(w, 0).pick(1, 9000, is_get), ways::BY_HOST) << name_of(what);
    EXPECT_EQ(choices_of(w, 0), 0u);
  }
}

TEST(shared_gpu_programs, a_receiver_that_takes_direct_copies_alone__gets_them) {
  gpu_world w(one_gpu());
  learn_host(w);
  w[1].queues->host.gpu_path = attr_gpu_path_t::direct;
  run_one(w, verb::send, mem_kind::device, mem_kind::device, 70'000);
  EXPECT_TRUE(w.thrown.empty()) << w.errors();
  EXPECT_EQ(choices_of(w, 0), 0u);
  // Who has said so itself chooses nothing.
  w[0].queues->host.gpu_path = attr_gpu_path_t::direct;
  run_one(w, verb::put, mem_kind::device, mem_kind::device, 70'000);
  EXPECT_EQ(choices_of(w, 0), 0u);
}

TEST(shared_gpu_programs, on_two_gpus__nothing_is_learned) {
  gpu_options o = one_gpu();
  o.gpu.is_shared = false;
  gpu_world w(o);
  learn_host(w);
  expect_each_arrives(w, {8193, 70'000});
  EXPECT_EQ(choices_of(w, 0), 0u);
}

}  // namespace
}  // namespace lci::test
