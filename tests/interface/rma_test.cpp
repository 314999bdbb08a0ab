// Put and get: addressing inside a region, notification with the origin's rank and tag, overlapping
// users of one region, registrations of parts and of local buffers.
#include <algorithm>

#include "world.hpp"

namespace interface_test {
namespace {

class signalled_put : public testing::TestWithParam<size_at> {};

// Data and notification do not overtake each other: whoever sees the notification sees the data.
TEST_P(signalled_put, target__sees_data_rank_and_tag) {
  const std::size_t size = bytes(GetParam());
  inbox box;
  window memory(std::max<std::size_t>(size, 1) * static_cast<std::size_t>(world().n));
  const std::uint64_t max_tag = lci::get_g_runtime().get_attr_max_imm_tag();
  for (const lci::tag_t tag : {lci::tag_t{0}, lci::tag_t{77}, max_tag}) {
    owned_comp sent(lci::alloc_cq());
    std::vector<std::vector<char>> out;
    int posted = 0;
    for (int to = 0; to < world().n; ++to) {
      out.push_back(pattern(size, static_cast<std::uint64_t>(world().rank) + tag));
      const lci::status_t answer =
          insist(lci::post_put_x(to, out.back().data(), size, sent,
                                 size * static_cast<std::size_t>(world().rank), memory.rmr(to))
                     .device(world().device)
                     .tag(tag)
                     .remote_comp(box.rcomp())
                     .user_context(&box));
      posted += answer.is_posted() ? 1 : 0;
    }
    std::vector<int> origins;
    for (int i = 0; i < world().n; ++i) {
      const lci::status_t got = pop(box.cq());
      EXPECT_TRUE(got.is_done());
      EXPECT_EQ(got.tag, tag);
      EXPECT_EQ(got.buffer, nullptr);
      EXPECT_EQ(got.size, 0u);
      EXPECT_EQ(got.user_context, nullptr);
      ASSERT_GE(got.rank, 0);
      ASSERT_LT(got.rank, world().n);
      origins.push_back(got.rank);
      const char* const at = memory.bytes().data() + size * static_cast<std::size_t>(got.rank);
      EXPECT_EQ(difference(at, size, static_cast<std::uint64_t>(got.rank) + tag), "");
    }
    std::sort(origins.begin(), origins.end());
    for (int i = 0; i < world().n; ++i) EXPECT_EQ(origins[static_cast<std::size_t>(i)], i);
    for (; posted > 0; --posted) EXPECT_EQ(pop(sent).user_context, &box);
    barrier();
    EXPECT_TRUE(stays_empty(sent));
  }
  EXPECT_TRUE(stays_empty(box.cq()));
}

INSTANTIATE_TEST_SUITE_P(sizes, signalled_put, testing::ValuesIn(ALL_SIZES),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(rma, rmr__base_is_the_registered_address_and_survives_memcpy) {
  window memory(100);
  const lci::rmr_t mine = memory.rmr(world().rank);
  EXPECT_EQ(mine.base, reinterpret_cast<std::uintptr_t>(memory.bytes().data()));
  EXPECT_FALSE(mine.is_empty());
  // The way programs compute displacements: from an address of the target.
  char* const target = memory.bytes().data() + 17;
  char value = 9;
  std::vector<std::uintptr_t> targets(static_cast<std::size_t>(world().n));
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(target);
  lci::allgather_x(&address, targets.data(), sizeof address).device(world().device)();
  lci::rmr_t key;
  const lci::rmr_t original = memory.rmr(world().next());
  std::memcpy(&key, &original, sizeof key);
  insist(lci::post_put_x(world().next(), &value, 1, lci::COMP_NULL_RETRY,
                         targets[static_cast<std::size_t>(world().next())] - key.base, key)
             .device(world().device));
  wait_until([&] { return *const_cast<volatile char*>(target) == 9; });
  EXPECT_EQ(memory.bytes()[16], 0);
  EXPECT_EQ(memory.bytes()[18], 0);
}

TEST(rma, region__first_and_last_byte_and_the_whole_are_reachable) {
  constexpr std::size_t SIZE = 20000;
  window memory(SIZE);
  const lci::rmr_t key = memory.rmr(world().next());
  std::vector<char> whole = pattern(SIZE, 1);
  lci::post_put_x(world().next(), whole.data(), SIZE, lci::COMP_NULL, 0, key)
      .device(world().device)();
  char first = 1, last = 2;
  wait_until([&] { return difference(memory.bytes().data(), SIZE, 1).empty(); });
  barrier();
  lci::post_put_x(world().next(), &first, 1, lci::COMP_NULL, 0, key).device(world().device)();
  lci::post_put_x(world().next(), &last, 1, lci::COMP_NULL, SIZE - 1, key).device(world().device)();
  wait_until([&] {
    const volatile char* const p = memory.bytes().data();
    return p[0] == 1 && p[SIZE - 1] == 2;
  });
  barrier();
  char got[2] = {};
  lci::post_get_x(world().next(), got, 1, lci::COMP_NULL, 0, key).device(world().device)();
  lci::post_get_x(world().next(), got + 1, 1, lci::COMP_NULL, SIZE - 1, key)
      .device(world().device)();
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 2);
  // An access of no bytes is legal up to and including the end.
  EXPECT_TRUE(lci::post_put_x(world().next(), got, 0, lci::COMP_NULL, SIZE, key)
                  .device(world().device)()
                  .is_done());
}

TEST(rma, registrations__of_overlapping_parts_are_independent) {
  std::vector<char> memory(4096);
  lci::mr_t whole = lci::register_memory_x(memory.data(), 4096).device(world().device)();
  lci::mr_t part = lci::register_memory_x(memory.data() + 100, 200).device(world().device)();
  struct keys {
    lci::rmr_t whole, part;
  };
  const keys mine = {lci::get_rmr(whole), lci::get_rmr(part)};
  EXPECT_EQ(mine.part.base, mine.whole.base + 100);
  std::vector<keys> all(static_cast<std::size_t>(world().n));
  lci::allgather_x(&mine, all.data(), sizeof mine).device(world().device)();
  const keys& theirs = all[static_cast<std::size_t>(world().next())];
  char a = 1, b = 2;
  lci::post_put_x(world().next(), &a, 1, lci::COMP_NULL, 99, theirs.whole).device(world().device)();
  lci::post_put_x(world().next(), &b, 1, lci::COMP_NULL, 0, theirs.part).device(world().device)();
  wait_until([&] {
    const volatile char* const p = memory.data();
    return p[99] == 1 && p[100] == 2;
  });
  barrier();
  // Ending one registration leaves the other.
  lci::deregister_memory(&part);
  EXPECT_TRUE(part.is_empty());
  barrier();
  lci::post_put_x(world().next(), &a, 1, lci::COMP_NULL, 150, theirs.whole)
      .device(world().device)();
  wait_until([&] { return static_cast<const volatile char*>(memory.data())[150] == 1; });
  barrier();
  lci::deregister_memory(&whole);
}

TEST(rma, registrations__many_come_and_go) {
  std::vector<char> memory(1 << 16);
  for (int round = 0; round < 3; ++round) {
    std::vector<lci::mr_t> regions;
    for (std::size_t i = 0; i < 1000; ++i)
      regions.push_back(
          lci::register_memory_x(memory.data() + i * 64, 64).device(world().device)());
    const lci::rmr_t mine = lci::get_rmr(regions[999]);
    std::vector<lci::rmr_t> all(static_cast<std::size_t>(world().n));
    lci::allgather_x(&mine, all.data(), sizeof mine).device(world().device)();
    char value = static_cast<char>(round + 1);
    insist(lci::post_put_x(world().next(), &value, 1, lci::COMP_NULL_RETRY, 5,
                           all[static_cast<std::size_t>(world().next())])
               .device(world().device));
    wait_until(
        [&] { return static_cast<const volatile char*>(memory.data())[999 * 64 + 5] == value; });
    barrier();
    for (std::size_t i = regions.size(); i-- > 0;) lci::deregister_memory(&regions[i]);
  }
}

// A network put that has completed is in the target's memory.
TEST(rma, network_semantic__means_arrived) {
  window memory(64);
  inbox box;
  for (std::size_t i = 0; i < 50; ++i) {
    char value = static_cast<char>(i + 1);
    owned_comp sent(lci::alloc_sync_x().threshold(1)());
    const lci::status_t answer =
        insist(lci::post_put_x(world().next(), &value, 1, sent, i, memory.rmr(world().next()))
                   .device(world().device)
                   .comp_semantic(lci::comp_semantic_t::network));
    if (answer.is_posted()) lci::sync_wait_x(sent, nullptr).device(world().device)();
    // The message tells where to look, and by then the byte must be there.
    lci::post_am_x(world().next(), &i, sizeof i, lci::COMP_NULL, box.rcomp())
        .device(world().device)();
    const lci::status_t got = pop(box.cq());
    std::size_t at = 0;
    std::memcpy(&at, got.buffer, sizeof at);
    std::free(got.buffer);
    EXPECT_EQ(memory.bytes()[at], static_cast<char>(at + 1));
  }
}

// The ranks have met on the world's device, which nobody polls meanwhile: what a put has to ask its
// target is asked on the put's own device.
TEST(rma, first_post__on_a_device_of_its_own) {
  window memory(1);
  inbox box;
  lci::device_t mine = lci::alloc_device();
  barrier();
  owned_comp sent(lci::alloc_counter());
  char value = 5;
  lci::status_t answer;
  constexpr int MOST = 4'000'000;
  const auto round = [&] { lci::progress_x().device(mine)(); };
  for (int i = 0; i < MOST; ++i) {
    answer = lci::post_put_x(world().next(), &value, 1, sent, 0, memory.rmr(world().next()))
                 .device(mine)
                 .remote_comp(box.rcomp())();
    if (!answer.is_retry()) break;
    round();
  }
  EXPECT_FALSE(answer.is_retry()) << "the put never began";
  lci::status_t got;
  for (int i = 0; i < MOST && !got.is_done(); ++i) {
    round();
    got = lci::cq_pop(box.cq());
  }
  EXPECT_TRUE(got.is_done()) << "no signal came";
  EXPECT_EQ(memory.bytes()[0], 5);
  for (int i = 0; i < MOST && answer.is_posted() && lci::counter_get(sent) == 0; ++i) round();
  EXPECT_EQ(lci::counter_get(sent), answer.is_posted() ? 1 : 0);
  barrier();
  lci::free_device(&mine);
}

}  // namespace
}  // namespace interface_test
