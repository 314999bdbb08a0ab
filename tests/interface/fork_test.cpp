// A process that is forked from a rank is none: each call that it makes is refused, and its parent
// notices nothing. The child reports by its exit status and never returns into the suite.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "world.hpp"

namespace interface_test {
namespace {

// What the parent had made when it forked, and what its child tries with that.
struct things {
  lci::comp_t sync, counter, cq, handler, graph;
  lci::graph_node_t node;
  lci::mr_t mr;
  lci::rmr_t rmr;
  lci::rcomp_t rcomp;
  void* packet;
  char* bytes;
  lci::device_t device = world().device;
  lci::runtime_t runtime = lci::get_g_runtime();
  lci::endpoint_t endpoint = lci::get_default_endpoint();
  lci::packet_pool_t pool = lci::get_default_packet_pool();
  lci::matching_engine_t engine = lci::get_default_matching_engine();
  lci::net_context_t context = lci::get_default_net_context();
};

struct attempt {
  const char* name;
  std::function<void(things&)> call;
};

char small[8];
int reduced;
int to() { return world().next(); }

const attempt COMMUNICATION[] = {
    {"progress", [](things&) { lci::progress(); }},
    {"progress of a device", [](things& t) { lci::progress_x().device(t.device)(); }},
    {"progress of an endpoint", [](things& t) { lci::progress_x().endpoint(t.endpoint)(); }},
    {"test_drained", [](things&) { lci::test_drained(); }},
    {"wait_drained", [](things&) { lci::wait_drained(); }},
    {"post_am", [](things& t) { lci::post_am(to(), small, 8, lci::COMP_NULL_RETRY, t.rcomp); }},
    {"post_am, device",
     [](things& t) {
       lci::post_am_x(to(), small, 8, lci::COMP_NULL_RETRY, t.rcomp).device(t.device)();
     }},
    {"post_am, endpoint",
     [](things& t) {
       lci::post_am_x(to(), small, 8, lci::COMP_NULL_RETRY, t.rcomp).endpoint(t.endpoint)();
     }},
    {"post_send", [](things& t) { lci::post_send(to(), t.bytes, 100, 1, lci::COMP_NULL_RETRY); }},
    {"post_recv", [](things& t) { lci::post_recv(to(), t.bytes, 100, 1, t.sync); }},
    {"post_put", [](things& t) { lci::post_put(to(), small, 8, t.counter, 0, t.rmr); }},
    {"post_get", [](things& t) { lci::post_get(to(), small, 8, t.counter, 0, t.rmr); }},
    {"post_send of a packet",
     [](things& t) { lci::post_send(to(), t.packet, 100, 1, lci::COMP_NULL_RETRY); }},
    {"barrier", [](things&) { lci::barrier(); }},
    {"barrier of a runtime", [](things& t) { lci::barrier_x().runtime(t.runtime)(); }},
    {"broadcast", [](things&) { lci::broadcast(&reduced, sizeof reduced, 0); }},
    {"net_poll_cq",
     [](things&) {
       lci::net_status_t got[1];
       lci::net_poll_cq(1, got);
     }},
    {"get_upacket", [](things&) { lci::get_upacket(); }},
    {"put_upacket", [](things& t) { lci::put_upacket(t.packet); }},
    {"register_memory", [](things& t) { lci::register_memory(t.bytes, 100); }},
    {"deregister_memory", [](things& t) { lci::deregister_memory(&t.mr); }},
    {"get_rmr", [](things& t) { lci::get_rmr(t.mr); }},
    {"register_rcomp", [](things& t) { lci::register_rcomp(t.cq); }},
    {"deregister_rcomp", [](things& t) { lci::deregister_rcomp(t.rcomp); }},
    {"set_allocator", [](things&) { lci::set_allocator(lci::get_allocator()); }},
};

const attempt OBJECTS[] = {
    {"sync_test", [](things& t) { lci::sync_test(t.sync, nullptr); }},
    {"sync_wait", [](things& t) { lci::sync_wait(t.sync, nullptr); }},
    {"sync_wait without progress",
     [](things& t) { lci::sync_wait_x(t.sync, nullptr).do_progress(false)(); }},
    {"counter_get", [](things& t) { lci::counter_get(t.counter); }},
    {"counter_set", [](things& t) { lci::counter_set(t.counter, 1); }},
    {"cq_pop", [](things& t) { lci::cq_pop(t.cq); }},
    {"comp_signal", [](things& t) { lci::comp_signal(t.handler, lci::status_t()); }},
    {"graph_start", [](things& t) { lci::graph_start(t.graph); }},
    {"graph_test", [](things& t) { lci::graph_test(t.graph); }},
    {"graph_node_mark_complete", [](things& t) { lci::graph_node_mark_complete(t.node); }},
    {"get_attr of a comp", [](things& t) { t.sync.get_attr_sync_threshold(); }},
    {"get_attr of a device", [](things& t) { t.device.get_attr_net_max_sends(); }},
    {"alloc_sync", [](things&) { lci::alloc_sync(); }},
    {"alloc_cq", [](things&) { lci::alloc_cq(); }},
    {"free_comp", [](things& t) { lci::free_comp(&t.cq); }},
    {"alloc_device", [](things&) { lci::alloc_device(); }},
    {"alloc_device of a context",
     [](things& t) {
       lci::alloc_device_x().runtime(t.runtime).net_context(t.context).packet_pool(t.pool)();
     }},
    {"free_device", [](things& t) { lci::free_device(&t.device); }},
    {"alloc_endpoint", [](things& t) { lci::alloc_endpoint_x().device(t.device)(); }},
    {"free_endpoint", [](things& t) { lci::free_endpoint(&t.endpoint); }},
    {"free_packet_pool", [](things& t) { lci::free_packet_pool(&t.pool); }},
    {"free_matching_engine", [](things& t) { lci::free_matching_engine(&t.engine); }},
    {"free_net_context", [](things& t) { lci::free_net_context(&t.context); }},
    {"get_default_device", [](things&) { lci::get_default_device(); }},
    {"alloc_runtime", [](things&) { lci::alloc_runtime(); }},
    {"free_runtime", [](things& t) { lci::free_runtime(&t.runtime); }},
    {"g_runtime_init", [](things&) { lci::g_runtime_init(); }},
    {"g_runtime_fina", [](things&) { lci::g_runtime_fina(); }},
    {"global_initialize", [](things&) { lci::global_initialize(); }},
    {"global_finalize", [](things&) { lci::global_finalize(); }},
};

// True if the call is refused by an error that says why.
bool is_refused(const attempt& one, things t) {
  const std::string text = text_thrown<lci::argument_error>([&] { one.call(t); });
  if (text.find("was forked from a rank") != std::string::npos) return true;
  std::fprintf(stderr, "in a forked child, %s: %s\n", one.name, text.c_str());
  return false;
}

// Forks; the exit status of the child is what `body` answers.
int status_of_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int wrong = 99;
    try {
      wrong = body();
    } catch (...) {
    }
    std::fflush(nullptr);
    _exit(wrong);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// What rank and device have to do with each other still works, in every way.
void exchange_all(window& memory) {
  for (const size_at size : ALL_SIZES) {
    const std::size_t n = bytes(size);
    std::vector<char> out = pattern(n, static_cast<std::uint64_t>(world().rank));
    std::vector<char> in(n);
    const owned_comp got(lci::alloc_sync_x().threshold(1)());
    const owned_comp sent(lci::alloc_sync_x().threshold(1)());
    const lci::device_t device = world().device;
    lci::post_recv_x(world().previous(), in.data(), n, 3, got).device(device).allow_done(false)();
    insist([&] {
      return lci::post_send_x(world().next(), out.data(), n, 3, sent)
          .device(device)
          .allow_done(false)();
    });
    lci::sync_wait_x(sent, nullptr).device(device)();
    lci::sync_wait_x(got, nullptr).device(device)();
    EXPECT_EQ(difference(in.data(), n, static_cast<std::uint64_t>(world().previous())), "");
  }
  std::vector<char> out = pattern(memory.bytes().size(), 7);
  insist([&] {
    return lci::post_put_x(world().next(), out.data(), out.size(), lci::COMP_NULL, 0,
                           memory.rmr(world().next()))
        .device(world().device)();
  });
  lci::wait_drained_x().device(world().device)();
  barrier();
  wait_until([&] { return difference(memory.bytes().data(), out.size(), 7).empty(); });
  barrier();
}

constexpr int PARENTS_MESSAGES = 50;

// Messages of its neighbour wait for the parent, and one of its own is half way, while a child
// tries every call.
TEST(forked, child__each_call_is_refused_and_the_parent_notices_nothing) {
  inbox arrivals;
  window memory(4096);
  things t;
  t.sync = lci::alloc_sync();
  t.counter = lci::alloc_counter();
  t.cq = lci::alloc_cq();
  t.handler = lci::alloc_handler([](lci::status_t) {});
  t.graph = lci::alloc_graph();
  t.node =
      lci::graph_add_node(t.graph, [](void*) { return lci::status_t(lci::errorcode_t::done); });
  t.mr = memory.mr();
  t.rmr = memory.rmr(world().next());
  t.rcomp = arrivals.rcomp();
  while ((t.packet = lci::get_upacket()) == nullptr) progress();
  t.bytes = memory.bytes().data();
  for (int i = 0; i < PARENTS_MESSAGES; ++i) {
    const std::int64_t number = i;
    insist([&] {
      return lci::post_am_x(world().next(), const_cast<std::int64_t*>(&number), sizeof number,
                            lci::COMP_NULL_RETRY, arrivals.rcomp())
          .device(world().device)();
    });
  }
  const int status = status_of_child([&] {
    int wrong = 0;
    for (int i = 0; i < 500; ++i) wrong += !is_refused(COMMUNICATION[0], t) && wrong == 0;
    for (const attempt& one : COMMUNICATION) wrong += !is_refused(one, t);
    for (const attempt& one : OBJECTS) wrong += !is_refused(one, t);
    return wrong;
  });
  EXPECT_EQ(status, 0);
  for (int i = 0; i < PARENTS_MESSAGES; ++i) {
    const lci::status_t got = pop(arrivals.cq());
    ASSERT_EQ(got.size, sizeof(std::int64_t));
    EXPECT_EQ(*static_cast<std::int64_t*>(got.buffer), i) << "each message once, in order";
    lci::get_allocator()->deallocate(got.buffer);
  }
  EXPECT_TRUE(stays_empty(arrivals.cq())) << "a post of the child went out";
  exchange_all(memory);
  lci::put_upacket(t.packet);
  lci::free_comp(&t.graph);
  for (lci::comp_t* const comp : {&t.sync, &t.counter, &t.cq, &t.handler}) lci::free_comp(comp);
}

int tried_in_handler = -1;

// A handler may fork, for a program that runs elsewhere: its packet stays its own.
TEST(forked, child_of_a_handler__cannot_return_the_packet) {
  const owned_comp handler(
      lci::alloc_handler_x([](lci::status_t status) {
        things t;
        t.packet = status.buffer;
        tried_in_handler = status_of_child([&] {
          return !is_refused({"put_upacket", [](things& u) { lci::put_upacket(u.packet); }}, t);
        });
        lci::put_upacket(status.buffer);
      }).zero_copy_am(true)());
  const lci::rcomp_t rcomp = lci::register_rcomp(handler);
  barrier();
  std::vector<char> out(500);
  insist([&] {
    return lci::post_am_x(world().next(), out.data(), out.size(), lci::COMP_NULL, rcomp)
        .device(world().device)();
  });
  wait_until([] { return tried_in_handler != -1; });
  EXPECT_EQ(tried_in_handler, 0);
  barrier();
  lci::deregister_rcomp(rcomp);
}

// There is none that the child could use, and who asks gets no error: what ends in a child may ask.
TEST(forked, get_g_runtime__is_empty) {
  EXPECT_EQ(status_of_child([] { return lci::get_g_runtime().is_empty() ? 0 : 1; }), 0);
  EXPECT_FALSE(lci::get_g_runtime().is_empty());
  barrier();
}

// The grandchild is as little a rank as the child.
TEST(forked, grandchild__is_refused_as_well) {
  things t;
  EXPECT_EQ(status_of_child([&] {
              return status_of_child([&] { return !is_refused(COMMUNICATION[0], t); }) == 0 ? 0 : 1;
            }),
            0);
  barrier();
}

}  // namespace
}  // namespace interface_test
