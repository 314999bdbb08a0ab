// Communication, progress, raw network and collectives in both forms, with every argument's setter,
// as C++11. Compiling this file is the test: a setter that is missing, has another type or returns
// something else does not get through.
#include "mention.hpp"

using namespace lci;

namespace {

void add(const void*, const void*, void*, size_t) {}

}  // namespace

void mention_send_and_receive(everything& e) {
  check<status_t>(post_send_x(0, e.p, 8, 1, e.comp)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .tag(1)
                      .local_comp(e.comp)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .matching_engine(e.engine)
                      .comp_semantic(comp_semantic_t::network)
                      .mr(MR_HOST)
                      .user_context(e.p)
                      .matching_policy(matching_policy_t::tag_only)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  check<status_t>(post_recv_x(ANY_SOURCE, e.p, 8, ANY_TAG, e.comp)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .tag(1)
                      .local_comp(e.comp)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .matching_engine(e.engine)
                      .comp_semantic(comp_semantic_t::memory)
                      .mr(MR_DEVICE)
                      .user_context(e.p)
                      .matching_policy(matching_policy_t::rank_only)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  check<status_t>(post_am_x(0, e.p, 8, e.comp, 1)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .local_comp(e.comp)
                      .remote_comp(1)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .comp_semantic(comp_semantic_t::memory)
                      .mr(MR_UNKNOWN)
                      .tag(1)
                      .user_context(e.p)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  e.status = post_send(0, e.p, 8, 1, e.comp);
  e.status = post_recv(0, e.p, 8, 1, e.comp);
  e.status = post_am(0, e.p, 8, e.comp, 1);
}

void mention_put_and_get(everything& e) {
  check<status_t>(post_put_x(0, e.p, 8, e.comp, 0, e.rmr)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .local_comp(e.comp)
                      .remote_disp(8)
                      .rmr(e.rmr)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .comp_semantic(comp_semantic_t::memory)
                      .mr(e.mr)
                      .tag(1)
                      .remote_comp(1)
                      .user_context(e.p)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  check<status_t>(post_get_x(0, e.p, 8, e.comp, 0, e.rmr)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .local_comp(e.comp)
                      .remote_disp(8)
                      .rmr(e.rmr)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .comp_semantic(comp_semantic_t::memory)
                      .mr(e.mr)
                      .tag(1)
                      .remote_comp(1)
                      .user_context(e.p)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  check<status_t>(post_comm_x(direction_t::OUT, 0, e.p, 8, e.comp)
                      .direction(direction_t::IN)
                      .rank(0)
                      .local_buffer(e.p)
                      .size(8)
                      .local_comp(e.comp)
                      .runtime(e.runtime)
                      .device(e.device)
                      .endpoint(e.endpoint)
                      .packet_pool(e.pool)
                      .matching_engine(e.engine)
                      .comp_semantic(comp_semantic_t::memory)
                      .mr(e.mr)
                      .remote_disp(8)
                      .rmr(RMR_NULL)
                      .tag(1)
                      .remote_comp(1)
                      .user_context(e.p)
                      .matching_policy(matching_policy_t::none)
                      .allow_done(true)
                      .allow_posted(true)
                      .allow_retry(true));
  e.status = post_put(0, e.p, 8, e.comp, 0, e.rmr);
  e.status = post_get(0, e.p, 8, e.comp, 0, e.rmr);
  e.status = post_comm(direction_t::IN, 0, e.p, 8, e.comp);
}

void mention_streams(everything& e) {
  stream_op_t op;
  check<stream_op_t>(stream_post_x(e.p, post_send_x(0, e.p, 8, 1, e.comp)).stream(e.p));
  check<stream_op_t>(stream_wait_x(e.p, e.comp).stream(e.p).comp(e.comp).runtime(e.runtime));
  check<void>(free_stream_op_x(&op).op(&op).runtime(e.runtime));
  op = stream_post(e.p, post_send_x(0, e.p, 8, 1, e.comp).tag(2));
  op = stream_post(e.p, post_recv_x(0, e.p, 8, 1, e.comp));
  op = stream_post(e.p, post_am_x(0, e.p, 8, e.comp, 1));
  op = stream_post(e.p, post_put_x(0, e.p, 8, e.comp, 0, e.rmr));
  const post_get_x stored(0, e.p, 8, e.comp, 0, e.rmr);
  op = stream_post(e.p, stored);
  op = stream_post(e.p, post_comm_x(direction_t::OUT, 0, e.p, 8, e.comp));
  op = stream_wait(e.p, e.comp);
  if (op != stream_op_t() && !op.is_empty()) free_stream_op(&op);
}

void mention_progress(everything& e) {
  check<lci::error_t>(progress_x().runtime(e.runtime).device(e.device).endpoint(e.endpoint));
  check<lci::error_t>(test_drained_x().runtime(e.runtime).device(e.device));
  check<void>(wait_drained_x().runtime(e.runtime).device(e.device));
  lci::error_t error = progress();
  error = test_drained();
  wait_drained();
}

void mention_net(everything& e) {
  check<size_t>(net_poll_cq_x(1, &e.net_status)
                    .max_polls(1)
                    .statuses(nullptr)
                    .runtime(e.runtime)
                    .device(e.device));
  check<lci::error_t>(net_post_recv_x(e.p, 8, e.mr)
                          .buffer(e.p)
                          .size(8)
                          .mr(e.mr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .user_context(e.p));
  check<lci::error_t>(net_post_sends_x(0, e.p, 8)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .imm_data(1)
                          .user_context(e.p));
  check<lci::error_t>(net_post_send_x(0, e.p, 8, e.mr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .mr(e.mr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .imm_data(1)
                          .user_context(e.p));
}

void mention_net_memory(everything& e) {
  check<lci::error_t>(net_post_puts_x(0, e.p, 8, 0, e.rmr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .offset(8)
                          .rmr(e.rmr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .user_context(e.p));
  check<lci::error_t>(net_post_put_x(0, e.p, 8, e.mr, 0, e.rmr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .mr(e.mr)
                          .offset(8)
                          .rmr(e.rmr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .user_context(e.p));
  check<lci::error_t>(net_post_putImms_x(0, e.p, 8, 0, e.rmr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .offset(8)
                          .rmr(e.rmr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .imm_data(1)
                          .user_context(e.p));
  check<lci::error_t>(net_post_putImm_x(0, e.p, 8, e.mr, 0, e.rmr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .mr(e.mr)
                          .offset(8)
                          .rmr(e.rmr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .imm_data(1)
                          .user_context(e.p));
  check<lci::error_t>(net_post_get_x(0, e.p, 8, e.mr, 0, e.rmr)
                          .rank(0)
                          .buffer(e.p)
                          .size(8)
                          .mr(e.mr)
                          .offset(8)
                          .rmr(e.rmr)
                          .runtime(e.runtime)
                          .device(e.device)
                          .endpoint(e.endpoint)
                          .user_context(e.p));
}

void mention_net_functions(everything& e) {
  const size_t polled = net_poll_cq(1, &e.net_status);
  (void)polled;
  lci::error_t error = net_post_recv(e.p, 8, e.mr);
  error = net_post_sends(0, e.p, 8);
  error = net_post_send(0, e.p, 8, e.mr);
  error = net_post_puts(0, e.p, 8, 0, e.rmr);
  error = net_post_put(0, e.p, 8, e.mr, 0, e.rmr);
  error = net_post_putImms(0, e.p, 8, 0, e.rmr);
  error = net_post_putImm(0, e.p, 8, e.mr, 0, e.rmr);
  error = net_post_get(0, e.p, 8, e.mr, 0, e.rmr);
}

void mention_collectives(everything& e) {
  check<void>(barrier_x()
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine)
                  .comp_semantic(comp_semantic_t::network)
                  .comp(e.comp));
  check<void>(broadcast_x(e.p, 8, 0)
                  .buffer(e.p)
                  .size(8)
                  .root(0)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine)
                  .comp(e.comp)
                  .algorithm(broadcast_algorithm_t::ring)
                  .ring_nsteps(2));
  check<void>(reduce_x(e.bytes, e.p, 2, 4, &add, 0)
                  .sendbuf(e.bytes)
                  .recvbuf(e.p)
                  .count(2)
                  .item_size(4)
                  .op(&add)
                  .root(0)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine));
  check<void>(allreduce_x(e.bytes, e.p, 2, 4, &add)
                  .sendbuf(e.bytes)
                  .recvbuf(e.p)
                  .count(2)
                  .item_size(4)
                  .op(&add)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine)
                  .comp(e.comp)
                  .algorithm(allreduce_algorithm_t::tree)
                  .ring_nsteps(2));
}

void mention_block_collectives(everything& e) {
  check<void>(reduce_scatter_x(e.bytes, e.p, 2, 4, &add)
                  .sendbuf(e.bytes)
                  .recvbuf(e.p)
                  .recvcount(2)
                  .item_size(4)
                  .op(&add)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine)
                  .comp(e.comp)
                  .algorithm(reduce_scatter_algorithm_t::direct)
                  .ring_nsteps(2));
  check<void>(allgather_x(e.bytes, e.p, 8)
                  .sendbuf(e.bytes)
                  .recvbuf(e.p)
                  .size(8)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine));
  check<void>(alltoall_x(e.bytes, e.p, 8)
                  .sendbuf(e.bytes)
                  .recvbuf(e.p)
                  .size(8)
                  .runtime(e.runtime)
                  .device(e.device)
                  .endpoint(e.endpoint)
                  .matching_engine(e.engine)
                  .comp(e.comp)
                  .comp_semantic(comp_semantic_t::memory));
  barrier();
  broadcast(e.p, 8, 0);
  reduce(e.bytes, e.p, 2, 4, &add, 0);
  allreduce(e.bytes, e.p, 2, 4, &add);
  reduce_scatter(e.bytes, e.p, 2, 4, &add);
  allgather(e.bytes, e.p, 8);
  alltoall(e.bytes, e.p, 8);
}
