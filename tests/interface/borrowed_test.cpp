// Packets that came with a zero-copy active message and are posted onward: they may lie in the
// memory of the peer that sent them, and are used up like those from get_upacket().
#include "world.hpp"

namespace interface_test {
namespace {

constexpr std::size_t NPACKETS = 64;
// Several times what the pool has, were every packet lost.
constexpr int MESSAGES = 200;

class borrowed_packets : public testing::Test {
 protected:
  void SetUp() override { lci::register_packet_pool(pool_, world().device); }
  void TearDown() override {
    barrier();
    // Nothing is lent any more: the whole pool can be taken out.
    std::vector<void*> all;
    for (int tries = 0; tries < 1000 && all.size() < NPACKETS; ++tries) {
      void* const packet = lci::get_upacket_x().packet_pool(pool_)();
      if (packet != nullptr)
        all.push_back(packet);
      else
        linger();
    }
    EXPECT_EQ(all.size(), NPACKETS) << "packets did not come home";
    for (void* const packet : all) lci::put_upacket(packet);
    barrier();
    lci::deregister_packet_pool(pool_, world().device);
    lci::free_packet_pool(&pool_);
    lci::free_packet_pool(&empty_);
  }
  // A packet that the previous rank filled with pattern(B, 6), as it arrives here.
  void* borrow() {
    void* packet = nullptr;
    wait_until([&] {
      packet = lci::get_upacket_x().packet_pool(pool_)();
      return packet != nullptr;
    });
    std::memcpy(packet, content_.data(), content_.size());
    insist(lci::post_am_x(world().next(), packet, content_.size(), lci::COMP_NULL_RETRY,
                          first_.rcomp())
               .device(world().device)
               .packet_pool(pool_));
    const lci::status_t got = pop(first_.cq());
    EXPECT_EQ(got.size, content_.size());
    return got.buffer;
  }
  lci::post_am_x onward(void* packet, std::size_t size) {
    return lci::post_am_x(world().next(), packet, size, sent_, second_.rcomp())
        .device(world().device);
  }
  void expect_arrival(std::size_t size) {
    const lci::status_t got = pop(second_.cq());
    EXPECT_EQ(got.size, size);
    EXPECT_EQ(difference(got.buffer, got.size, 6), "");
    std::free(got.buffer);
  }

  lci::packet_pool_t pool_ = lci::alloc_packet_pool_x().npackets(NPACKETS)();
  lci::packet_pool_t empty_ = lci::alloc_packet_pool_x().npackets(0)();
  const std::vector<char> content_ = pattern(world().bcopy, 6);
  owned_comp sent_{lci::alloc_counter()};
  inbox first_{true}, second_;
};

TEST_F(borrowed_packets, put_upacket__gives_them_back) {
  for (int i = 0; i < MESSAGES; ++i) {
    void* const packet = borrow();
    EXPECT_EQ(difference(packet, content_.size(), 6), "");
    lci::put_upacket(packet);
  }
}

TEST_F(borrowed_packets, am__uses_them_up_with_every_protocol) {
  const struct {
    std::size_t size;
    lci::tag_t tag;
    lci::comp_semantic_t semantic;
  } ways[] = {{8, 0, lci::comp_semantic_t::memory},
              {world().bcopy, 0, lci::comp_semantic_t::memory},
              {8, 1 << 20, lci::comp_semantic_t::memory},
              {world().bcopy, 1 << 20, lci::comp_semantic_t::memory},
              {8, 0, lci::comp_semantic_t::network},
              {world().bcopy, 0, lci::comp_semantic_t::network},
              {world().bcopy, 1 << 20, lci::comp_semantic_t::network}};
  int posted = 0;
  for (int i = 0; i < MESSAGES; ++i) {
    const auto& way = ways[static_cast<std::size_t>(i) % std::size(ways)];
    void* const packet = borrow();
    posted += insist(onward(packet, way.size).tag(way.tag).comp_semantic(way.semantic)).is_posted();
    expect_arrival(way.size);
  }
  wait_until([&] { return lci::counter_get(sent_) == posted; });
}

TEST_F(borrowed_packets, am__with_a_region_uses_them_up_when_it_is_complete) {
  for (int i = 0; i < 10; ++i) {
    void* const packet = borrow();
    lci::mr_t mr = lci::register_memory_x(packet, world().bcopy).device(world().device)();
    const lci::status_t answer = insist(onward(packet, world().bcopy).mr(mr));
    expect_arrival(world().bcopy);
    if (answer.is_posted()) wait_until([&] { return lci::counter_get(sent_) == i + 1; });
    lci::deregister_memory(&mr);
  }
}

TEST_F(borrowed_packets, send__uses_them_up) {
  std::vector<char> in(world().bcopy);
  owned_comp received(lci::alloc_cq());
  for (int i = 0; i < MESSAGES; ++i) {
    const std::size_t size = i % 2 == 0 ? 16 : world().bcopy;
    const lci::status_t answer =
        lci::post_recv_x(world().previous(), in.data(), in.size(), 3, received)
            .device(world().device)();
    insist(lci::post_send_x(world().next(), borrow(), size, 3, lci::COMP_NULL_RETRY)
               .device(world().device));
    if (answer.is_posted()) {
      EXPECT_EQ(pop(received).size, size);
    }
    EXPECT_EQ(difference(in.data(), size, 6), "");
  }
}

TEST_F(borrowed_packets, put__uses_them_up) {
  window target(world().bcopy);
  for (int i = 0; i < MESSAGES; ++i) {
    const std::size_t size = i % 2 == 0 ? 16 : world().bcopy;
    insist(lci::post_put_x(world().next(), borrow(), size, lci::COMP_NULL_RETRY, 0,
                           target.rmr(world().next()))
               .device(world().device));
  }
  barrier();
  linger();
  EXPECT_EQ(difference(target.bytes().data(), world().bcopy, 6), "");
}

// No packet to copy to: the answer is retry, and the borrowed one stays with us.
TEST_F(borrowed_packets, a_refused_post__leaves_them_with_the_caller) {
  for (int i = 0; i < MESSAGES; ++i) {
    void* const packet = borrow();
    EXPECT_TRUE(onward(packet, world().bcopy).packet_pool(empty_).tag(1 << 20)().is_retry());
    EXPECT_EQ(difference(packet, world().bcopy, 6), "");
    if (i % 2 == 0) {
      lci::put_upacket(packet);
    } else {
      insist(onward(packet, world().bcopy));
      expect_arrival(world().bcopy);
    }
  }
}

TEST_F(borrowed_packets, a_post_without_retry__uses_them_up_at_once) {
  for (int i = 0; i < MESSAGES; ++i) {
    const lci::status_t answer =
        onward(borrow(), world().bcopy).packet_pool(empty_).tag(1 << 20).allow_retry(false)();
    EXPECT_TRUE(answer.is_done());
    expect_arrival(world().bcopy);
  }
}

}  // namespace
}  // namespace interface_test
