// The same on words in GPU memory of the target, whose GPU performs them late and in no order.
#include <array>

#include "tests/unit/proto/atomics_world.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace wire = lci::proto::wire;
using lci::mem::mem_kind;

namespace {

struct gpu_words {
  explicit gpu_words(const gpu_options& options = {}) : w(options) {
    std::memset(memory.bytes(), 0, memory.size());
    const auto made =
        w[1].core.regions.insert({memory.at(), memory.size(), mem_kind::device, {}, false});
    region = {made.slot, made.generation};
  }
  void post(asked& one, std::uint64_t offset, std::uint64_t value, std::uint32_t size = 8,
            int from = 0) {
    one.rank = 1;
    one.region = region;
    one.offset = offset;
    one.change = add(value, size);
    lci::errorcode_t code;
    while (lci::proto::is_retry(code = w[from].queues->atomics.start(one))) w.step(1);
    ASSERT_EQ(code, lci::errorcode_t::posted);
  }
  atomic_outcome finish(asked& one) {
    EXPECT_TRUE(w.step_until([&] { return one.times != 0; }));
    EXPECT_EQ(one.times, 1);
    return one.ended;
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value;
    std::memcpy(&value, memory.bytes() + offset, sizeof(value));
    return value;
  }
  void expect_quiet() {
    w.step(20);
    for (int r = 0; r < 2; ++r)
      if (!w.is_dead(r)) {
        EXPECT_TRUE(w[r].queues->is_drained()) << r;
        EXPECT_FALSE(w[r].core.is_busy()) << r;
      }
  }

  fake_memory memory{4096};
  gpu_world w;
  wire::name region;
};

}  // namespace

TEST(remote_atomics_gpu, start__sums_are_exact) {
  gpu_options options;
  options.sim.refuse_one_in = 3;
  options.sim.max_delay_polls = 3;
  gpu_words g(options);
  std::array<asked, 120> all;
  for (std::size_t i = 0; i < all.size(); ++i)
    g.post(all[i], i % 3 * 8, 1, i % 3 == 2 ? 4 : 8, static_cast<int>(i % 2));
  std::array<bool, 120> seen{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(g.finish(all[i]), atomic_outcome::done);
    const std::size_t at = 3 * all[i].old + i % 3;
    ASSERT_LT(at, seen.size());
    EXPECT_FALSE(seen[at]);
    seen[at] = true;
  }
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(g.word(8 * k), all.size() / 3);
  EXPECT_EQ(g.w.gpu(1).atomics(), all.size());
  g.expect_quiet();
}

TEST(remote_atomics_gpu, start__what_cannot_be_has_its_reason) {
  gpu_words g;
  asked one;
  fake_gpu::settings how;
  how.refuses_atomics = true;
  g.w.gpu(1).set(how);
  g.post(one, 0, 1);
  EXPECT_EQ(g.finish(one), atomic_outcome::not_possible);
  how.refuses_atomics = false;
  how.fails_atomics = true;
  g.w.gpu(1).set(how);
  one.times = 0;
  g.post(one, 0, 1);
  EXPECT_EQ(g.finish(one), atomic_outcome::failed);
  one.times = 0;
  g.post(one, 4, 1);
  EXPECT_EQ(g.finish(one), atomic_outcome::misaligned);
  one.times = 0;
  g.post(one, 4096, 1);
  EXPECT_EQ(g.finish(one), atomic_outcome::out_of_bounds);
  EXPECT_EQ(g.word(0), 0u);
  g.expect_quiet();
}

TEST(remote_atomics_gpu, change_word__nobody_is_there_for_it) {
  gpu_words g;
  auto* const before =
      std::exchange(g.w[1].queues->host.accelerator, &lci::proto::no_accelerator());
  asked one;
  g.post(one, 0, 1);
  EXPECT_EQ(g.finish(one), atomic_outcome::not_possible);
  g.w[1].queues->host.accelerator = before;
  g.expect_quiet();
}

// Who asked is gone when the GPU is through.
TEST(remote_atomics_gpu, on_performed__for_a_rank_that_has_ended) {
  std::array<asked, 8> all;
  gpu_words g;
  for (asked& one : all) g.post(one, 0, 1);
  // Until the first one has come, of which the others are behind.
  EXPECT_TRUE(g.w.step_until([&] { return g.w.gpu(1).atomics() == all.size(); }));
  g.w.kill(0);
  g.w.step(50);
  EXPECT_EQ(g.word(0), all.size());
  g.expect_quiet();
}

// The device has given up waiting for a GPU that was busy.
TEST(remote_atomics_gpu, on_performed__after_the_device_has_ended) {
  std::array<asked, 8> all;
  gpu_words g;
  for (asked& one : all) g.post(one, 0, 1);
  node& there = g.w[1];
  EXPECT_TRUE(g.w.step_until([&] { return g.w.gpu(1).atomics() == all.size(); }));
  const std::uint64_t done = g.word(0);
  EXPECT_LT(done, all.size()) << "none was left to the GPU";
  there.queue.reset();
  there.queues.reset();
  EXPECT_TRUE(there.core.is_busy());
  for (std::uint64_t i = done; i < all.size(); ++i) g.w.gpu(1).poll();
  EXPECT_EQ(g.word(0), all.size());
  EXPECT_FALSE(there.core.is_busy());
  // What ends a node wants one.
  there.queues = std::make_unique<lci::proto::device_queues>(
      there.shared, *there.fabric, 1, lci::net::device_config{}, there.pool, std::size_t{8192});
  there.queue = there.queues->engine().lend_queue();
}
