// Packets whose payloads lie apart: each has one owner, its payload is nobody else's, and an
// allocator that fails leaves no trace.
#include "lci/mem/payload_pool.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lci/errors.hpp"
#include "lci/mem/packet_pool.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/sizes.hpp"

namespace lci::mem {
namespace {

using lci::test::MIB;

// Counts, is told to fail, and gives memory that is not aligned as payloads are.
class watched : public allocator_base_t {
 public:
  ~watched() override { EXPECT_TRUE(live_.empty()); }
  void* allocate(std::size_t size) override {
    const std::lock_guard lock(mutex_);
    if (++calls == fail_at) throw std::runtime_error("no memory in the test");
    if (calls == null_at) return nullptr;
    void* const at = std::malloc(size + 16);
    auto* const odd = static_cast<std::byte*>(at) + 16;
    live_[odd] = at;
    return odd;
  }
  void deallocate(void* at) override {
    const std::lock_guard lock(mutex_);
    ASSERT_EQ(live_.count(at), 1u);
    std::free(live_[at]);
    live_.erase(at);
  }
  std::size_t live() const { return live_.size(); }
  void drop_all() {
    while (!live_.empty()) deallocate(live_.begin()->first);
  }
  int calls = 0, fail_at = -1, null_at = -1;

 private:
  std::mutex mutex_;
  std::map<void*, void*> live_;
};

memory_place on_gpu_3(const void*) noexcept { return {mem_kind::device, true, false, 3, nullptr}; }

struct payload_pool_test : testing::Test {
  std::unique_ptr<payload_pool> make(std::size_t limit, std::size_t payload = 1000) {
    return std::make_unique<payload_pool>(arena_, name_, memory_, payload, limit, &on_gpu_3);
  }
  std::vector<far_packet*> get_all(payload_pool& pool) {
    std::vector<far_packet*> all;
    while (far_packet* const p = pool.get()) all.push_back(p);
    return all;
  }
  packet* held(const void* at) { return packet_pool::held(arena_, const_cast<void*>(at)); }

  arena arena_{256 * MIB};
  packet_pool name_{arena_, 1024, 0};
  watched memory_;
};

TEST_F(payload_pool_test, nothing_is_allocated_before_it_is_needed) {
  const auto pool = make(10);
  EXPECT_EQ(memory_.calls, 0);
  EXPECT_EQ(pool->allocated(), 0u);
}

TEST_F(payload_pool_test, no_more_than_the_limit__apart_aligned_and_known_by_their_payload) {
  // Several slabs: 8192 payloads of 1024 bytes are 8 MiB.
  const auto pool = make(5000);
  const std::vector<far_packet*> all = get_all(*pool);
  EXPECT_EQ(all.size(), 5000u);
  EXPECT_EQ(pool->outstanding(), 5000u);
  EXPECT_EQ(memory_.calls, 3);
  std::set<std::uintptr_t> places;
  for (far_packet* const p : all) {
    const auto at = reinterpret_cast<std::uintptr_t>(p->data);
    ASSERT_EQ(at % payload_pool::ALIGNMENT, 0u);
    ASSERT_EQ(p->state.load(), packet_state::apart);
    ASSERT_EQ(p->place->device, 3);
    ASSERT_EQ(p->capacity, 1000u);
    ASSERT_TRUE(arena_.packet_window().covers(p->data));
    ASSERT_EQ(held(p->data), p);
    places.insert(at);
  }
  EXPECT_EQ(places.size(), 5000u);
  for (auto at = places.begin(); std::next(at) != places.end(); ++at)
    ASSERT_GE(*std::next(at) - *at, 1000u) << "payloads overlap";
  for (far_packet* const p : all) release_packet(arena_, p);
  EXPECT_EQ(pool->outstanding(), 0u);
  EXPECT_EQ(name_.misuses(), 0u);
}

TEST_F(payload_pool_test, a_pool_of_no_packets_is_always_empty) {
  const auto pool = make(0);
  EXPECT_EQ(pool->get(), nullptr);
  EXPECT_EQ(memory_.calls, 0);
}

TEST_F(payload_pool_test, what_comes_home_is_given_out_again) {
  const auto pool = make(2);
  far_packet* const one = pool->get();
  pool->get();
  EXPECT_EQ(pool->get(), nullptr);
  release_packet(arena_, one);
  EXPECT_EQ(held(one->data), nullptr) << "nobody owns it";
  EXPECT_EQ(pool->get(), one);
  for (far_packet* const p : {one, one + 1}) EXPECT_TRUE(pool->put(*p));
}

TEST_F(payload_pool_test, twice_is_refused) {
  const auto pool = make(2);
  far_packet* const one = pool->get();
  EXPECT_TRUE(pool->put(*one));
  EXPECT_FALSE(pool->put(*one));
  EXPECT_EQ(pool->outstanding(), 0u);
  EXPECT_EQ(get_all(*pool).size(), 2u) << "in the list once";
  for (far_packet* const p : {one, one + 1}) EXPECT_TRUE(pool->put(*p));
#ifndef LCI_DEBUG
  release_packet(arena_, one);
  EXPECT_EQ(name_.misuses(), 1u);
#endif
}

TEST_F(payload_pool_test, other_addresses_are_no_packets) {
  const auto pool = make(4);
  far_packet* const one = pool->get();
  const std::byte* const data = one->data;
  for (const std::ptrdiff_t off : {1, 64, 256, 1000, 1023, -1, -64})
    EXPECT_EQ(held(data + off), nullptr) << off;
  EXPECT_EQ(held(data + 1024), nullptr) << "the next one, which nobody has";
  EXPECT_EQ(held(data + 4 * 1024), nullptr) << "behind the last";
  EXPECT_EQ(held(one), nullptr) << "the header";
  EXPECT_EQ(held(one->payload()), nullptr) << "behind the header";
  EXPECT_NE(arena_.payloads().near(data + 1), nullptr);
  EXPECT_EQ(arena_.payloads().near(&one), nullptr);
  pool->put(*one);
}

TEST_F(payload_pool_test, several_pools_know_their_own) {
  const auto a = make(3), b = make(3, 5000);
  far_packet* const one = a->get();
  far_packet* const two = b->get();
  EXPECT_EQ(held(one->data), one);
  EXPECT_EQ(held(two->data), two);
  EXPECT_EQ(two->home, b.get());
  release_packet(arena_, two);
  release_packet(arena_, one);
  EXPECT_EQ(a->outstanding() + b->outstanding(), 0u);
}

TEST_F(payload_pool_test, an_allocator_that_throws_or_gives_nothing) {
  const auto pool = make(5000);
  memory_.fail_at = 2;
  memory_.null_at = 3;
  std::vector<far_packet*> all;
  const auto more = [&] {
    while (far_packet* const p = pool->get()) all.push_back(p);
  };
  EXPECT_TRUE(test::throws_with<std::runtime_error>(more, {"no memory in the test"}));
  EXPECT_EQ(all.size(), 2048u) << "the first slab";
  EXPECT_EQ(pool->allocated(), 2048u);
  EXPECT_THROW(more(), std::bad_alloc);
  EXPECT_EQ(all.size(), 2048u);
  more();
  EXPECT_EQ(all.size(), 5000u) << "as if nothing had been";
  for (far_packet* const p : all) pool->put(*p);
}

std::string no_such(const void*) { return "such memory is not handled"; }
TEST_F(payload_pool_test, memory_that_is_not_handled_is_refused_and_given_back) {
  static const memory_domain domain{"test",   "",      nullptr, nullptr, nullptr,
                                    &no_such, nullptr, nullptr, nullptr};
  payload_pool pool(arena_, name_, memory_, 100, 4, [](const void*) noexcept {
    return memory_place{mem_kind::device, false, false, 0, &domain};
  });
  EXPECT_TRUE(test::throws_with<argument_error>([&] { pool.get(); }, {"not handled"}));
  EXPECT_EQ(memory_.live(), 0u);
}

TEST_F(payload_pool_test, an_arena_that_is_full_leaves_no_slab_behind) {
  arena small(64 * MIB);
  packet_pool name(small, 1024, 0);
  payload_pool pool(small, name, memory_, 100, 4, &on_gpu_3);
  std::vector<void*> all;
  try {
    for (;;) all.push_back(small.allocate(MIB / 8));
  } catch (const std::exception&) {
  }
  try {
    for (;;) all.push_back(small.allocate(64));
  } catch (const std::exception&) {
  }
  EXPECT_ANY_THROW(pool.get());
  EXPECT_EQ(memory_.live(), 0u);
  EXPECT_EQ(pool.allocated(), 0u);
}

TEST_F(payload_pool_test, the_end_gives_all_back__but_slabs_that_are_in_use) {
  auto pool = make(3000);
  const std::vector<far_packet*> all = get_all(*pool);
  const std::byte* const data = all[0]->data;
  for (std::size_t i = 1; i < all.size(); ++i) pool->put(*all[i]);
  EXPECT_EQ(memory_.live(), 2u);
  pool.reset();
  EXPECT_EQ(memory_.live(), 1u) << "that of the packet which is not home";
  EXPECT_EQ(held(data), nullptr);
  memory_.drop_all();
}

TEST_F(payload_pool_test, operations_are_counted) {
  const auto pool = make(3);
  far_packet* const one = pool->get();
  far_packet* const two = pool->get();
  EXPECT_EQ(pool->in_operations(), 0u);
  pool->enter_operation(*one);
  pool->enter_operation(*one);
  pool->enter_operation(*two);
  EXPECT_EQ(pool->in_operations(), 2u);
  pool->leave_operation(*one);
  pool->leave_operation(*one);
  EXPECT_EQ(pool->in_operations(), 1u);
  pool->put(*two);
  EXPECT_EQ(pool->in_operations(), 0u) << "home is the end of it";
  pool->put(*one);
}

TEST_F(payload_pool_test, threads__one_owner_each) {
  const auto pool = make(3000, 2000);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<const far_packet*> owned;  // under mutex
  const auto is_new = [&](const far_packet* p) {
    const std::lock_guard lock(mutex);
    return owned.insert(p).second;
  };
  const auto forget = [&](const far_packet* p) {
    const std::lock_guard lock(mutex);
    return owned.erase(p) == 1;
  };
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<far_packet*> mine;
      for (int i = 0; i < 20000; ++i) {
        const bool wants = (i * 7 + t) % 11 < 6 || mine.empty();
        if (wants && mine.size() < 700) {
          if (far_packet* const p = pool->get()) {
            EXPECT_TRUE(is_new(p));
            EXPECT_EQ(held(p->data), p);
            mine.push_back(p);
          }
        } else {
          EXPECT_TRUE(forget(mine.back()));
          release_packet(arena_, mine.back());
          mine.pop_back();
        }
      }
      for (far_packet* const p : mine) {
        EXPECT_TRUE(forget(p));
        release_packet(arena_, p);
      }
    });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(pool->outstanding(), 0u);
  EXPECT_EQ(name_.misuses(), 0u);
}

}  // namespace
}  // namespace lci::mem
