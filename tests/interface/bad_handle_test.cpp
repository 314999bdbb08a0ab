// Handles that are given to options and name nothing: an empty or freed one of every kind is
// refused by every operation that takes it, also where another option settles what is meant.
#include <cstdlib>
#include <functional>

#include "bad_input.hpp"

namespace interface_test {
namespace {

template <class Handle>
struct call_with {
  const char* name;
  std::function<void(Handle)> call;
};

class bad_handle : public bad_input {
 protected:
  // Each call refuses a handle that is empty and one that was freed.
  template <class Handle>
  static void all_refuse(const char* kind, Handle freed,
                         const std::vector<call_with<Handle>>& calls) {
    for (const auto& each : calls) {
      SCOPED_TRACE(each.name);
      refused([&] { each.call(Handle()); }, {kind, "empty"});
      refused([&] { each.call(freed); }, {kind, "freed"});
    }
  }
  lci::post_send_x send() const {
    return lci::post_send_x(world().next(), const_cast<char*>(buffer_), 8, 1, cq_);
  }
  lci::post_am_x am() const {
    return lci::post_am_x(world().next(), const_cast<char*>(buffer_), 8, cq_, 9);
  }
  lci::post_comm_x comm_am() const {
    return std::move(
        lci::post_comm_x(lci::direction_t::OUT, world().next(), const_cast<char*>(buffer_), 8, cq_)
            .remote_comp(9));
  }
  lci::post_recv_x recv() const {
    return lci::post_recv_x(world().next(), const_cast<char*>(buffer_), 8, 1, cq_);
  }
};

TEST_F(bad_handle, device) {
  lci::device_t device = lci::alloc_device();
  const lci::device_t freed = device;
  lci::endpoint_t end = lci::alloc_endpoint_x().device(world().device)();
  lci::free_device(&device);
  window memory(64);
  using d = lci::device_t;
  const int to = world().next();
  const auto add = [](const void*, const void*, void*, std::size_t) {};
  all_refuse<d>(
      "device", freed,
      {{"send", [&](d h) { send().device(h)(); }},
       {"send by an endpoint", [&](d h) { send().endpoint(end).device(h)(); }},
       {"am", [&](d h) { am().device(h)(); }},
       {"recv", [&](d h) { recv().device(h)(); }},
       {"recv by an endpoint", [&](d h) { recv().endpoint(end).device(h)(); }},
       {"put", [&](d h) { lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to)).device(h)(); }},
       {"get", [&](d h) { lci::post_get_x(to, buffer_, 8, cq_, 0, memory.rmr(to)).device(h)(); }},
       {"progress", [](d h) { lci::progress_x().device(h)(); }},
       {"progress by an endpoint", [&](d h) { lci::progress_x().endpoint(end).device(h)(); }},
       {"test_drained", [](d h) { lci::test_drained_x().device(h)(); }},
       {"wait_drained", [](d h) { lci::wait_drained_x().device(h)(); }},
       {"barrier", [](d h) { lci::barrier_x().device(h)(); }},
       {"barrier with an object", [&](d h) { lci::barrier_x().device(h).comp(cq_)(); }},
       {"broadcast", [&](d h) { lci::broadcast_x(buffer_, 8, 0).device(h)(); }},
       {"reduce", [&](d h) { lci::reduce_x(buffer_, buffer_, 1, 8, add, 0).device(h)(); }},
       {"allreduce", [&](d h) { lci::allreduce_x(buffer_, buffer_, 1, 8, add).device(h)(); }},
       {"reduce_scatter",
        [&](d h) { lci::reduce_scatter_x(buffer_, buffer_, 1, 8, add).device(h)(); }},
       {"allgather", [&](d h) { lci::allgather_x(buffer_, buffer_, 1).device(h)(); }},
       {"alltoall", [&](d h) { lci::alltoall_x(buffer_, buffer_ + 32, 1).device(h)(); }},
       {"alloc_endpoint", [](d h) { lci::alloc_endpoint_x().device(h)(); }},
       {"register_memory", [&](d h) { lci::register_memory_x(buffer_, 8).device(h)(); }},
       {"register_packet_pool",
        [](d h) { lci::register_packet_pool(lci::get_default_packet_pool(), h); }},
       {"get_default_endpoint", [](d h) { lci::get_default_endpoint_x().device(h)(); }},
       {"raw send", [&](d h) { lci::net_post_send_x(to, buffer_, 8, lci::MR_HOST).device(h)(); }}});
  lci::comp_t sync = lci::alloc_sync();
  all_refuse<d>("device", freed,
                {{"sync_wait", [&](d h) { lci::sync_wait_x(sync, nullptr).device(h)(); }}});
  lci::free_comp(&sync);
  lci::free_endpoint(&end);
}

TEST_F(bad_handle, endpoint) {
  lci::endpoint_t end = lci::alloc_endpoint_x().device(world().device)();
  const lci::endpoint_t freed = end;
  lci::free_endpoint(&end);
  window memory(64);
  using e = lci::endpoint_t;
  const lci::device_t device = world().device;
  const int to = world().next();
  const auto put = [&] { return lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to)); };
  const auto get = [&] { return lci::post_get_x(to, buffer_, 8, cq_, 0, memory.rmr(to)); };
  const auto add = [](const void*, const void*, void*, std::size_t) {};
  all_refuse<e>(
      "endpoint", freed,
      {{"send", [&](e h) { send().device(device).endpoint(h)(); }},
       {"am", [&](e h) { am().device(device).endpoint(h)(); }},
       {"recv", [&](e h) { recv().device(device).endpoint(h)(); }},
       {"put", [&](e h) { put().device(device).endpoint(h)(); }},
       {"put by the endpoint alone", [&](e h) { put().endpoint(h)(); }},
       {"get", [&](e h) { get().device(device).endpoint(h)(); }},
       {"get by the endpoint alone", [&](e h) { get().endpoint(h)(); }},
       {"allreduce",
        [&](e h) { lci::allreduce_x(buffer_, buffer_, 1, 8, add).device(device).endpoint(h)(); }},
       {"progress", [&](e h) { lci::progress_x().device(device).endpoint(h)(); }},
       {"progress alone", [&](e h) { lci::progress_x().endpoint(h)(); }},
       {"barrier", [&](e h) { lci::barrier_x().device(device).endpoint(h)(); }},
       {"raw send", [&](e h) {
          lci::net_post_send_x(to, buffer_, 8, lci::MR_HOST).device(device).endpoint(h)();
        }}});
}

TEST_F(bad_handle, packet_pool) {
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(1)();
  const lci::packet_pool_t freed = pool;
  lci::free_packet_pool(&pool);
  window memory(64);
  using p = lci::packet_pool_t;
  const lci::device_t device = world().device;
  const int to = world().next();
  all_refuse<p>(
      "packet_pool", freed,
      {{"send", [&](p h) { send().device(device).packet_pool(h)(); }},
       {"am", [&](p h) { am().device(device).packet_pool(h)(); }},
       {"recv", [&](p h) { recv().device(device).packet_pool(h)(); }},
       {"put",
        [&](p h) {
          lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to)).device(device).packet_pool(h)();
        }},
       {"get_upacket", [](p h) { lci::get_upacket_x().packet_pool(h)(); }},
       {"get_max_bcopy_size", [](p h) { lci::get_max_bcopy_size_x().packet_pool(h)(); }},
       {"alloc_device", [](p h) { lci::alloc_device_x().packet_pool(h)(); }},
       {"register_packet_pool", [&](p h) { lci::register_packet_pool(h, device); }}});
}

TEST_F(bad_handle, matching_engine) {
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  const lci::matching_engine_t freed = engine;
  lci::free_matching_engine(&engine);
  using m = lci::matching_engine_t;
  const lci::device_t device = world().device;
  all_refuse<m>(
      "matching_engine", freed,
      {{"send", [&](m h) { send().device(device).matching_engine(h)(); }},
       {"recv", [&](m h) { recv().device(device).matching_engine(h)(); }},
       {"comm that needs none", [&](m h) { comm_am().device(device).matching_engine(h)(); }},
       {"barrier", [&](m h) { lci::barrier_x().device(device).matching_engine(h)(); }},
       {"barrier with an object",
        [&](m h) { lci::barrier_x().device(device).matching_engine(h).comp(cq_)(); }}});
}

TEST_F(bad_handle, net_context) {
  lci::net_context_t context = lci::alloc_net_context();
  const lci::net_context_t freed = context;
  lci::free_net_context(&context);
  using c = lci::net_context_t;
  all_refuse<c>("net_context", freed,
                {{"alloc_device", [](c h) { lci::alloc_device_x().net_context(h)(); }}});
}

TEST_F(bad_handle, runtime) {
  lci::runtime_t own = lci::alloc_runtime_x().alloc_default_device(false)();
  const lci::runtime_t freed = own;
  lci::free_runtime(&own);
  using r = lci::runtime_t;
  const lci::device_t device = world().device;
  owned_comp sync(lci::alloc_sync()), counter(lci::alloc_counter()), graph(lci::alloc_graph());
  lci::mr_t mr = lci::register_memory_x(buffer_, 8).device(device)();
  all_refuse<r>(
      "runtime", freed,
      {{"send", [&](r h) { send().runtime(h)(); }},
       {"send by a device", [&](r h) { send().device(device).runtime(h)(); }},
       {"am by a device", [&](r h) { am().device(device).runtime(h)(); }},
       {"recv by a device", [&](r h) { recv().device(device).runtime(h)(); }},
       {"progress by a device", [&](r h) { lci::progress_x().device(device).runtime(h)(); }},
       {"barrier by a device", [&](r h) { lci::barrier_x().device(device).runtime(h)(); }},
       {"alloc_device", [](r h) { lci::alloc_device_x().runtime(h)(); }},
       {"alloc_counter", [](r h) { lci::alloc_counter_x().runtime(h)(); }},
       {"alloc_handler", [](r h) { lci::alloc_handler_x([](lci::status_t) {}).runtime(h)(); }},
       {"register_rcomp", [&](r h) { lci::register_rcomp_x(counter).runtime(h)(); }},
       {"cq_pop", [&](r h) { lci::cq_pop_x(cq_).runtime(h)(); }},
       {"counter_get", [&](r h) { lci::counter_get_x(counter).runtime(h)(); }},
       {"sync_test", [&](r h) { lci::sync_test_x(sync, nullptr).runtime(h)(); }},
       {"sync_wait", [&](r h) { lci::sync_wait_x(sync, nullptr).device(device).runtime(h)(); }},
       {"graph_add_node", [&](r h) { lci::graph_add_node_x(graph, nullptr).runtime(h)(); }},
       {"register_memory",
        [&](r h) { lci::register_memory_x(buffer_, 8).device(device).runtime(h)(); }},
       {"get_rmr", [&](r h) { lci::get_rmr_x(mr).runtime(h)(); }},
       {"deregister_memory", [&](r h) { lci::deregister_memory_x(&mr).runtime(h)(); }},
       {"get_upacket", [](r h) { lci::get_upacket_x().runtime(h)(); }},
       {"set_allocator", [](r h) { lci::set_allocator_x(lci::get_allocator()).runtime(h)(); }}});
  EXPECT_FALSE(mr.is_empty());
  lci::deregister_memory(&mr);
}

// What means something although it names no object, or may be left empty, still does.
TEST_F(bad_handle, values_with_a_meaning__are_legal) {
  const int to = world().next();
  char got[8] = {};
  for (const lci::mr_t mr : {lci::MR_HOST, lci::MR_UNKNOWN, lci::mr_t()}) {
    lci::post_recv_x(world().previous(), got, 8, 5, cq_)
        .device(world().device)
        .mr(mr)
        .allow_done(false)();
    insist(lci::post_send_x(to, buffer_, 8, 5, lci::COMP_NULL).device(world().device).mr(mr));
    EXPECT_EQ(pop(cq_).tag, 5u);
  }
  lci::barrier_x().device(world().device).comp(lci::COMP_NULL)();
  lci::barrier_x().device(world().device).comp(lci::comp_t())();
}

TEST_F(bad_handle, registration_or_object_that_was_freed) {
  const lci::device_t device = world().device;
  const int to = world().next();
  lci::mr_t mr = lci::register_memory_x(buffer_, 64).device(device)();
  const lci::mr_t no_mr = mr;
  lci::deregister_memory(&mr);
  lci::comp_t comp = lci::alloc_counter();
  const lci::comp_t no_comp = comp;
  lci::free_comp(&comp);
  window memory(64);
  const auto put = [&](std::size_t size) {
    return lci::post_put_x(to, buffer_, size, cq_, 0, memory.rmr(to));
  };
  for (const std::size_t size : {0, 8, 64}) {
    SCOPED_TRACE(size);
    refused([&] { send().size(size).device(device).mr(no_mr)(); }, {"mr", "freed"});
    refused([&] { am().size(size).device(device).mr(no_mr)(); }, {"mr", "freed"});
    refused([&] { recv().size(size).device(device).mr(no_mr)(); }, {"mr", "freed"});
    refused([&] { put(size).device(device).mr(no_mr)(); }, {"mr", "freed"});
    refused([&] { send().size(size).device(device).local_comp(no_comp)(); }, {"comp", "freed"});
    refused([&] { am().size(size).device(device).local_comp(no_comp)(); }, {"comp", "freed"});
    refused([&] { recv().size(size).device(device).local_comp(no_comp)(); }, {"comp", "freed"});
    refused([&] { put(size).device(device).local_comp(no_comp)(); }, {"comp", "freed"});
  }
  refused([&] { lci::net_post_send_x(to, buffer_, 8, no_mr).device(device)(); }, {"mr", "freed"});
  refused([&] { lci::net_post_recv_x(buffer_, 8, no_mr).device(device)(); }, {"mr", "freed"});
  refused([&] { lci::barrier_x().device(device).comp(no_comp)(); }, {"comp", "freed"});
  refused([&] { lci::register_rcomp(no_comp); }, {"comp", "freed"});
  refused([&] { lci::alloc_graph_x().comp(no_comp)(); }, {"comp", "freed"});
  refused([&] { lci::comp_signal(no_comp, lci::status_t()); }, {"comp", "freed"});
}

// An active message to such a number would be read as a send.
TEST_F(bad_handle, remote_comp__of_a_matching_engine) {
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  owned_comp arrived(lci::alloc_cq());
  const lci::rcomp_t after = lci::register_rcomp(arrived);
  window memory(64);
  const int to = world().next();
  const auto refuse = [&](lci::rcomp_t number) {
    SCOPED_TRACE(number);
    const std::string text = std::to_string(number);
    refused([&] { am().device(world().device).remote_comp(number)(); }, {"remote_comp", text});
    refused([&] { comm_am().device(world().device).remote_comp(number)(); }, {"remote_comp", text});
    refused(
        [&] {
          lci::post_put_x(to, buffer_, 8, cq_, 0, memory.rmr(to))
              .device(world().device)
              .remote_comp(number)();
        },
        {"remote_comp", text});
    refused([&] { lci::deregister_rcomp(number); }, {text});
  };
  for (lci::rcomp_t number = 1; number <= 8; ++number) refuse(number);
  // The engine that was just made has the four before.
  for (lci::rcomp_t number = after - 4; number < after; ++number) refuse(number);
  barrier();
  // It can still be used, and so can the number that follows.
  char got[8] = {};
  lci::post_recv_x(world().previous(), got, 8, 5, cq_)
      .device(world().device)
      .matching_engine(engine)
      .allow_done(false)();
  insist(lci::post_send_x(to, buffer_, 8, 5, lci::COMP_NULL)
             .device(world().device)
             .matching_engine(engine));
  EXPECT_EQ(pop(cq_).tag, 5u);
  insist(lci::post_am_x(to, buffer_, 8, lci::COMP_NULL, after).device(world().device));
  std::free(pop(arrived).buffer);
  lci::deregister_rcomp(after);
  barrier();
  lci::free_matching_engine(&engine);
}

}  // namespace
}  // namespace interface_test
