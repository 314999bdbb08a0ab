// Packets that the program fills in place: room, alignment, who owns them after each answer, on
// every protocol.
#include "world.hpp"

namespace interface_test {
namespace {

TEST(upacket, get__offers_at_least_the_bcopy_size_and_is_writable) {
  std::vector<void*> packets;
  for (int i = 0; i < 100; ++i) {
    void* const packet = lci::get_upacket();
    ASSERT_NE(packet, nullptr);
    std::memset(packet, i, world().bcopy);
    packets.push_back(packet);
  }
  for (std::size_t i = 0; i < packets.size(); ++i) {
    const char* const bytes_of = static_cast<const char*>(packets[i]);
    EXPECT_EQ(bytes_of[0], static_cast<char>(i));
    EXPECT_EQ(bytes_of[world().bcopy - 1], static_cast<char>(i));
    lci::put_upacket(packets[i]);
  }
}

// Whether the call names the runtime, another one, or none.
TEST(upacket, put__goes_to_the_pool_of_whatever_runtime_it_is_from) {
  lci::runtime_t own = lci::alloc_runtime_x().alloc_default_device(false)();
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(8).runtime(own)();
  const auto get = [pool] { return lci::get_upacket_x().packet_pool(pool)(); };
  std::vector<void*> all;
  while (void* const packet = get()) all.push_back(packet);
  ASSERT_EQ(all.size(), 8u);
  lci::put_upacket(all[0]);
  lci::put_upacket_x(all[1]).runtime(own)();
  lci::put_upacket_x(all[2]).runtime(lci::get_g_runtime())();
  void* const of_default = lci::get_upacket();
  lci::put_upacket_x(of_default).runtime(own)();
  for (int i = 0; i < 3; ++i) {
    void* const packet = get();
    ASSERT_NE(packet, nullptr);
    all[static_cast<std::size_t>(i)] = packet;
  }
  EXPECT_EQ(get(), nullptr);
  for (void* const packet : all) lci::put_upacket(packet);
  lci::free_packet_pool(&pool);
  lci::free_runtime(&own);
}

// A pool with an allocator delivers what its packets hold, whatever the network takes in one piece.
TEST(packet_pool, of_larger_packets_with_an_allocator__holds_them) {
  constexpr std::size_t SIZE = 262144;
  lci::packet_pool_t pool = lci::alloc_packet_pool_x()
                                .allocator(&lci::g_allocator_default)
                                .npackets(4)
                                .packet_size(SIZE)();
  EXPECT_EQ(lci::get_max_bcopy_size_x().packet_pool(pool)(), SIZE);
  std::vector<char*> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(static_cast<char*>(lci::get_upacket_x().packet_pool(pool)()));
    ASSERT_NE(all.back(), nullptr);
    std::memset(all.back(), i, SIZE);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)][0], i);
    EXPECT_EQ(all[static_cast<std::size_t>(i)][SIZE - 1], i);
    lci::put_upacket(all[static_cast<std::size_t>(i)]);
  }
  lci::free_packet_pool(&pool);
}

// To oneself and without progress, so that most have to wait: they go in packets of the device.
TEST(packet_pool, of_larger_packets__does_not_change_what_is_sent) {
  constexpr std::size_t COUNT = 300;
  constexpr std::size_t SIZE = 20000;
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(8).packet_size(65536)();
  {
    inbox box;
    owned_comp sent(lci::alloc_counter());
    const int me = lci::get_rank_me();
    std::vector<std::vector<char>> all;
    for (std::size_t i = 0; i < COUNT; ++i) {
      all.push_back(pattern(SIZE, static_cast<unsigned>(i)));
      ASSERT_FALSE(lci::post_am_x(me, all[i].data(), SIZE, sent, box.rcomp())
                       .packet_pool(pool)
                       .tag(i)
                       .allow_retry(false)()
                       .is_retry());
    }
    for (std::size_t arrived = 0; arrived < COUNT;) {
      lci::progress();
      for (lci::status_t s = lci::cq_pop(box.cq()); s.is_done(); s = lci::cq_pop(box.cq())) {
        EXPECT_EQ(difference(s.buffer, s.size, static_cast<unsigned>(s.tag)), "");
        std::free(s.buffer);
        ++arrived;
      }
    }
  }
  lci::free_packet_pool(&pool);
}

struct upacket_setting {
  size_at size;
  lci::tag_t tag;
};
class upacket_post : public testing::TestWithParam<upacket_setting> {};

// Far more posts than a pool of this size could stand if any of them lost its packet.
TEST_P(upacket_post, accepted__returns_the_packet_to_the_pool) {
  const std::size_t size = bytes(GetParam().size);
  constexpr std::size_t NPACKETS = 256;
  constexpr int COUNT = 600;
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(NPACKETS)();
  EXPECT_EQ(pool.get_attr_npackets(), NPACKETS);
  lci::register_packet_pool(pool, world().device);
  {
    inbox box;
    owned_comp sent(lci::alloc_counter());
    int posted = 0, arrived = 0;
    const auto drain = [&] {
      for (lci::status_t s = lci::cq_pop(box.cq()); s.is_done(); s = lci::cq_pop(box.cq())) {
        EXPECT_EQ(difference(s.buffer, s.size, 6), "");
        std::free(s.buffer);
        ++arrived;
      }
    };
    const std::vector<char> content = pattern(size, 6);
    for (int i = 0; i < COUNT; ++i) {
      void* packet = nullptr;
      wait_until([&] {
        drain();
        packet = lci::get_upacket_x().packet_pool(pool)();
        return packet != nullptr;
      });
      std::memcpy(packet, content.data(), size);
      lci::status_t answer;
      // After retry the packet is still ours: its content is sent again as it is.
      wait_until([&] {
        drain();
        answer = lci::post_am_x(world().next(), packet, size, sent, box.rcomp())
                     .device(world().device)
                     .packet_pool(pool)
                     .tag(GetParam().tag)();
        return !answer.is_retry();
      });
      posted += answer.is_posted() ? 1 : 0;
    }
    wait_until([&] {
      drain();
      return arrived == COUNT && lci::counter_get(sent) == posted;
    });
  }
  barrier();
  // Everything is home again: the whole pool can be taken out.
  std::vector<void*> all;
  wait_until([&] {
    void* const packet = lci::get_upacket_x().packet_pool(pool)();
    if (packet != nullptr) all.push_back(packet);
    return all.size() == NPACKETS;
  });
  EXPECT_EQ(lci::get_upacket_x().packet_pool(pool)(), nullptr) << "the ceiling holds";
  for (void* const packet : all) lci::put_upacket(packet);
  barrier();
  lci::deregister_packet_pool(pool, world().device);
  lci::free_packet_pool(&pool);
}

INSTANTIATE_TEST_SUITE_P(
    protocols, upacket_post,
    testing::Values(upacket_setting{size_at::one, 0}, upacket_setting{size_at::inject_1, 0},
                    upacket_setting{size_at::bcopy_12, 0}, upacket_setting{size_at::bcopy, 0},
                    upacket_setting{size_at::one, 1 << 20},
                    upacket_setting{size_at::bcopy_12, 1 << 20},
                    upacket_setting{size_at::bcopy, 1 << 20}),
    [](const auto& param) {
      return std::string(name_of(param.param.size)) + "_tag" + std::to_string(param.param.tag);
    });

TEST(upacket, put__refuses_what_is_no_packet) {
  alignas(64) char stack[128] = {};
  EXPECT_THROW(lci::put_upacket(nullptr), lci::argument_error);
  EXPECT_THROW(lci::put_upacket(stack + 64), lci::argument_error);
  void* const packet = lci::get_upacket();
  EXPECT_THROW(lci::put_upacket(static_cast<char*>(packet) + 8), lci::argument_error);
  lci::put_upacket(packet);
}

TEST(upacket, pool_of_none__gives_none) {
  lci::packet_pool_t pool = lci::alloc_packet_pool_x().npackets(0)();
  EXPECT_EQ(lci::get_upacket_x().packet_pool(pool)(), nullptr);
  lci::free_packet_pool(&pool);
}

}  // namespace
}  // namespace interface_test
