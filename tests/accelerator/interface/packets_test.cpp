// Active messages that are delivered in packets of a pool with an allocator: from everywhere, in
// all sizes, many at a time, with too few packets, and with an allocator that fails.
#include <deque>

#include "tests/accelerator/interface/packets.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sizes.hpp"

namespace accelerator_test {
namespace {

using lci::test::KIB, lci::test::MIB;
constexpr place POOL_PLACES[] = {place::device, place::pinned, place::host};

class packets : public testing::TestWithParam<place> {};

// From memory of every kind, told in every way.
TEST_P(packets, delivered__from_everywhere_in_all_sizes) {
  packet_world w(GetParam(), 16);
  for (const place source : {place::host, place::pinned, place::device, place::vmm}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, w.bcopy(),
                                   w.bcopy() + 1, w.bcopy() + 65, MIB}) {
      for (const int to : {world().rank, world().next()}) {
        const int from = to == world().rank ? to : world().previous();
        const std::uint64_t use = next_use();
        guarded out(source, size);
        out->fill(seed_of(world().rank, use));
        const owned_comp sent(lci::alloc_counter());
        const bool told = use % 2 == 0;
        w.send(to, out->get(), size, use, sent,
               told ? unregistered(source, handle::kind) : lci::MR_UNKNOWN);
        const lci::status_t got = pop(w.cq());
        EXPECT_EQ(got.rank, from);
        EXPECT_EQ(got.tag, use);
        EXPECT_EQ(got.user_context, nullptr);
        EXPECT_EQ(w.take(got, size, seed_of(from, use)), "")
            << size << " bytes of " << name_of(source) << " memory from " << from;
        wait_until([&] { return lci::counter_get(sent) == 1; });
        barrier();
      }
    }
  }
  EXPECT_EQ(w.count_free(), 16u);
}

// Plain host buffers, as most programs send them; small ones are inlined.
TEST_P(packets, delivered__from_plain_host_buffers) {
  packet_world w(GetParam(), 16);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{64},
                                 world().bcopy, world().bcopy + 1, 100 * KIB}) {
    const std::uint64_t use = next_use();
    guarded out(place::host, size);
    out->fill(seed_of(world().rank, use));
    const owned_comp sent(lci::alloc_counter());
    // The tag of every second one needs an extended head.
    const lci::tag_t tag = use % 2 == 0 ? use : lci::ANY_TAG - use;
    post(lci::post_am_x(world().next(), out->get(), size, sent, w.rcomp())
             .tag(tag)
             .device(world().device));
    const lci::status_t got = pop(w.cq());
    EXPECT_EQ(got.tag, tag);
    EXPECT_EQ(w.take(got, size, seed_of(world().previous(), use)), "") << size << " bytes";
    wait_until([&] { return lci::counter_get(sent) == 1; });
    barrier();
  }
}

// Hundreds under way at once, more than there are packets, given back while others arrive.
TEST_P(packets, many_at_once) {
  constexpr std::size_t COUNT = 300;
  packet_world w(GetParam(), 24);
  const std::uint64_t use = next_use();
  const auto size_of = [&](std::size_t i) {
    const std::size_t sizes[] = {8, 100, w.bcopy(), w.bcopy() + 1, 0, 3000, 100 * KIB};
    return sizes[i % std::size(sizes)];
  };
  const auto seed = [&](int rank, std::size_t i) { return seed_of(rank, use * 1000 + i); };
  const owned_comp sent(lci::alloc_counter());
  std::vector<std::unique_ptr<guarded>> out;
  for (std::size_t i = 0; i < COUNT; ++i) {
    out.push_back(std::make_unique<guarded>(i % 3 == 0 ? place::host : place::device, size_of(i)));
    (*out[i])->fill(seed(world().rank, i));
  }
  std::deque<lci::status_t> held;
  std::vector<int> times(COUNT);
  std::size_t got = 0;
  const auto receive = [&](std::size_t keep) {
    const lci::status_t one = lci::cq_pop(w.cq());
    if (one.is_done()) {
      ++got;
      held.push_back(one);
    } else {
      keep = 0;  // nothing comes: packets may be needed
    }
    while (held.size() > keep) {
      const auto i = static_cast<std::size_t>(held.front().tag);
      ASSERT_LT(i, COUNT);
      ++times[i];
      ASSERT_EQ(w.take(held.front(), size_of(i), seed(world().previous(), i)), "")
          << "message " << i;
      held.pop_front();
    }
  };
  for (std::size_t i = 0; i < COUNT; ++i) {
    w.send(world().next(), (*out[i])->get(), size_of(i), i, sent, lci::MR_UNKNOWN);
    receive(12);
  }
  while (got < COUNT || lci::counter_get(sent) < static_cast<std::int64_t>(COUNT)) {
    progress();
    receive(12);
  }
  receive(0);
  EXPECT_EQ(times, std::vector<int>(COUNT, 1));
  EXPECT_EQ(w.count_free(), 24u);
}

// Without packets nothing is delivered and nothing is lost; each one that comes back serves one.
void exhaust(place where, place source, std::size_t size) {
  constexpr std::size_t PACKETS = 4, COUNT = 20;
  packet_world w(where, PACKETS);
  const std::uint64_t use = next_use();
  const owned_comp sent(lci::alloc_counter());
  std::vector<std::unique_ptr<guarded>> out;
  for (std::size_t i = 0; i < COUNT; ++i) {
    out.push_back(std::make_unique<guarded>(source, size));
    (*out[i])->fill(seed_of(world().rank, use * 100 + i));
    w.send(world().next(), (*out[i])->get(), size, i, sent, unregistered(source, handle::kind));
  }
  std::deque<lci::status_t> held;
  while (held.size() < PACKETS) held.push_back(pop(w.cq()));
  EXPECT_EQ(w.packet(), nullptr);
  EXPECT_TRUE(stays_empty(w.cq()));
  std::vector<int> times(COUNT);
  for (std::size_t i = 0; i < COUNT; ++i) {
    const lci::status_t one = held.front();
    held.pop_front();
    ASSERT_LT(one.tag, COUNT);
    ++times[one.tag];
    EXPECT_EQ(w.take(one, size, seed_of(world().previous(), use * 100 + one.tag)), "");
    if (i + PACKETS < COUNT) held.push_back(pop(w.cq()));
  }
  EXPECT_EQ(times, std::vector<int>(COUNT, 1));
  wait_until([&] { return lci::counter_get(sent) == static_cast<std::int64_t>(COUNT); });
  EXPECT_EQ(w.count_free(), PACKETS);
}

TEST_P(packets, exhausted_by_small_host_messages) { exhaust(GetParam(), place::host, 8); }
TEST_P(packets, exhausted_by_gpu_messages) { exhaust(GetParam(), place::device, 3000); }

// Packets of one pool in both roles. One is always left for what arrives, but the answers that free
// those that are being sent may lie behind small messages that wait for a packet.
TEST_P(packets, sent_and_received_from_one_small_pool) {
  constexpr std::size_t PACKETS = 3, ROUNDS = 60, SIZE = 2000;
  packet_world w(GetParam(), PACKETS);
  const std::uint64_t use = next_use();
  next_use();
  const owned_comp sent(lci::alloc_counter()), small_sent(lci::alloc_counter());
  guarded small(place::host, 8);
  small->fill(seed_of(world().rank, use));
  std::size_t got = 0;
  const auto receive = [&] {
    const lci::status_t one = lci::cq_pop(w.cq());
    if (!one.is_done()) return progress();
    ++got;
    const std::uint64_t seed = seed_of(world().previous(), use + one.tag);
    ASSERT_EQ(w.take(one, one.tag == 0 ? 8 : SIZE, seed), "");
  };
  for (std::size_t i = 0; i < ROUNDS; ++i) {
    const auto under_way = [&] { return static_cast<std::int64_t>(i) - lci::counter_get(sent); };
    while (under_way() > 1) receive();
    void* mine = nullptr;
    while ((mine = w.packet()) == nullptr) receive();
    build(GetParam(), mine, SIZE, seed_of(world().rank, use + 1));
    // Receives also while a post is refused: there may be no packet but those in the queue.
    const auto send = [&](void* buffer, std::size_t size, lci::tag_t tag, lci::comp_t comp) {
      while (lci::post_am_x(world().next(), buffer, size, comp, w.rcomp())
                 .tag(tag)
                 .allow_done(false)
                 .device(world().device)()
                 .is_retry())
        receive();
    };
    send(mine, SIZE, 1, sent);
    for (int k = 0; k < 3; ++k) send(small->get(), 8, 0, small_sent);
  }
  const auto all = static_cast<std::int64_t>(ROUNDS);
  while (got < 4 * ROUNDS || lci::counter_get(sent) < all || lci::counter_get(small_sent) < 3 * all)
    receive();
  EXPECT_EQ(w.count_free(), PACKETS);
}

// Objects that do not ask for packets keep getting memory that free() takes.
TEST_P(packets, other_objects__get_host_memory_of_the_runtime) {
  packet_world w(GetParam(), 4);
  const owned_comp cq(lci::alloc_cq());
  const lci::rcomp_t rcomp = lci::register_rcomp(cq);
  barrier();
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, w.bcopy() + 1}) {
    const std::uint64_t use = next_use();
    const place source = size == 8 ? place::host : place::device;
    guarded out(source, size);
    out->fill(seed_of(world().rank, use));
    const owned_comp sent(lci::alloc_counter());
    post(lci::post_am_x(world().next(), out->get(), size, sent, rcomp)
             .mr(unregistered(source, handle::kind))
             .device(world().device));
    const lci::status_t got = pop(cq);
    EXPECT_EQ(difference(got.buffer, got.size, seed_of(world().previous(), use)), "");
    EXPECT_EQ(got.size, size);
    std::free(got.buffer);
    wait_until([&] { return lci::counter_get(sent) == 1; });
  }
  barrier();
  lci::deregister_rcomp(rcomp);
}

INSTANTIATE_TEST_SUITE_P(pool, packets, testing::ValuesIn(POOL_PLACES),
                         [](const auto& one) { return std::string(name_of(one.param)); });

// The suite's own look at a message sees what it is there for.
TEST(packets_check, take__says_what_is_wrong) {
  packet_world w(place::device, 4);
  const std::uint64_t seed = seed_of(world().rank, next_use());
  guarded out(place::device, 100);
  out->fill(seed);
  for (int i = 0; i < 3; ++i) {
    const owned_comp sent(lci::alloc_counter());
    w.send(world().rank, out->get(), 100, 0, sent, lci::MR_DEVICE);
    lci::status_t got = pop(w.cq());
    if (i == 0) {
      EXPECT_NE(w.take(got, 101, seed).find("size 100"), std::string::npos);
    } else if (i == 1) {
      EXPECT_NE(w.take(got, 100, seed + 1).find("is wrong"), std::string::npos);
    } else {
      EXPECT_EQ(w.count_free(), 3u);
      EXPECT_EQ(w.take(got, 100, seed), "");
      EXPECT_EQ(w.count_free(), 4u);
    }
    wait_until([&] { return lci::counter_get(sent) == 1; });
  }
  std::byte host[256];
  EXPECT_FALSE(is_in_device_memory(host));
}

}  // namespace
}  // namespace accelerator_test
