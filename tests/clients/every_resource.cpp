// Setup, resources, memory, completion objects and graphs in both forms, with every argument's
// setter, as C++11. Compiling this file is the test: a setter that is missing, has another type or
// returns something else does not get through.
#include "mention.hpp"

using namespace lci;

namespace {

void handle(status_t) {}
status_t run_node(void*) { return errorcode_t::done; }
void free_node(void*) {}
void run_edge(status_t, void*, void*) {}

}  // namespace

void mention_setup(everything& e) {
  check<runtime_t>(alloc_runtime_x()
                       .packet_return_threshold(1)
                       .imm_nbits_tag(16)
                       .imm_nbits_rcomp(15)
                       .rdv_protocol(attr_rdv_protocol_t::write)
                       .max_handler_depth(4)
                       .max_handler_wait_s(60)
                       .gpu_gdrcopy(attr_gpu_gdrcopy_t::auto_select)
                       .failure_notice(attr_failure_notice_t::own)
                       .alloc_default_device(true)
                       .alloc_default_packet_pool(true)
                       .alloc_default_matching_engine(true)
                       .name("n")
                       .user_context(e.p)
                       .device_name("d"));
  check<runtime_t>(g_runtime_init_x()
                       .packet_return_threshold(1)
                       .imm_nbits_tag(16)
                       .imm_nbits_rcomp(15)
                       .rdv_protocol(attr_rdv_protocol_t::write)
                       .max_handler_depth(4)
                       .max_handler_wait_s(60)
                       .gpu_gdrcopy(attr_gpu_gdrcopy_t::auto_select)
                       .failure_notice(attr_failure_notice_t::own)
                       .alloc_default_device(true)
                       .alloc_default_packet_pool(true)
                       .alloc_default_matching_engine(true)
                       .name("n")
                       .user_context(e.p)
                       .device_name(std::string("d")));
  check<void>(free_runtime_x(&e.runtime).runtime(&e.runtime));
  check<void>(g_runtime_fina_x());
  check<runtime_t>(get_g_runtime_x());
  e.runtime = alloc_runtime();
  free_runtime(&e.runtime);
  e.runtime = g_runtime_init();
  e.runtime = get_g_runtime();
  g_runtime_fina();
  global_initialize();
  global_attr_t attr = get_g_default_attr();
  set_g_default_attr(attr);
  const int ranks = get_rank_me() + get_rank_n();
  (void)ranks;
  global_finalize();
}

void mention_net_context_and_device(everything& e) {
  check<net_context_t>(alloc_net_context_x()
                           .backend(attr_backend_t::ofi)
                           .ofi_provider_name("tcp")
                           .max_msg_size(1)
                           .max_inject_size(1)
                           .ibv_gid_idx(0)
                           .ibv_force_gid_auto_select(true)
                           .device_name("d")
                           .ibv_odp_strategy(attr_ibv_odp_strategy_t::none)
                           .ibv_prefetch_strategy(attr_ibv_prefetch_strategy_t::none)
                           .use_dmabuf(false)
                           .shm_single_copy(true)
                           .shm_pipelined_copy(true)
                           .shm_single_copy_min(1)
                           .name("n")
                           .user_context(e.p)
                           .runtime(e.runtime));
  check<device_t>(alloc_device_x()
                      .net_max_sends(1)
                      .net_max_recvs(1)
                      .net_max_cqes(1)
                      .net_send_reserved_pct(0.5)
                      .ofi_lock_mode(LCI_NET_TRYLOCK_SEND | LCI_NET_TRYLOCK_POLL)
                      .alloc_default_endpoint(true)
                      .alloc_progress_endpoint(true)
                      .use_reg_cache(false)
                      .shm_enable(true)
                      .shm_ring_size(1)
                      .shm_slot_size(128)
                      .shm_producer_cas_attempts(1)
                      .shm_consumer_cas_attempts(1)
                      .shm_max_polls(1)
                      .ibv_td_strategy(attr_ibv_td_strategy_t::none)
                      .name("n")
                      .user_context(e.p)
                      .runtime(e.runtime)
                      .net_context(e.net_context)
                      .packet_pool(e.pool));
  check<endpoint_t>(
      alloc_endpoint_x().name("n").user_context(e.p).runtime(e.runtime).device(e.device));
  check<void>(free_net_context_x(&e.net_context).net_context(&e.net_context).runtime(e.runtime));
  check<void>(free_device_x(&e.device).device(&e.device).runtime(e.runtime));
  check<void>(free_endpoint_x(&e.endpoint).endpoint(&e.endpoint).runtime(e.runtime));
  check<net_context_t>(get_default_net_context_x().runtime(e.runtime));
  check<device_t>(get_default_device_x().runtime(e.runtime));
  check<endpoint_t>(get_default_endpoint_x().runtime(e.runtime).device(e.device));
  e.net_context = alloc_net_context();
  e.device = alloc_device();
  e.endpoint = alloc_endpoint();
  free_net_context(&e.net_context);
  free_device(&e.device);
  free_endpoint(&e.endpoint);
  e.net_context = get_default_net_context();
  e.device = get_default_device();
  e.endpoint = get_default_endpoint();
}

void mention_pools_and_engines(everything& e) {
  check<packet_pool_t>(
      alloc_packet_pool_x().packet_size(1).npackets(0).name("n").user_context(e.p).runtime(
          e.runtime));
  check<void>(free_packet_pool_x(&e.pool).packet_pool(&e.pool).runtime(e.runtime));
  check<void>(register_packet_pool_x(e.pool, e.device)
                  .packet_pool(e.pool)
                  .device(e.device)
                  .runtime(e.runtime));
  check<void>(deregister_packet_pool_x(e.pool, e.device)
                  .packet_pool(e.pool)
                  .device(e.device)
                  .runtime(e.runtime));
  check<packet_pool_t>(get_default_packet_pool_x().runtime(e.runtime));
  check<void*>(get_upacket_x().runtime(e.runtime).packet_pool(e.pool));
  check<void>(put_upacket_x(e.p).packet(e.p).runtime(e.runtime));
  check<size_t>(get_max_bcopy_size_x().runtime(e.runtime).packet_pool(e.pool));
  check<matching_engine_t>(alloc_matching_engine_x()
                               .matching_engine_type(attr_matching_engine_type_t::queue)
                               .name("n")
                               .user_context(e.p)
                               .runtime(e.runtime));
  check<void>(free_matching_engine_x(&e.engine).matching_engine(&e.engine).runtime(e.runtime));
  check<matching_engine_t>(get_default_matching_engine_x().runtime(e.runtime));
  check<matching_entry_val_t>(
      matching_engine_insert_x(e.engine, 1, e.p, matching_entry_type_t::send)
          .matching_engine(e.engine)
          .key(2)
          .value(e.p)
          .entry_type(matching_entry_type_t::recv)
          .runtime(e.runtime));
  e.pool = alloc_packet_pool();
  register_packet_pool(e.pool, e.device);
  deregister_packet_pool(e.pool, e.device);
  free_packet_pool(&e.pool);
  e.pool = get_default_packet_pool();
  e.p = get_upacket();
  put_upacket(e.p);
  const size_t limit = get_max_bcopy_size();
  (void)limit;
  e.engine = alloc_matching_engine();
  e.p = matching_engine_insert(e.engine, 1, e.p, matching_entry_type_t::recv);
  free_matching_engine(&e.engine);
  e.engine = get_default_matching_engine();
}

void mention_memory(everything& e) {
  check<mr_t>(register_memory_x(e.p, 8).address(e.p).size(8).runtime(e.runtime).device(e.device));
  check<void>(deregister_memory_x(&e.mr).mr(&e.mr).runtime(e.runtime));
  check<rmr_t>(get_rmr_x(e.mr).mr(e.mr).runtime(e.runtime));
  check<void>(
      set_allocator_x(&g_allocator_default).allocator(&g_allocator_default).runtime(e.runtime));
  check<allocator_base_t*>(get_allocator_x().runtime(e.runtime));
  e.mr = register_memory(e.p, 8);
  e.rmr = get_rmr(e.mr);
  deregister_memory(&e.mr);
  deregister_memory(e.mr);
  set_allocator(get_allocator());
}

void mention_completion(everything& e) {
  check<comp_t>(alloc_sync_x().threshold(2).zero_copy_am(true).name("n").user_context(e.p).runtime(
      e.runtime));
  check<comp_t>(alloc_counter_x().name("n").user_context(e.p).runtime(e.runtime));
  check<comp_t>(alloc_cq_x()
                    .default_length(2)
                    .zero_copy_am(true)
                    .cq_type(attr_cq_type_t::array_atomic)
                    .name("n")
                    .user_context(e.p)
                    .runtime(e.runtime));
  check<comp_t>(alloc_handler_x(&handle)
                    .handler([](status_t) {})
                    .zero_copy_am(true)
                    .name("n")
                    .user_context(e.p)
                    .runtime(e.runtime));
  check<void>(free_comp_x(&e.comp).comp(&e.comp).runtime(e.runtime));
  check<bool>(sync_test_x(e.comp, &e.status).comp(e.comp).p_out(nullptr).runtime(e.runtime));
  check<void>(sync_wait_x(e.comp, &e.status)
                  .comp(e.comp)
                  .p_out(nullptr)
                  .do_progress(true)
                  .device(e.device)
                  .runtime(e.runtime));
  check<int64_t>(counter_get_x(e.comp).comp(e.comp).runtime(e.runtime));
  check<void>(counter_set_x(e.comp, 1).comp(e.comp).value(2).runtime(e.runtime));
  check<status_t>(cq_pop_x(e.comp).comp(e.comp).runtime(e.runtime));
  check<void>(comp_signal_x(e.comp, e.status).comp(e.comp).status(e.status).runtime(e.runtime));
  check<rcomp_t>(register_rcomp_x(e.comp).comp(e.comp).rcomp(3).runtime(e.runtime));
  check<rcomp_t>(reserve_rcomps_x(4).n(5).runtime(e.runtime));
  check<void>(deregister_rcomp_x(e.rcomp).rcomp(e.rcomp).runtime(e.runtime));
  e.comp = alloc_sync();
  e.comp = alloc_counter();
  e.comp = alloc_cq();
  e.comp = alloc_handler(&handle);
  const bool ready = sync_test(e.comp, &e.status);
  sync_wait(e.comp, &e.status);
  const int64_t count = counter_get(e.comp);
  (void)ready;
  counter_set(e.comp, count);
  e.status = cq_pop(e.comp);
  comp_signal(e.comp, e.status);
  e.rcomp = register_rcomp(e.comp);
  e.rcomp = reserve_rcomps(2);
  deregister_rcomp(e.rcomp);
  free_comp(&e.comp);
}

void mention_graph(everything& e) {
  check<comp_t>(alloc_graph_x().comp(e.comp).name("n").user_context(e.p).runtime(e.runtime));
  check<graph_node_t>(graph_add_node_x(e.comp, &run_node)
                          .comp(e.comp)
                          .fn(GRAPH_NODE_DUMMY_CB)
                          .value(e.p)
                          .free_cb(&free_node)
                          .runtime(e.runtime));
  check<void>(graph_add_edge_x(e.comp, GRAPH_START, GRAPH_END)
                  .comp(e.comp)
                  .src(GRAPH_START)
                  .dst(GRAPH_END)
                  .fn(&run_edge)
                  .runtime(e.runtime));
  check<void>(graph_node_mark_complete_x(e.p).node(e.p).status(e.status).runtime(e.runtime));
  check<void>(graph_start_x(e.comp).comp(e.comp).runtime(e.runtime));
  check<status_t>(graph_test_x(e.comp).comp(e.comp).runtime(e.runtime));
  e.comp = alloc_graph();
  graph_node_t node = graph_add_node(e.comp, &run_node);
  graph_add_edge(e.comp, GRAPH_START, node);
  graph_node_mark_complete(node);
  graph_start(e.comp);
  e.status = graph_test(e.comp);
  post_send_x op(0, e.p, 8, 1, e.comp);
  node = graph_add_node_op(e.comp, op);
  node = graph_add_node_op(e.comp, op.rank(3));
}
