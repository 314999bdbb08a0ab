// Posts for a stream run long after the call, in somebody's progress: what a post would refuse is
// refused when the stream gets it. No GPU is needed for that: nothing comes as far as a stream.
#include "bad_input.hpp"

namespace interface_test {
namespace {

class bad_stream_post : public bad_input {
 protected:
  template <class Op>
  void refuse(const char* name, Op op, std::initializer_list<std::string> parts) {
    SCOPED_TRACE(name);
    op.device(world().device);
    refused([&] { lci::stream_post(nullptr, op); }, parts);
  }
  lci::post_send_x send(int to) { return lci::post_send_x(to, buffer_, 8, 1, cq_); }
  lci::post_am_x am(int to, lci::rcomp_t number) {
    return lci::post_am_x(to, buffer_, 8, cq_, number);
  }
  lci::post_recv_x recv(int from) { return lci::post_recv_x(from, buffer_, 8, 1, cq_); }
  lci::post_put_x put(int to) { return lci::post_put_x(to, buffer_, 8, cq_, 0, there_.rmr(to_)); }
  lci::post_get_x get(int to) { return lci::post_get_x(to, buffer_, 8, cq_, 0, there_.rmr(to_)); }
  lci::post_comm_x comm(lci::direction_t direction) {
    return lci::post_comm_x(direction, to_, buffer_, 8, cq_);
  }

  const int to_ = world().next();
  window there_{64};
};

TEST_F(bad_stream_post, rank) {
  for (const int rank : {world().n, world().n + 7, -1, -7}) {
    const std::string given = "rank " + std::to_string(rank);
    refuse("send", send(rank), {given, last_rank()});
    refuse("am", am(rank, 9), {given, last_rank()});
    refuse("put", put(rank), {given, last_rank()});
    refuse("get", get(rank), {given, last_rank()});
    refuse("comm", comm(lci::direction_t::OUT).rank(rank), {given, last_rank()});
    if (rank != lci::ANY_SOURCE) refuse("recv", recv(rank), {given, last_rank()});
  }
}

TEST_F(bad_stream_post, remote_comp) {
  for (lci::rcomp_t number = 0; number <= 8; ++number) {
    const std::string text = "remote_comp " + std::to_string(number);
    refuse("am", am(to_, number), {text});
    if (number == 0) continue;
    refuse("put", put(to_).remote_comp(number), {text});
    refuse("comm", comm(lci::direction_t::OUT).remote_comp(number), {text});
  }
  refuse("get", get(to_).remote_comp(9), {"remote_comp 9", "get"});
  refuse("comm", comm(lci::direction_t::IN).remote_comp(9), {"IN"});
  refuse("put with a tag that is too wide", put(to_).remote_comp(9).tag(1u << 30),
         {"tag " + std::to_string(1u << 30), "notification"});
}

TEST_F(bad_stream_post, rmr) {
  lci::rmr_t changed = there_.rmr(to_);
  changed.base ^= 64;
  for (const lci::rmr_t& rmr : {lci::rmr_t(), changed}) {
    refuse("put", put(to_).rmr(rmr), {"rmr"});
    refuse("get", get(to_).rmr(rmr), {"rmr"});
  }
  refuse("comm", comm(lci::direction_t::OUT).rmr(changed), {"rmr"});
}

TEST_F(bad_stream_post, enumerators) {
  const auto policy = static_cast<lci::matching_policy_t>(4);
  const auto semantic = static_cast<lci::comp_semantic_t>(9);
  refuse("send", send(to_).matching_policy(policy), {"matching_policy 4"});
  refuse("recv", recv(to_).matching_policy(policy), {"matching_policy 4"});
  refuse("send", send(to_).comp_semantic(semantic), {"comp_semantic 9"});
  refuse("put", put(to_).comp_semantic(semantic), {"comp_semantic 9"});
  refuse("comm", comm(static_cast<lci::direction_t>(9)), {"direction is 9"});
}

TEST_F(bad_stream_post, sizes_and_packets) {
  void* packet = nullptr;
  while ((packet = lci::get_upacket()) == nullptr) progress();
  const std::size_t size = world().bcopy + 100;
  const auto with = [&](void* at, std::size_t n, std::initializer_list<std::string> parts) {
    refuse("send", send(to_).local_buffer(at).size(n), parts);
    refuse("am", am(to_, 9).local_buffer(at).size(n), parts);
    refuse("recv", recv(to_).local_buffer(at).size(n), parts);
    refuse("put", put(to_).local_buffer(at).size(n), parts);
    refuse("get", get(to_).local_buffer(at).size(n), parts);
  };
  with(packet, size, {"size " + std::to_string(size), "packet"});
  with(buffer_, std::size_t{1} << 50, {"size", "address space"});
  with(nullptr, 8, {"null", "8"});
  lci::put_upacket(packet);
  with(packet, 8, {"packet", "posted or put back"});
}

}  // namespace
}  // namespace interface_test
