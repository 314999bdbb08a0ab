// Packets of a pool with an allocator in the hands of the program: built in place and posted,
// misuse, pools that come and go, allocators that fail, and the runtime's allocator giving GPU
// memory.
#include <cstring>

#include "lci/errors.hpp"
#include "tests/accelerator/interface/packets.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::throws_with;

using lci::test::MIB;

class own_packets : public testing::TestWithParam<place> {};

TEST_P(own_packets, posted__leave_and_come_home) {
  constexpr std::size_t PACKETS = 8;
  packet_world w(GetParam(), PACKETS);
  const lci::mr_t kinds[] = {lci::mr_t(), unregistered(GetParam(), handle::kind), lci::MR_UNKNOWN};
  int round = 0;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{100}, w.bcopy()}) {
    for (const lci::mr_t mr : kinds) {
      for (const int to : {world().rank, world().next()}) {
        const int from = to == world().rank ? to : world().previous();
        const std::uint64_t use = next_use();
        void* const packet = w.packet();
        ASSERT_NE(packet, nullptr) << "round " << round;
        build(GetParam(), packet, size, seed_of(world().rank, use));
        const owned_comp sent(lci::alloc_counter());
        const lci::tag_t tag = ++round % 2 == 0 ? use : lci::ANY_TAG - use;
        w.send(to, packet, size, tag, sent, mr);
        const lci::status_t got = pop(w.cq());
        EXPECT_EQ(got.tag, tag);
        EXPECT_EQ(w.take(got, size, seed_of(from, use)), "") << size << " bytes";
        wait_until([&] { return lci::counter_get(sent) == 1; });
        barrier();
      }
    }
  }
  EXPECT_EQ(w.count_free(), PACKETS);
}

// The same by send and receive, by put, and with the network's completion asked for.
TEST_P(own_packets, posted__by_other_operations) {
  constexpr std::size_t PACKETS = 4;
  packet_world w(GetParam(), PACKETS);
  target in(place::device, {8, 1000, w.bcopy()});
  for (std::size_t i = 0; i < in.count(); ++i) {
    const std::size_t size = in.at(i).size();
    for (int k = 0; k < 4; ++k) {
      const std::uint64_t use = next_use();
      in.at(i).clear(seed_of(world().previous(), use));
      void* const packet = w.packet();
      ASSERT_NE(packet, nullptr);
      build(GetParam(), packet, size, seed_of(world().rank, use));
      const lci::comp_semantic_t semantic =
          k % 2 == 0 ? lci::comp_semantic_t::memory : lci::comp_semantic_t::network;
      const owned_comp done(lci::alloc_counter());
      std::int64_t expected = 1;
      barrier();
      if (k < 2) {
        post(lci::post_recv_x(world().previous(), in.at(i).get(), size, use, done)
                 .mr(in.mr(i, handle::whole))
                 .device(world().device));
        post(lci::post_send_x(world().next(), packet, size, use, done)
                 .device(world().device)
                 .comp_semantic(semantic));
        expected = 2;
      } else {
        const auto [rmr, disp] = in.at_peer(world().next(), i, handle::whole);
        post(lci::post_put_x(world().next(), packet, size, done, disp, rmr)
                 .device(world().device)
                 .comp_semantic(semantic));
      }
      wait_until([&] { return lci::counter_get(done) == expected; });
      lci::wait_drained_x().device(world().device)();
      barrier();
      linger();
      // A put that is over for its poster may still be on its way at the target.
      if (k == 2)
        wait_until([&] { return in.at(i).check(seed_of(world().previous(), use)).empty(); });
      EXPECT_EQ(in.at(i).check(seed_of(world().previous(), use)), "") << size << " bytes, " << k;
      barrier();
      EXPECT_EQ(w.count_free(), PACKETS) << size << " bytes, " << k;
    }
  }
}

// Messages that came in packets go on to the next from there. They may overtake each other.
TEST_P(own_packets, forwarded) {
  packet_world w(GetParam(), 4);
  const std::uint64_t use = next_use();
  guarded out(place::device, 500);
  out->fill(seed_of(world().rank, use));
  const owned_comp sent(lci::alloc_counter());
  const auto origin = static_cast<lci::tag_t>(world().rank);
  w.send(world().next(), out->get(), 500, origin, sent, lci::MR_DEVICE);
  for (int hop = 1; hop <= 5; ++hop) {
    const lci::status_t got = pop(w.cq());
    if (hop < 5) {
      w.send(world().next(), got.buffer, got.size, got.tag, sent, lci::mr_t());
    } else {
      EXPECT_EQ(w.take(got, 500, seed_of(static_cast<int>(got.tag), use)), "");
    }
  }
  wait_until([&] { return lci::counter_get(sent) == 5; });
  EXPECT_EQ(w.count_free(), 4u);
}

TEST_P(own_packets, misuse__is_refused) {
  packet_world w(GetParam(), 2);
  auto* const packet = static_cast<std::byte*>(w.packet());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packet) % 256, 0u);
  const auto foreign = [](void* at) {
    return throws_with<lci::argument_error>([&] { lci::put_upacket(at); }, {"not the start"});
  };
  EXPECT_TRUE(foreign(packet + 64));
  EXPECT_TRUE(foreign(packet + 8192));  // the other one, which nobody has
  EXPECT_TRUE(foreign(packet + 64 * MIB));
  const owned_comp sent(lci::alloc_counter());
  EXPECT_TRUE(throws_with<lci::argument_error>(
      [&] { w.send(world().rank, packet, w.bcopy() + 1, 0, sent, lci::mr_t()); }, {"size"}));
  if (is_gpu(GetParam())) {
    EXPECT_TRUE(throws_with<lci::argument_error>(
        [&] { w.send(world().rank, packet + 64, 8, 0, sent, lci::mr_t()); }, {"GPU memory"}));
  }
  lci::put_upacket(packet);
  EXPECT_TRUE(foreign(packet));
  if (is_gpu(GetParam())) {
    EXPECT_TRUE(throws_with<lci::argument_error>(
        [&] { w.send(world().rank, packet, 8, 0, sent, lci::mr_t()); },
        {"the program does not have"}));
  }
  EXPECT_EQ(w.count_free(), 2u);
}

INSTANTIATE_TEST_SUITE_P(pool, own_packets,
                         testing::Values(place::device, place::pinned, place::host),
                         [](const auto& one) { return std::string(name_of(one.param)); });

// The text of what progress throws before `holds()`; "" if nothing.
template <class Predicate>
std::string thrown_until(Predicate holds) {
  std::string text;
  while (!holds()) {
    try {
      progress();
    } catch (const std::exception& error) {
      text += error.what();
    }
  }
  return text;
}

TEST(failing_allocator, messages_wait_for_packets__and_it_is_said_once) {
  for (const place source : {place::host, place::device}) {
    packet_world w(place::device, 4);
    w.memory().make_empty(true);
    EXPECT_TRUE(throws_with<std::runtime_error>([&] { w.packet(); }, {"is empty"}));
    const std::uint64_t use = next_use();
    const owned_comp sent(lci::alloc_counter());
    guarded out(source, 8);
    out->fill(seed_of(world().rank, use));
    w.send(world().rank, out->get(), 8, 0, sent, unregistered(source, handle::kind));
    int rounds = 0;
    EXPECT_EQ(thrown_until([&] { return ++rounds > 2000; }), "the allocator of the test is empty");
    EXPECT_FALSE(lci::cq_pop(w.cq()).is_done());
    w.memory().make_empty(false);
    EXPECT_EQ(w.take(pop(w.cq()), 8, seed_of(world().rank, use)), "");
    wait_until([&] { return lci::counter_get(sent) == 1; });
  }
}

// Who asked hears of it.
TEST(failing_allocator, large_messages_are_refused) {
  packet_world w(place::device, 4);
  w.memory().make_empty(true);
  const owned_comp sent(lci::alloc_counter());
  guarded out(place::device, MIB);
  w.send(world().rank, out->get(), MIB, 0, sent, lci::MR_DEVICE);
  std::string text;
  while (text.find("cannot take a message") == std::string::npos) {
    try {
      progress();
    } catch (const std::exception& error) {
      text += error.what();
    }
  }
  EXPECT_NE(text.find("is empty"), std::string::npos) << text;
  EXPECT_EQ(lci::counter_get(sent), 0);
  w.memory().make_empty(false);
}

// On a device that exists already, and off again.
TEST(pool_of_device, registered_and_deregistered) {
  watched_allocator memory(place::device);
  lci::packet_pool_t pool =
      lci::alloc_packet_pool_x().allocator(&memory).npackets(4).packet_size(1024)();
  EXPECT_EQ(lci::get_max_bcopy_size_x().packet_pool(pool)(), 1024u);
  const owned_comp cq(lci::alloc_cq_x().zero_copy_am(true)());
  const lci::rcomp_t rcomp = lci::register_rcomp(cq);
  barrier();
  const auto lands_on_gpu = [&] {
    std::uint64_t word = 42;
    post_and_wait(
        lci::post_am_x(world().rank, &word, 8, lci::COMP_NULL, rcomp).device(world().device));
    const lci::status_t got = pop(cq);
    const bool on_gpu = is_in_device_memory(got.buffer);
    lci::put_upacket(got.buffer);
    return on_gpu;
  };
  EXPECT_FALSE(lands_on_gpu());
  lci::register_packet_pool(pool, world().device);
  EXPECT_TRUE(lands_on_gpu());
  lci::deregister_packet_pool(pool, world().device);
  EXPECT_FALSE(lands_on_gpu());
  lci::register_packet_pool(pool, world().device);
  EXPECT_TRUE(lands_on_gpu());
  lci::free_packet_pool(&pool);  // leaves the device by itself
  EXPECT_FALSE(lands_on_gpu());
  EXPECT_EQ(memory.live(), 0u);
  barrier();
  lci::deregister_rcomp(rcomp);
}

// set_allocator() with GPU memory: every active message lands there.
TEST(gpu_allocator, of_the_runtime) {
  watched_allocator memory(place::device);
  lci::allocator_base_t* const before = lci::get_allocator();
  {
    interface_test::inbox box;
    lci::set_allocator(&memory);
    barrier();
    for (const place source : {place::host, place::device}) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, world().bcopy,
                                     world().bcopy + 1, MIB}) {
        const std::uint64_t use = next_use();
        guarded out(source, size);
        out->fill(seed_of(world().rank, use));
        const owned_comp sent(lci::alloc_counter());
        post(lci::post_am_x(world().next(), out->get(), size, sent, box.rcomp())
                 .mr(unregistered(source, handle::kind)));
        const lci::status_t got = pop(box.cq());
        EXPECT_EQ(got.size, size);
        ASSERT_TRUE(memory.owns(got.buffer, size != 0 ? size : 1));
        EXPECT_EQ(difference(got.buffer, size, seed_of(world().previous(), use), place::device), "")
            << size;
        memory.deallocate(got.buffer);
        wait_until([&] { return lci::counter_get(sent) == 1; });
        barrier();
      }
    }
    lci::set_allocator(before);
  }
}

TEST(ready_made_allocators, say_what_is_wrong) {
  lci::device_allocator_t nowhere(1000);
  EXPECT_TRUE(throws_with<lci::backend_error>([&] { nowhere.allocate(8); }, {"no GPU 1000"}));
  lci::device_allocator_t device(lci::cuda::real_gpu::get().ordinal());
  lci::pinned_allocator_t pinned;
  for (lci::allocator_base_t* const one : {static_cast<lci::allocator_base_t*>(&device),
                                           static_cast<lci::allocator_base_t*>(&pinned)}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100000}}) {
      void* const memory = one->allocate(size);
      ASSERT_NE(memory, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
      EXPECT_EQ(is_in_device_memory(memory), one == &device);
      one->deallocate(memory);
      EXPECT_TRUE(
          throws_with<lci::argument_error>([&] { one->deallocate(memory); }, {"given back"}));
    }
    one->deallocate(nullptr);
  }
}

}  // namespace
}  // namespace accelerator_test
