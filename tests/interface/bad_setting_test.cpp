// Values out of their range that are neither sizes nor handles, and packets that are not the
// program's any more: typed errors with the value and what would be legal.
#include <climits>

#include "bad_input.hpp"

namespace interface_test {
namespace {

class bad_setting : public bad_input {};

TEST_F(bad_setting, queues_of_a_device) {
  using lci::alloc_device_x;
  const std::string all = std::to_string(SIZE_MAX);
  refused([] { alloc_device_x().net_max_sends(static_cast<std::size_t>(-1))(); },
          {"net_max_sends", all, "1 to 2147483647"});
  refused([] { alloc_device_x().net_max_sends(0)(); }, {"net_max_sends", "is 0", "1 to"});
  refused([] { alloc_device_x().net_max_recvs(0)(); }, {"net_max_recvs", "is 0", "1 to"});
  refused([] { alloc_device_x().net_max_cqes(0)(); }, {"net_max_cqes", "is 0", "1 to"});
  refused([] { alloc_device_x().net_send_reserved_pct(1.5)(); }, {"net_send_reserved_pct", "1.5"});
  refused([] { alloc_device_x().net_send_reserved_pct(-0.5)(); },
          {"net_send_reserved_pct", "-0.5"});
  refused([] { alloc_device_x().shm_slot_size(100)(); },
          {"alloc_device", "shm_slot_size", "is 100", "multiples of 64"});
  refused([] { alloc_device_x().ofi_lock_mode(16)(); }, {"ofi_lock_mode", "is 16", "0 to 15"});
}

TEST_F(bad_setting, packet_pool) {
  refused([] { lci::alloc_packet_pool_x().npackets(static_cast<std::size_t>(-1))(); },
          {"npackets", std::to_string(SIZE_MAX), "0 to 2147483647"});
  refused([] { lci::alloc_packet_pool_x().packet_size(SIZE_MAX)(); },
          {"packet_size", std::to_string(SIZE_MAX)});
  // Rounded up, and both calls say so.
  lci::packet_pool_t odd = lci::alloc_packet_pool_x().npackets(1).packet_size(1000)();
  EXPECT_EQ(odd.get_attr_packet_size(), 1024u);
  EXPECT_EQ(lci::get_max_bcopy_size_x().packet_pool(odd)(), 1024u);
  lci::free_packet_pool(&odd);
  lci::packet_pool_t none = lci::alloc_packet_pool_x().npackets(0)();
  EXPECT_EQ(lci::get_upacket_x().packet_pool(none)(), nullptr);
  lci::free_packet_pool(&none);
}

TEST_F(bad_setting, runtime_context_and_engine) {
  refused([] { lci::alloc_runtime_x().max_handler_depth(0)(); }, {"max_handler_depth", "is 0"});
  refused([] { lci::alloc_runtime_x().max_handler_wait_s(-1)(); }, {"max_handler_wait_s", "is -1"});
  refused([] { lci::alloc_runtime_x().imm_nbits_tag(-1)(); }, {"imm_nbits_tag", "-1", "0 to 31"});
  refused([] { lci::alloc_runtime_x().rdv_protocol(static_cast<lci::attr_rdv_protocol_t>(9))(); },
          {"rdv_protocol", "9", "writeimm"});
  refused([] { lci::alloc_net_context_x().max_msg_size(0)(); }, {"max_msg_size", "is 0"});
  refused([] { lci::alloc_net_context_x().ibv_gid_idx(-7)(); }, {"ibv_gid_idx", "-7", "-1 to 255"});
  refused(
      [] {
        lci::alloc_matching_engine_x().matching_engine_type(
            static_cast<lci::attr_matching_engine_type_t>(5))();
      },
      {"matching_engine_type", "5", "queue, map"});
}

// A runtime makes its own objects of the defaults, which the program may have set.
TEST_F(bad_setting, defaults_of_what_a_runtime_makes) {
  const lci::global_attr_t before = lci::get_g_default_attr();
  const auto with = [&](auto member, auto value, std::initializer_list<std::string> parts) {
    lci::global_attr_t attr = before;
    attr.*member = static_cast<std::decay_t<decltype(attr.*member)>>(value);
    lci::set_g_default_attr(attr);
    SCOPED_TRACE(*parts.begin());
    refused([] { lci::alloc_runtime(); }, parts);
  };
  using all = lci::global_attr_t;
  const std::string most = std::to_string(SIZE_MAX);
  with(&all::net_max_recvs, 0, {"net_max_recvs", "is 0", "1 to 2147483647"});
  with(&all::net_max_sends, -1, {"net_max_sends", most, "1 to 2147483647"});
  with(&all::net_max_cqes, 0, {"net_max_cqes", "is 0", "1 to"});
  with(&all::net_send_reserved_pct, 1.5, {"net_send_reserved_pct", "1.5"});
  with(&all::shm_max_polls, 0, {"shm_max_polls", "is 0", "1 to 32"});
  with(&all::ofi_lock_mode, 16, {"ofi_lock_mode", "is 16", "0 to 15"});
  with(&all::ibv_td_strategy, 9, {"ibv_td_strategy", "9", "per_qp"});
  with(&all::npackets, -1, {"npackets", most, "0 to 2147483647"});
  with(&all::packet_size, 1, {"packet_size", "is 1"});
  with(&all::matching_engine_type, 5, {"matching_engine_type", "5", "queue, map"});
  with(&all::max_msg_size, 0, {"max_msg_size", "is 0"});
  with(&all::ibv_gid_idx, -7, {"ibv_gid_idx", "-7", "-1 to 255"});
  with(&all::gpu_path, 7, {"gpu_path", "7", "staged"});
  with(&all::max_handler_depth, 0, {"max_handler_depth", "is 0"});

  // The pool that devices take where the program wants none.
  lci::global_attr_t attr = before;
  attr.packet_size = 1;
  attr.alloc_default_packet_pool = false;
  lci::set_g_default_attr(attr);
  refused([] { lci::alloc_runtime(); }, {"packet_size", "is 1"});
  lci::set_g_default_attr(before);
}

TEST_F(bad_setting, completion_objects) {
  for (const int threshold : {INT_MAX, (1 << 24) + 1, 0, -1, INT_MIN})
    refused([&] { lci::alloc_sync_x().threshold(threshold)(); },
            {"threshold", std::to_string(threshold), "1 to 16777216"});
  for (const auto type : {lci::attr_cq_type_t::array_atomic, lci::attr_cq_type_t::lcrq,
                          lci::attr_cq_type_t::per_thread})
    for (const int length : {-5, 0, INT_MAX})
      refused([&] { lci::alloc_cq_x().cq_type(type).default_length(length)(); },
              {"length", std::to_string(length), "1 to 16777216"});
}

TEST_F(bad_setting, direction) {
  for (const int direction : {2, 9, -1})
    refused(
        [&] {
          lci::post_comm_x(static_cast<lci::direction_t>(direction), world().next(), buffer_, 8,
                           cq_)
              .device(world().device)();
        },
        {"direction", std::to_string(static_cast<unsigned>(direction)), "OUT", "IN"});
}

TEST_F(bad_setting, comp_semantic) {
  window memory(64);
  const int to = world().next();
  const lci::device_t device = world().device;
  for (const int number : {2, 9, -1}) {
    const auto semantic = static_cast<lci::comp_semantic_t>(number);
    const auto refuse = [&](const char* name, auto op) {
      SCOPED_TRACE(name);
      refused([&] { op.device(device).comp_semantic(semantic)(); },
              {"comp_semantic", std::to_string(number), "memory", "network"});
    };
    for (const std::size_t size : {8, 64}) {
      refuse("send", lci::post_send_x(to, buffer_, size, 1, cq_));
      refuse("am", lci::post_am_x(to, buffer_, size, cq_, 9));
      refuse("recv", lci::post_recv_x(to, buffer_, size, 1, cq_));
      refuse("put", lci::post_put_x(to, buffer_, size, cq_, 0, memory.rmr(to)));
      refuse("get", lci::post_get_x(to, buffer_, size, cq_, 0, memory.rmr(to)));
    }
    refuse("barrier", lci::barrier_x());
    refuse("alltoall", lci::alltoall_x(buffer_, buffer_ + 32, 1));
  }
}

TEST_F(bad_setting, entry_type) {
  lci::matching_engine_t engine = lci::alloc_matching_engine();
  for (const unsigned type : {2u, 9u, ~0u})
    refused(
        [&] {
          lci::matching_engine_insert(engine, 1, buffer_,
                                      static_cast<lci::matching_entry_type_t>(type));
        },
        {"entry_type", std::to_string(type), "send (0)", "recv (1)"});
  lci::free_matching_engine(&engine);
}

// What is not the program's any more cannot be received into either, nor be used without protocols.
TEST_F(bad_setting, packet__given_away_where_none_is_used_up) {
  window memory(64);
  const int to = world().next();
  const lci::device_t device = world().device;
  const lci::rmr_t rmr = memory.rmr(to);
  const lci::mr_t host = lci::MR_HOST;
  void* packet = nullptr;
  while ((packet = lci::get_upacket()) == nullptr) progress();
  lci::put_upacket(packet);
  const auto refuse = [&](const char* name, auto op) {
    SCOPED_TRACE(name);
    refused([&] { op.device(device)(); }, {"packet", "posted or put back"});
  };
  refuse("recv", lci::post_recv_x(to, packet, 8, 1, cq_));
  refuse("blocking recv", lci::post_recv_x(to, packet, 8, 1, lci::COMP_NULL));
  refuse("get", lci::post_get_x(to, packet, 8, cq_, 0, rmr));
  refuse("raw recv", lci::net_post_recv_x(packet, 8, host));
  refuse("raw sends", lci::net_post_sends_x(to, packet, 8));
  refuse("raw send", lci::net_post_send_x(to, packet, 8, host));
  refuse("raw puts", lci::net_post_puts_x(to, packet, 8, 0, rmr));
  refuse("raw put", lci::net_post_put_x(to, packet, 8, host, 0, rmr));
  refuse("raw putImms", lci::net_post_putImms_x(to, packet, 8, 0, rmr));
  refuse("raw putImm", lci::net_post_putImm_x(to, packet, 8, host, 0, rmr));
  refuse("raw get", lci::net_post_get_x(to, packet, 8, host, 0, rmr));
}

// A packet belongs to the library once it was posted.
TEST_F(bad_setting, packet__posted_or_put_twice) {
  inbox box(true);
  window memory(1 << 16);
  const std::vector<std::size_t> sizes = {0, 8, world().inject + 1, world().bcopy};
  int expected = 0;
  for (const int to : {world().next(), world().rank}) {
    for (const std::size_t size : sizes) {
      for (const auto semantic : {lci::comp_semantic_t::memory, lci::comp_semantic_t::network}) {
        SCOPED_TRACE(testing::Message() << "to rank " << to << ", " << size << " bytes, semantic "
                                        << static_cast<int>(semantic));
        void* packet = nullptr;
        while ((packet = lci::get_upacket()) == nullptr) progress();
        insist(lci::post_am_x(to, packet, size, cq_, box.rcomp())
                   .device(world().device)
                   .comp_semantic(semantic)
                   .allow_done(false));
        refused(
            [&] { lci::post_am_x(to, packet, size, cq_, box.rcomp()).device(world().device)(); },
            {"packet", "posted"});
        refused([&] { lci::post_send_x(to, packet, size, 1, cq_).device(world().device)(); },
                {"packet", "posted"});
        refused(
            [&] {
              lci::post_put_x(to, packet, size, cq_, 0, memory.rmr(to))
                  .device(world().device)
                  .allow_retry(false)();
            },
            {"packet", "posted"});
        refused([&] { lci::put_upacket(packet); }, {"put_upacket"});
        EXPECT_TRUE(pop(cq_).is_done());
        ++expected;
        // What came is the program's, and can be posted onward or put back, once.
        const lci::status_t got = pop(box.cq());
        EXPECT_EQ(got.size, size);
        lci::put_upacket(got.buffer);
        refused([&] { lci::put_upacket(got.buffer); }, {"put_upacket"});
      }
    }
  }
  barrier();
  EXPECT_TRUE(stays_empty(box.cq())) << "more than " << expected << " messages came";
}

}  // namespace
}  // namespace interface_test
