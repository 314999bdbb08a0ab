// Costs inside one process, by Google Benchmark: building a post, entering an owned object,
// packets, completion objects, matching. Uses internal headers of base and mem beside the public
// interface. Threads: as each case says.
#include <benchmark/benchmark.h>

#include <mutex>

#include "lci.hpp"
#include "lci/base/owned.hpp"
#include "lci/base/spinlock.hpp"
#include "lci/mem/packet_pool.hpp"
#include "lci/mem/region_table.hpp"

namespace {

// Building a post without carrying it out: the call ends in a function that the compiler cannot see
// through.
__attribute__((noinline)) lci::status_t swallow(const lci::detail::post_args& args) {
  benchmark::DoNotOptimize(&args);
  return lci::errorcode_t::done;
}
struct swallowed_post : lci::detail::post_operation<swallowed_post, &swallow>,
                        lci::detail::matching_options<swallowed_post> {
  swallowed_post(int rank, void* buffer, std::size_t size, lci::tag_t tag, lci::comp_t comp)
      : post_operation(rank, buffer, size, comp) {
    args.tag = tag;
  }
};

void post_build__no_option(benchmark::State& state) {
  char data[8] = {};
  for (auto _ : state) {
    benchmark::DoNotOptimize(swallowed_post(0, data, sizeof data, 1, lci::COMP_NULL)());
  }
}
BENCHMARK(post_build__no_option);

void post_build__three_options(benchmark::State& state) {
  char data[8] = {};
  const lci::device_t device = lci::get_default_device();
  for (auto _ : state) {
    benchmark::DoNotOptimize(swallowed_post(0, data, sizeof data, 1, lci::COMP_NULL)
                                 .device(device)
                                 .user_context(data)
                                 .allow_posted(true)());
  }
}
BENCHMARK(post_build__three_options);

void self_am__8_bytes(benchmark::State& state) {
  static std::uint64_t arrived;
  lci::comp_t handler = lci::alloc_handler_x([](lci::status_t message) {
                          lci::put_upacket(message.get_buffer());
                          ++arrived;
                        }).zero_copy_am(true)();
  const lci::rcomp_t to = lci::register_rcomp(handler);
  char data[8] = {};
  for (auto _ : state) {
    const std::uint64_t expected = arrived + 1;
    while (lci::post_am(0, data, sizeof data, lci::COMP_NULL, to).is_retry()) lci::progress();
    while (arrived < expected) lci::progress();
  }
  lci::deregister_rcomp(to);
  lci::free_comp(&handler);
}
BENCHMARK(self_am__8_bytes);

void progress__nothing_there(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(lci::progress());
}
BENCHMARK(progress__nothing_there);

void owned__enter_and_leave(benchmark::State& state) {
  lci::base::owned it;
  for (auto _ : state) {
    benchmark::DoNotOptimize(it.enter());
    it.leave();
  }
}
BENCHMARK(owned__enter_and_leave);

void owned__locked_form(benchmark::State& state) {
  lci::base::force_locked_fence_for_test(true);
  owned__enter_and_leave(state);
  lci::base::force_locked_fence_for_test(false);
}
BENCHMARK(owned__locked_form);

void owned__not_the_owner(benchmark::State& state) {
  static lci::base::owned it;
  if (state.thread_index() == 0) benchmark::DoNotOptimize(it.enter());
  for (auto _ : state) {
    if (it.enter()) it.leave();
  }
  if (state.thread_index() == 0) it.leave();
}
BENCHMARK(owned__not_the_owner)->Threads(2);

void spinlock__lock_and_unlock(benchmark::State& state) {
  lci::base::spinlock it;
  for (auto _ : state) {
    it.lock();
    it.unlock();
  }
}
BENCHMARK(spinlock__lock_and_unlock);

void mutex__lock_and_unlock(benchmark::State& state) {
  std::mutex it;
  for (auto _ : state) {
    it.lock();
    it.unlock();
  }
}
BENCHMARK(mutex__lock_and_unlock);

void packet_pool__get_and_put(benchmark::State& state) {
  static lci::mem::arena arena;
  static lci::mem::packet_pool pool(arena, 8320, 4096);
  for (auto _ : state) {
    lci::mem::packet* p = pool.get();
    benchmark::DoNotOptimize(p);
    pool.put(p);
  }
}
BENCHMARK(packet_pool__get_and_put)->ThreadRange(1, 2);

// More than a cache holds: every magazine travels to the store and back.
void packet_pool__through_the_store(benchmark::State& state) {
  lci::mem::arena arena;
  lci::mem::packet_pool pool(arena, 8320, 4096);
  std::vector<lci::mem::packet*> held(256);
  for (auto _ : state) {
    for (auto*& p : held) p = pool.get();
    for (auto* p : held) pool.put(p);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(held.size()));
}
BENCHMARK(packet_pool__through_the_store);

void upacket__get_and_put(benchmark::State& state) {
  for (auto _ : state) {
    void* p = lci::get_upacket();
    benchmark::DoNotOptimize(p);
    lci::put_upacket(p);
  }
}
BENCHMARK(upacket__get_and_put);

void region_table__insert_and_erase(benchmark::State& state) {
  lci::mem::arena arena;
  lci::mem::region_table table(arena);
  for (auto _ : state) table.erase(table.insert(&state, 8));
}
BENCHMARK(region_table__insert_and_erase);

void region_table__find(benchmark::State& state) {
  lci::mem::arena arena;
  lci::mem::region_table table(arena);
  const lci::mem::region_name name = table.insert(&state, 8);
  for (auto _ : state) benchmark::DoNotOptimize(table.find(name, 0, 8));
}
BENCHMARK(region_table__find);

lci::status_t done_status() {
  lci::status_t status(lci::errorcode_t::done);
  status.rank = 0;
  return status;
}

void completion__queue(benchmark::State& state) {
  lci::comp_t queue = lci::alloc_cq();
  const lci::status_t status = done_status();
  for (auto _ : state) {
    lci::comp_signal(queue, status);
    benchmark::DoNotOptimize(lci::cq_pop(queue));
  }
  lci::free_comp(&queue);
}
BENCHMARK(completion__queue);

void completion__counter(benchmark::State& state) {
  lci::comp_t counter = lci::alloc_counter();
  const lci::status_t status = done_status();
  for (auto _ : state) {
    lci::comp_signal(counter, status);
    benchmark::DoNotOptimize(lci::counter_get(counter));
  }
  lci::free_comp(&counter);
}
BENCHMARK(completion__counter);

void completion__synchronizer(benchmark::State& state) {
  lci::comp_t sync = lci::alloc_sync();
  const lci::status_t status = done_status();
  lci::status_t out;
  for (auto _ : state) {
    lci::comp_signal(sync, status);
    benchmark::DoNotOptimize(lci::sync_test(sync, &out));
  }
  lci::free_comp(&sync);
}
BENCHMARK(completion__synchronizer);

void completion__handler(benchmark::State& state) {
  lci::comp_t handler = lci::alloc_handler([](lci::status_t s) { benchmark::DoNotOptimize(s); });
  const lci::status_t status = done_status();
  for (auto _ : state) lci::comp_signal(handler, status);
  lci::free_comp(&handler);
}
BENCHMARK(completion__handler);

// A receive and the send that it matches, with this many other entries waiting.
void matching__pair(benchmark::State& state) {
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  const auto waiting = static_cast<lci::matching_entry_key_t>(state.range(0));
  int value = 0;
  using side = lci::matching_entry_type_t;
  for (lci::matching_entry_key_t key = 1; key <= waiting; ++key) {
    lci::matching_engine_insert(engine, key, &value, side::recv);
  }
  for (auto _ : state) {
    lci::matching_engine_insert(engine, 0, &value, side::recv);
    benchmark::DoNotOptimize(lci::matching_engine_insert(engine, 0, &value, side::send));
  }
  for (lci::matching_entry_key_t key = 1; key <= waiting; ++key) {
    lci::matching_engine_insert(engine, key, &value, side::send);
  }
  lci::free_matching_engine(&engine);
}
BENCHMARK(matching__pair)->Arg(0)->Arg(100)->Arg(10000);

}  // namespace

int main(int argc, char** argv) {
  lci::g_runtime_init();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  lci::g_runtime_fina();
}
