// Collectives on devices, endpoints and engines other than the default ones, and with several
// threads that make progress.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/coll/data.hpp"

namespace lci::test {
namespace {

void expect_sum_on(device_t device, uint64_t salt) {
  const auto in = contribution(get_rank_me(), 2000, salt);
  std::vector<uint64_t> out(2000);
  allreduce_x(in.data(), out.data(), 2000, 8, add_u64).device(device)();
  EXPECT_EQ(out, sum_of_all(2000, salt));
}

TEST(resources, several_devices_take_turns) {
  device_t devices[3] = {alloc_device(), alloc_device(), alloc_device()};
  for (uint64_t round = 0; round < 5; ++round) {
    for (device_t device : devices) {
      barrier_x().device(device)();
      expect_sum_on(device, round);
    }
    expect_sum_on(get_default_device(), round);
  }
  barrier();
  for (device_t& device : devices) free_device(&device);
}

TEST(resources, an_endpoint_of_the_caller) {
  endpoint_t endpoint = alloc_endpoint();
  for (int i = 0; i < 10; ++i) barrier_x().endpoint(endpoint)();
  uint64_t all[64] = {}, mine = item_of(get_rank_me(), 0);
  allgather_x(&mine, all, 8).endpoint(endpoint)();
  for (int rank = 0; rank < get_rank_n(); ++rank) EXPECT_EQ(all[rank], item_of(rank, 0));
  barrier();
  free_endpoint(&endpoint);
}

// Nothing else makes progress on that device: the calls themselves have to.
TEST(resources, an_endpoint_of_another_device) {
  device_t device = alloc_device();
  endpoint_t endpoint = alloc_endpoint_x().device(device)();
  for (int i = 0; i < 10; ++i) barrier_x().endpoint(endpoint)();
  const auto in = contribution(get_rank_me(), 2000);
  std::vector<uint64_t> out(2000);
  allreduce_x(in.data(), out.data(), 2000, 8, add_u64).endpoint(endpoint)();
  EXPECT_EQ(out, sum_of_all(2000));
  uint64_t all[64] = {}, mine = item_of(get_rank_me(), 0);
  allgather_x(&mine, all, 8).endpoint(endpoint)();
  for (int rank = 0; rank < get_rank_n(); ++rank) EXPECT_EQ(all[rank], item_of(rank, 0));
  barrier();
  free_endpoint(&endpoint);
  free_device(&device);
}

TEST(resources, engines_of_the_caller_count_their_collectives_apart) {
  matching_engine_t engines[2] = {alloc_matching_engine(), alloc_matching_engine()};
  barrier();  // an engine is ready for messages when its rank has made it
  // On even ranks the first engine's collectives come first, on odd ones the second's: the order
  // has to be the same for one engine only.
  const size_t first = static_cast<size_t>(get_rank_me() % 2);
  comp_t counter = alloc_counter();
  std::vector<uint64_t> in[2], out[2];
  for (size_t i : {first, 1 - first}) {
    in[i] = contribution(get_rank_me(), 500, i);
    out[i].assign(500, 0);
    allreduce_x(in[i].data(), out[i].data(), 500, 8, add_u64)
        .matching_engine(engines[i])
        .comp(counter)();
  }
  while (counter_get(counter) < 2) progress();
  for (size_t i : {size_t{0}, size_t{1}}) EXPECT_EQ(out[i], sum_of_all(500, i));
  barrier();
  free_comp(&counter);
  for (matching_engine_t& engine : engines) free_matching_engine(&engine);
}

TEST(resources, the_programs_own_messages_do_not_meet_those_of_collectives) {
  const int me = get_rank_me(), n = get_rank_n();
  const int right = (me + 1) % n, left = (me + n - 1) % n;
  uint64_t heard = 0, mine = item_of(me, 1);
  comp_t sync = alloc_sync();
  // Tag 0 is also the tag of some message of the first collective of an engine.
  post_recv_x(left, &heard, sizeof(heard), 0, sync).allow_done(false)();
  for (int i = 0; i < 10; ++i) barrier();
  post_send(right, &mine, sizeof(mine), 0, COMP_NULL);
  status_t status;
  sync_wait(sync, &status);
  // A barrier's message has no bytes.
  EXPECT_EQ(status.get_size(), sizeof(heard));
  EXPECT_EQ(heard, item_of(left, 1));
  free_comp(&sync);
}

TEST(resources, other_threads_may_make_the_progress) {
  std::atomic<bool> over{false};
  std::vector<std::thread> helpers;
  for (int i = 0; i < 2; ++i) {
    helpers.emplace_back([&] {
      // Relaxed: nothing rides along; join() orders the rest.
      while (!over.load(std::memory_order_relaxed)) {
        progress();
        std::this_thread::yield();
      }
    });
  }
  for (uint64_t i = 0; i < 30; ++i) expect_sum_on(get_default_device(), i);
  comp_t sync = alloc_sync();
  for (int i = 0; i < 30; ++i) {
    barrier_x().comp(sync)();
    sync_wait_x(sync, nullptr).do_progress(false)();
  }
  barrier();
  over.store(true, std::memory_order_relaxed);
  for (std::thread& helper : helpers) helper.join();
  free_comp(&sync);
}

// A collective per thread, each on its own device and engine, at the same time.
TEST(resources, threads_with_devices_and_engines_of_their_own) {
  constexpr size_t THREADS = 3;
  std::vector<device_t> devices;
  std::vector<matching_engine_t> engines;
  for (size_t t = 0; t < THREADS; ++t) {
    devices.push_back(alloc_device());
    engines.push_back(alloc_matching_engine());
  }
  barrier();  // an engine is ready for messages when its rank has made it
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < THREADS; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t round = 0; round < 20; ++round) {
        const auto in = contribution(get_rank_me(), 200, round * THREADS + t);
        std::vector<uint64_t> out(200);
        allreduce_x(in.data(), out.data(), 200, 8, add_u64)
            .device(devices[t])
            .matching_engine(engines[t])();
        // Relaxed: join() orders it.
        if (out != sum_of_all(200, round * THREADS + t))
          wrong.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(std::memory_order_relaxed), 0);
  barrier();
  for (size_t t = 0; t < THREADS; ++t) {
    free_matching_engine(&engines[t]);
    free_device(&devices[t]);
  }
}

}  // namespace
}  // namespace lci::test
