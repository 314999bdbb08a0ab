// GPU memory in every operation, over fake fabrics of all kinds, with copies that run late and in
// no order. And the guards that these tests rest on: each is shown to fire.
#include <gtest/gtest.h>

#include <cstring>

#include "lci/errors.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/unit/proto/gpu_world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
using lci::mem::mem_kind;

namespace {

struct gpu_kind {
  std::string name;
  gpu_options options;
};

// Networks that map the arenas of peers and such that do not, and what goes wrong on both.
std::vector<gpu_kind> gpu_kinds() {
  std::vector<gpu_kind> all;
  for (const bool maps : {false, true}) {
    const auto add = [&](const char* name, auto&& change) {
      gpu_kind k{std::string(name) + (maps ? "_mapped" : "_apart"), {}};
      k.options.sim.maps_arenas = maps;
      change(k.options);
      all.push_back(k);
    };
    add("plain", [](gpu_options&) {});
    add("slow_copies", [](gpu_options& o) { o.gpu.max_delay = 40; });
    add("late", [](gpu_options& o) { o.sim.late = true; });
    add("refusing", [](gpu_options& o) {
      o.sim.refuse_one_in = 3;
      o.sim.connect_polls = 5;
      o.sim.depth = 4;
    });
    add("unordered", [](gpu_options& o) {
      o.sim.caps.ordered = false;
      o.sim.reorder_one_in = 3;
      o.sim.max_delay_polls = 5;
      o.sim.late = true;
    });
    add("staged", [](gpu_options& o) { o.way = lci::attr_gpu_path_t::staged; });
    add("no_sharing", [](gpu_options& o) { o.gpu.refuses_share = true; });
    add("no_mapping_of_memory", [](gpu_options& o) { o.gpu.refuses_map = true; });
    add("one_gpu", [](gpu_options& o) { o.gpu.is_shared = true; });
    add("no_pinning", [](gpu_options& o) { o.gpu.refuses_pin = true; });
    add("no_flags", [](gpu_options& o) { o.gpu.refuses_flags = true; });
    add("no_immediate", [](gpu_options& o) { o.sim.caps.write_with_immediate = false; });
    add("by_cpu", [](gpu_options& o) { o.by_cpu = true; });
    add("by_cpu_at_times", [](gpu_options& o) {
      o.by_cpu = true;
      o.gpu.refuse_hand_one_in = 2;
      o.sim.refuse_one_in = 3;
      o.sim.depth = 4;
      o.sim.late = true;
    });
    add("card", [](gpu_options& o) {
      const bool maps_arenas = o.sim.maps_arenas;
      o.sim = card_options();
      o.sim.maps_arenas = maps_arenas;
      o.sim.connect_polls = 5;
    });
    add("network_reads_gpus", [](gpu_options& o) {
      o.sim.caps.device_memory = true;
      o.sim.device_bytes = &fake_bytes;
      o.sim.late = true;
    });
  }
  return all;
}

class any_gpu_fabric : public testing::TestWithParam<gpu_kind> {};

}  // namespace

INSTANTIATE_TEST_SUITE_P(sim, any_gpu_fabric, testing::ValuesIn(gpu_kinds()),
                         [](const auto& of) { return of.param.name; });

TEST_P(any_gpu_fabric, every_operation_kind_and_size__arrives_once_with_its_bytes) {
  gpu_world w(GetParam().options);
  expect_each_arrives(w, {0, 1, 100, 8000, 8192, 8193, 65'537, 300'001});
}

// Slots of 2 KiB, which are filled again and again.
TEST_P(any_gpu_fabric, slots_that_are_used_again__bring_every_piece_to_its_place) {
  gpu_options options = GetParam().options;
  options.is_tight = true;
  gpu_world w(options);
  expect_each_arrives(w, {8193, 20'000, 32'768});
}

TEST_P(any_gpu_fabric, to_itself__arrives) {
  gpu_world w(GetParam().options);
  expect_each_arrives(w, {1, 8000, 70'000}, 0);
}

// Everything at once and in both directions, from posts that may not be refused.
TEST_P(any_gpu_fabric, many_at_once__all_complete) {
  for (const bool is_tight : {false, true}) {
    gpu_options options = GetParam().options;
    options.is_tight = is_tight;
    gpu_world w(options);
    expect_many_complete(w, 3);
  }
}

// What the processor copies itself: how many copies it makes, and how many the GPUs.
TEST(gpu_by_cpu, small_messages__need_no_copy_of_a_gpu) {
  struct row {
    verb what;
    mem_kind near, far;
    std::size_t size;
    std::uint64_t by_cpu, by_gpu;
  };
  constexpr mem_kind HOST = mem_kind::host, GPU = mem_kind::device;
  const row rows[] = {{verb::send, GPU, GPU, 8, 2, 0},
                      {verb::send, GPU, GPU, 1024, 2, 0},
                      {verb::send, GPU, GPU, 1025, 0, 1},
                      {verb::send, GPU, HOST, 1024, 1, 0},
                      {verb::send, HOST, GPU, 8, 1, 0},
                      {verb::send, HOST, GPU, 8000, 1, 0},
                      {verb::active_message, GPU, HOST, 100, 1, 0},
                      {verb::put, GPU, HOST, 100, 1, 0},
                      {verb::put_signal, GPU, HOST, 100, 1, 0},
                      {verb::put_signal, HOST, GPU, 100, 0, 1},
                      {verb::put, GPU, GPU, 100, 0, 1}};
  for (const bool allowed : {false, true})
    for (const row& one : rows) {
      gpu_options options;
      options.sim.maps_arenas = true;
      options.by_cpu = allowed;
      gpu_world w(options);
      run_one(w, one.what, one.near, one.far, one.size);
      const std::string text = std::string(name_of(one.what)) + " " + std::to_string(one.size);
      EXPECT_EQ(w.gpu(0).by_cpu() + w.gpu(1).by_cpu(), allowed ? one.by_cpu : 0u) << text;
      if (allowed) {
        EXPECT_EQ(w.gpu(0).copies() + w.gpu(1).copies(), one.by_gpu) << text;
      } else {
        EXPECT_GE(w.gpu(0).copies() + w.gpu(1).copies(), 1u) << text;
      }
    }
}

// The word `direct` means copy engines.
TEST(gpu_by_cpu, path_direct__is_left_alone) {
  gpu_options options;
  options.sim.maps_arenas = true;
  options.by_cpu = true;
  options.way = lci::attr_gpu_path_t::direct;
  gpu_world w(options);
  run_one(w, verb::send, mem_kind::device, mem_kind::device, 8);
  EXPECT_EQ(w.gpu(0).by_cpu(), 0u);
  EXPECT_EQ(w.gpu(0).copies(), 1u);
}

// The receive comes after the message: the post itself has the bytes.
TEST(gpu_by_cpu, message_that_waits__is_there_when_the_receive_is_posted) {
  gpu_options options;
  options.by_cpu = true;
  gpu_world w(options);
  for (const std::size_t size : {8, 100, 1000}) {
    exchange one(w, verb::send, mem_kind::device, mem_kind::device, size);
    one.start(false);
    w.step();
    one.expect_good();
  }
  EXPECT_EQ(w.gpu(0).copies() + w.gpu(1).copies(), 0u);
}

// The large class: four slots of 4 MiB, and a fifth piece.
TEST(gpu_staging, of_more_than_a_large_set__uses_its_slots_again) {
  for (const bool maps : {false, true}) {
    if (lci::test::IS_SANITIZED && maps) continue;  // 17 MiB, byte by byte
    gpu_options options;
    options.sim.maps_arenas = maps;
    options.way = lci::attr_gpu_path_t::staged;
    gpu_world w(options);
    run_one(w, verb::send, mem_kind::device, mem_kind::device, (std::size_t{17} << 20) + 5);
    run_one(w, verb::get, mem_kind::device, mem_kind::host, (std::size_t{17} << 20) + 5);
    w.expect_clean(0);
    w.expect_clean(1);
  }
}

// More transfers than the largest class has sets, in both directions, each of which needs a set at
// both ends where arenas are not mapped.
TEST(gpu_staging, of_more_transfers_than_sets__all_complete) {
  for (const bool maps : {false, true})
    for (const verb what : {verb::send, verb::put, verb::get}) {
      gpu_options options;
      options.sim.maps_arenas = maps;
      options.way = lci::attr_gpu_path_t::staged;
      gpu_world w(options);
      exchanges all;
      for (int i = 0; i < 12; ++i) {
        all.push_back(std::make_unique<exchange>(w, what, mem_kind::device, mem_kind::device,
                                                 270'000 + 1000 * static_cast<std::size_t>(i),
                                                 i % 2, 1 - i % 2));
        all.back()->start();
      }
      EXPECT_TRUE(w.step_until([&] { return are_over(all); }, 3000))
          << name_of(what) << (maps ? ", mapped" : "");
      w.step(100);
      for (const auto& one : all) one->expect_good();
      w.expect_clean(0);
      w.expect_clean(1);
    }
}

// ---- the guards ----

TEST(gpu_guards, of_buffers__fire) {
  test_buffer buffer(mem_kind::device, 10);
  buffer.fill(3);
  EXPECT_TRUE(buffer.holds(3));
  EXPECT_FALSE(buffer.holds(4));
  buffer.bytes()[10] = std::byte{};
  EXPECT_FALSE(buffer.holds(3));
}

TEST(gpu_guards, of_what_is_left__fire) {
  gpu_world w({});
  w.expect_clean(0);
  bool never = false;
  proto::gpu::slot_set* const set = w[0].shared.gpu.staging.take(100'000, never);
  EXPECT_TRUE(must_fire([&] { w.expect_clean(0); }, "staging sets of rank 0"));
  w[0].shared.gpu.staging.give(set);
  lci::mem::packet* const packet = w[0].pool.get();
  EXPECT_TRUE(must_fire([&] { w.expect_clean(0); }, "packets of rank 0"));
  w[0].pool.put(packet);
  exchange one(w, verb::send, mem_kind::device, mem_kind::device, 100'000);
  one.start();
  EXPECT_TRUE(must_fire([&] { w.expect_clean(0); }, "rank 0"));
  EXPECT_TRUE(must_fire([&] { one.expect_good(); }, "send of 100000 bytes"));
  w.step();
  one.expect_good();
  w.expect_clean(0);
}

TEST(gpu_guards, of_buffers_that_a_copy_uses__fire) {
  struct job final : lci::mem::copy_job {
    void on_copied(std::string_view) noexcept override {}
  } copy;
  gpu_options options;
  options.gpu.max_delay = 0;
  gpu_world w(options);
  test_buffer host(mem_kind::host, 100);
  test_buffer device(mem_kind::device, 100);
  copy.from = host.at();
  copy.to = device.at();
  copy.size = 100;
  w.gpu(1).copy(copy);
  watcher told;
  told.watch(w, device);
  EXPECT_TRUE(must_fire([&] { told.signal({}); }, "the GPU of rank 1 uses it"));
  w.gpu(1).poll();
  told.signal({});
}

TEST(gpu_guards_DeathTest, of_the_fake_gpu__end_the_test) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  fake_memory memory(100);
  EXPECT_DEATH(std::memset(memory.at(), 0, 1), "");
  struct job final : lci::mem::copy_job {
    void on_copied(std::string_view) noexcept override {}
  } copy;
  std::byte host[100];
  copy.from = host;
  copy.to = memory.at() + 50;
  copy.size = 51;
  gpu_world w({});
  EXPECT_DEATH(w.gpu(0).copy(copy), "past its memory");
  copy.size = 50;
  copy.way = lci::mem::copy_way::to_host;
  EXPECT_DEATH(w.gpu(0).copy(copy), "whose way");
  std::uint64_t word = 0;
  copy.way = lci::mem::copy_way::to_device;
  EXPECT_DEATH(w.gpu(0).copy_and_flag(copy, &word, 1), "pinned memory");
}
