// Start and end of the library, several times in one process: counting, private runtimes with and
// without a global one, defaults from options, program and environment, teardown with things still
// open.
//   lcrun -n 2 interface_setup
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "lci.hpp"
#include "tests/support/watchdog.hpp"

namespace {

int rank_of_job = -1;
int ranks_of_job = 0;
int next() { return (rank_of_job + 1) % ranks_of_job; }
int previous() { return (rank_of_job + ranks_of_job - 1) % ranks_of_job; }

// A message around the ring by nothing but blocking calls.
// Over that runtime, or over the one that is taken where none is given.
void exchange(lci::runtime_t runtime) {
  int out = rank_of_job, in = -1;
  lci::comp_t sync = lci::alloc_sync();
  const auto run = [runtime](auto op) {
    if (!runtime.is_empty()) op.runtime(runtime);
    op();
  };
  lci::post_recv_x recv(previous(), &in, sizeof in, 5, sync);
  recv.allow_done(false);
  run(recv);
  run(lci::post_send_x(next(), &out, sizeof out, 5, lci::COMP_NULL));
  lci::status_t status;
  run(lci::sync_wait_x(sync, &status));
  EXPECT_EQ(in, previous());
  EXPECT_EQ(status.rank, previous());
  lci::free_comp(&sync);
}

// Each of them says that there is no runtime.
void expect_no_collectives() {
  std::uint64_t in[2] = {}, out[2] = {};
  const auto add = [](const void*, const void*, void*, std::size_t) {};
  const auto expect_refused = [](const char* name, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << name << ": nothing thrown";
    } catch (const lci::argument_error& error) {
      EXPECT_NE(std::string(error.what()).find("runtime was not given"), std::string::npos)
          << name << ": " << error.what();
    }
  };
  expect_refused("barrier", [] { lci::barrier(); });
  expect_refused("broadcast", [&] { lci::broadcast(in, 8, 0); });
  expect_refused("reduce", [&] { lci::reduce(in, out, 1, 8, add, 0); });
  expect_refused("allreduce", [&] { lci::allreduce(in, out, 1, 8, add); });
  expect_refused("reduce_scatter", [&] { lci::reduce_scatter(in, out, 1, 8, add); });
  expect_refused("allgather", [&] { lci::allgather(in, out, 8); });
  expect_refused("alltoall", [&] { lci::alltoall(in, out, 8); });
}

TEST(setup, before__ranks_are_unknown_and_defaults_are_real) {
  lci::global_finalize();
  EXPECT_EQ(lci::get_rank_me(), -1);
  EXPECT_EQ(lci::get_rank_n(), -1);
  EXPECT_EQ(lci::get_g_default_attr().sync_threshold, 1);
  lci::comp_t sync = lci::alloc_sync();
  EXPECT_EQ(sync.get_attr_sync_threshold(), 1);
  lci::free_comp(&sync);
  EXPECT_TRUE(lci::get_g_runtime().is_empty());
  EXPECT_THROW(lci::post_send(0, nullptr, 0, 0, lci::COMP_NULL), lci::argument_error);
  EXPECT_THROW(lci::progress(), lci::argument_error);
  expect_no_collectives();
  EXPECT_THROW(lci::global_finalize(), std::runtime_error);
  lci::global_initialize();
  expect_no_collectives();
  EXPECT_EQ(lci::get_rank_me(), rank_of_job) << "the same rank after starting again";
}

TEST(setup, global_runtime__defaults_out_of_range_are_refused) {
  const lci::global_attr_t before = lci::get_g_default_attr();
  lci::global_attr_t attr = before;
  attr.net_max_recvs = 0;
  lci::set_g_default_attr(attr);
  EXPECT_THROW(lci::g_runtime_init(), lci::argument_error);
  attr = before;
  attr.npackets = 0;
  lci::set_g_default_attr(attr);
  EXPECT_FALSE(lci::g_runtime_init().is_empty()) << "0 packets are legal";
  lci::g_runtime_fina();
  lci::set_g_default_attr(before);
}

TEST(setup, initialize__is_counted) {
  lci::global_initialize();
  lci::global_initialize();
  lci::global_finalize();
  EXPECT_EQ(lci::get_rank_n(), ranks_of_job);
  lci::global_finalize();
  EXPECT_EQ(lci::get_rank_n(), ranks_of_job);
}

TEST(setup, global_runtime__has_what_its_options_say) {
  lci::runtime_t runtime = lci::g_runtime_init();
  EXPECT_EQ(runtime, lci::get_g_runtime());
  EXPECT_FALSE(lci::get_default_device().is_empty());
  EXPECT_FALSE(lci::get_default_endpoint().is_empty());
  EXPECT_FALSE(lci::get_default_net_context().is_empty());
  EXPECT_FALSE(lci::get_default_packet_pool().is_empty());
  EXPECT_FALSE(lci::get_default_matching_engine().is_empty());
  EXPECT_EQ(lci::get_max_bcopy_size(), 8192u);
  EXPECT_NE(runtime.get_attr_rdv_protocol(), lci::attr_rdv_protocol_t::auto_select);
  EXPECT_NE(lci::get_default_net_context().get_attr_backend(), lci::attr_backend_t::none);
  exchange(runtime);
  exchange(lci::runtime_t());
  lci::barrier();
  lci::g_runtime_fina();
  EXPECT_TRUE(lci::get_g_runtime().is_empty());
}

// Handlers that make progress, as deep as the option says.
int handler_depth = 0, deepest_handler = 0, handled = 0;
lci::rcomp_t nested = 0;
void on_nested(lci::status_t status) {
  std::free(status.buffer);
  ++handled;
  deepest_handler = std::max(deepest_handler, ++handler_depth);
  for (int i = 0; i < 4; ++i) lci::progress();
  --handler_depth;
}

TEST(setup, max_handler_depth__is_what_the_option_says) {
  EXPECT_EQ(lci::get_g_default_attr().max_handler_depth, 8);
  for (const int depth : {1, 3, 8, 32}) {
    const lci::runtime_t runtime = lci::g_runtime_init_x().max_handler_depth(depth)();
    EXPECT_EQ(runtime.get_attr_max_handler_depth(), depth);
    lci::comp_t handler = lci::alloc_handler(on_nested);
    nested = lci::register_rcomp(handler);
    lci::barrier();
    handled = deepest_handler = 0;
    char byte = 0;
    // So many that each has one to find.
    constexpr int COUNT = 600;
    for (int i = 0; i < COUNT; ++i)
      lci::post_am_x(rank_of_job, &byte, 1, lci::COMP_NULL_RETRY, nested).allow_retry(false)();
    while (handled < COUNT) lci::progress();
    EXPECT_EQ(deepest_handler, depth);
    lci::barrier();
    lci::deregister_rcomp(nested);
    lci::free_comp(&handler);
    lci::g_runtime_fina();
  }
  for (const int depth : {0, -1, 33})
    EXPECT_THROW(lci::g_runtime_init_x().max_handler_depth(depth)(), lci::argument_error) << depth;
}

TEST(setup, global_runtime__twice_is_the_same_one) {
  const lci::runtime_t first = lci::g_runtime_init();
  EXPECT_EQ(lci::g_runtime_init(), first);
  lci::barrier();
  lci::g_runtime_fina();
  EXPECT_THROW(lci::g_runtime_init(), lci::argument_error) << "freed already, and not counted";
  lci::g_runtime_fina();
  EXPECT_THROW(lci::g_runtime_fina(), std::runtime_error);
}

TEST(setup, global_runtime__without_defaults) {
  lci::g_runtime_init_x().alloc_default_device(false).name("bare")();
  EXPECT_STREQ(lci::get_g_runtime().get_attr_name(), "bare");
  EXPECT_FALSE(lci::get_g_runtime().get_attr_alloc_default_device());
  EXPECT_TRUE(lci::get_default_device().is_empty());
  int value = 1;
  EXPECT_THROW(lci::post_send(next(), &value, sizeof value, 1, lci::COMP_NULL),
               lci::argument_error);
  // The way clients start: registration before the first device.
  lci::comp_t counter = lci::alloc_counter();
  const lci::rcomp_t rcomp = lci::register_rcomp(counter);
  lci::device_t device = lci::alloc_device();
  lci::post_am_x(next(), &value, sizeof value, lci::COMP_NULL, rcomp).device(device)();
  while (lci::counter_get(counter) == 0) lci::progress_x().device(device)();
  lci::barrier_x().device(device)();
  lci::free_device(&device);
  lci::free_comp(&counter);
  lci::g_runtime_fina();
}

// It belongs to the net context, so a device says what that has.
TEST(setup, shm_enable_and_use_reg_cache__of_a_device_read_back_what_is) {
  lci::g_runtime_init();
  const bool is_on = lci::get_default_device().get_attr_shm_enable();
  const bool keeps = lci::get_default_device().get_attr_use_reg_cache();
  for (const bool wish : {false, true}) {
    lci::device_t device = lci::alloc_device_x().shm_enable(wish).use_reg_cache(wish)();
    EXPECT_EQ(device.get_attr_shm_enable(), is_on) << wish;
    EXPECT_EQ(device.get_attr_use_reg_cache(), keeps) << wish;
    lci::free_device(&device);
  }
  lci::g_runtime_fina();
}

TEST(setup, private_runtime__needs_no_global_one) {
  lci::runtime_t runtime = lci::alloc_runtime();
  EXPECT_TRUE(lci::get_g_runtime().is_empty());
  EXPECT_FALSE(lci::get_default_device_x().runtime(runtime)().is_empty());
  exchange(runtime);
  // A device alone says which runtime is meant.
  const lci::device_t device = lci::get_default_device_x().runtime(runtime)();
  lci::progress_x().device(device)();
  lci::barrier_x().device(device)();
  lci::free_runtime(&runtime);
  EXPECT_TRUE(runtime.is_empty());
}

// Blocking calls on the private one make progress on its device with its own tables.
TEST(setup, private_runtime__beside_a_global_one) {
  const lci::runtime_t global = lci::g_runtime_init();
  lci::runtime_t own = lci::alloc_runtime();
  EXPECT_FALSE(own == global);
  for (int i = 0; i < 5; ++i) {
    exchange(own);
    exchange(global);
  }
  // The same number means different objects in the two.
  lci::comp_t a = lci::alloc_counter(), b = lci::alloc_counter();
  const lci::rcomp_t in_global = lci::register_rcomp(a);
  const lci::rcomp_t in_own = lci::register_rcomp_x(b).runtime(own)();
  EXPECT_EQ(in_global, in_own);
  lci::barrier();
  char byte = 1;
  lci::post_am_x(next(), &byte, 1, lci::COMP_NULL, in_own).runtime(own)();
  while (lci::counter_get(b) == 0) lci::progress_x().runtime(own)();
  lci::barrier();
  EXPECT_EQ(lci::counter_get(a), 0);
  lci::barrier_x().runtime(own)();
  lci::free_runtime(&own);
  lci::g_runtime_fina();
  lci::free_comp(&a);
  lci::free_comp(&b);
}

TEST(setup, teardown__ends_with_unmatched_receives_and_live_registrations) {
  lci::g_runtime_init();
  static char buffers[3][64];
  lci::comp_t cq = lci::alloc_cq();
  lci::post_recv(previous(), buffers[0], 64, 1, cq);
  lci::post_recv(lci::ANY_SOURCE, buffers[1], 64, 2, cq);
  const lci::mr_t forgotten = lci::register_memory(buffers[2], 64);
  EXPECT_FALSE(forgotten.is_empty());
  // A message that nobody receives either.
  lci::post_send(next(), buffers[2], 64, 3, lci::COMP_NULL);
  lci::barrier();
  lci::g_runtime_fina();
  lci::free_comp(&cq);
}

TEST(setup, defaults__act_on_later_allocations) {
  lci::g_runtime_init();
  const lci::global_attr_t before = lci::get_g_default_attr();
  lci::global_attr_t attr = before;
  attr.npackets = 512;
  attr.sync_threshold = 2;
  attr.matching_engine_type = lci::attr_matching_engine_type_t::queue;
  lci::set_g_default_attr(attr);
  lci::packet_pool_t pool = lci::alloc_packet_pool();
  EXPECT_EQ(pool.get_attr_npackets(), 512u);
  lci::comp_t two = lci::alloc_sync(), three = lci::alloc_sync_x().threshold(3)();
  EXPECT_EQ(two.get_attr_sync_threshold(), 2);
  EXPECT_EQ(three.get_attr_sync_threshold(), 3);
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  EXPECT_EQ(engine.get_attr_matching_engine_type(), lci::attr_matching_engine_type_t::queue);
  lci::set_g_default_attr(before);
  lci::free_matching_engine(&engine);
  lci::free_packet_pool(&pool);
  lci::free_comp(&two);
  lci::free_comp(&three);
  lci::barrier();
  lci::g_runtime_fina();
}

// Starts the library anew with one variable set.
template <class Check>
void with_variable(const char* name, const char* value, Check check) {
  lci::global_finalize();
  ::setenv(name, value, 1);
  check();
  ::unsetenv(name);
  lci::global_initialize();
}

TEST(setup, environment__presets_attributes) {
  with_variable("LCI_ATTR_NPACKETS", "0x200", [] {
    lci::global_initialize();
    EXPECT_EQ(lci::get_g_default_attr().npackets, 512u);
    lci::global_finalize();
  });
  with_variable("LCI_ATTR_SHM_ENABLE", "off", [] {
    lci::global_initialize();
    EXPECT_FALSE(lci::get_g_default_attr().shm_enable);
    lci::global_finalize();
  });
  with_variable("LCI_ATTR_CQ_TYPE", "per_thread", [] {
    lci::global_initialize();
    lci::comp_t queue = lci::alloc_cq();
    EXPECT_EQ(queue.get_attr_cq_type(), lci::attr_cq_type_t::per_thread);
    lci::free_comp(&queue);
    lci::global_finalize();
  });
  with_variable("LCI_NET_LOCK_MODE", "send,poll", [] {
    lci::global_initialize();
    EXPECT_EQ(lci::get_g_default_attr().ofi_lock_mode, 5u);
    lci::global_finalize();
  });
}

TEST(setup, environment__nonsense_is_refused_by_name) {
  with_variable("LCI_ATTR_PACKET_SIZE", "eight", [] {
    try {
      lci::global_initialize();
      ADD_FAILURE() << "accepted";
      lci::global_finalize();
    } catch (const std::runtime_error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("LCI_ATTR_PACKET_SIZE"), std::string::npos) << text;
      EXPECT_NE(text.find("eight"), std::string::npos) << text;
    }
  });
}

TEST(setup, backend__that_is_not_usable_is_refused_with_reasons) {
  const lci::global_attr_t before = lci::get_g_default_attr();
  lci::global_attr_t attr = before;
  attr.backend = lci::attr_backend_t::ucx;
  lci::set_g_default_attr(attr);
  try {
    lci::runtime_t runtime = lci::alloc_runtime();
    ADD_FAILURE() << "accepted";
    lci::free_runtime(&runtime);
  } catch (const lci::backend_error& error) {
    EXPECT_NE(std::string(error.what()).find("ucx"), std::string::npos) << error.what();
  }
  lci::set_g_default_attr(before);
}

// Over a network with names; the same names ask for the same network again.
TEST(setup, network_names__read_back_what_is_used) {
  lci::g_runtime_init();
  lci::net_context_t first = lci::get_default_net_context();
  if (first.get_attr_backend() == lci::attr_backend_t::ofi) {
    const std::string provider = first.get_attr_ofi_provider_name();
    const std::string device = first.get_attr_device_name();
    EXPECT_NE(provider.find("tcp"), std::string::npos) << provider;
    EXPECT_FALSE(device.empty());
    lci::net_context_t second =
        lci::alloc_net_context_x().ofi_provider_name(provider).device_name(device)();
    EXPECT_EQ(second.get_attr_ofi_provider_name(), provider);
    EXPECT_EQ(second.get_attr_device_name(), device);
    lci::free_net_context(&second);
  } else {
    EXPECT_EQ(first.get_attr_device_name(), "") << "shared memory has no cards";
  }
  lci::g_runtime_fina();
}

// The bootstrap is gone then, and progress asks it for news.
TEST(setup, runtime__outlives_the_last_global_finalize) {
  lci::global_initialize();
  lci::runtime_t runtime = lci::alloc_runtime();
  exchange(runtime);
  const lci::device_t device = lci::get_default_device_x().runtime(runtime)();
  lci::global_finalize();
  for (int round = 0; round < 1000; ++round) lci::progress_x().device(device)();
  lci::free_runtime(&runtime);
}

TEST(setup, start_and_end__many_times) {
  for (int round = 0; round < 10; ++round) {
    lci::g_runtime_init();
    exchange(lci::get_g_runtime());
    lci::barrier();
    lci::g_runtime_fina();
  }
}

}  // namespace

int main(int argc, char** argv) {
  lci::global_initialize();
  rank_of_job = lci::get_rank_me();
  ranks_of_job = lci::get_rank_n();
  if (rank_of_job != 0) GTEST_FLAG_SET(brief, true);
  testing::InitGoogleTest(&argc, argv);
  const lci::test::watchdog watchdog("interface set-up, rank " + std::to_string(rank_of_job));
  const int failed = RUN_ALL_TESTS();
  lci::global_finalize();
  return failed;
}
