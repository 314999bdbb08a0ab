#include <thread>
#include <vector>

#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

TEST(groups_test, ring__parts_in_turn) {
  buffer_ring ring(buffer::create(1000), 3);
  EXPECT_EQ(ring.part_size(), 333u);
  EXPECT_EQ(ring.parts(), 3u);
  std::size_t index = 9;
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(ring.try_take(index));
    EXPECT_EQ(index, i);
  }
  EXPECT_FALSE(ring.try_take(index));
  EXPECT_EQ(ring.taken(), 3u);
  ring.give_back();
  ASSERT_TRUE(ring.try_take(index));
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(static_cast<char*>(ring.data(2)) - static_cast<char*>(ring.whole().data()), 666);
}

TEST(groups_test, ring__misuse) {
  EXPECT_THROW(buffer_ring(buffer::create(2), 3), argument_error);
  EXPECT_THROW(buffer_ring(buffer::create(2), 0), argument_error);
  EXPECT_THROW(buffer_ring(buffer(), 1), argument_error);
  buffer_ring ring(buffer::create(2), 2);
  EXPECT_THROW(ring.give_back(), argument_error);
  try {
    ring.data(2);
    ADD_FAILURE() << "there are two parts";
  } catch (const argument_error& e) {
    EXPECT_STREQ(e.what(), "buffer_ring: part 2 does not exist; there are 2");
  }
}

TEST(groups_test, pool__blocks_return_by_themselves_and_outlive_it) {
  buffer last;
  std::string handle;
  {
    buffer_pool pool(100, 2);
    EXPECT_EQ(pool.free_blocks(), 2u);
    buffer a = pool.try_take(), b = pool.try_take();
    EXPECT_NE(a.data(), b.data());
    EXPECT_FALSE(pool.try_take());
    handle = a.export_handle();
    {
      const buffer part = a.slice(10, 10);
      a = buffer();
      EXPECT_EQ(pool.free_blocks(), 0u);  // the part has it
    }
    EXPECT_EQ(pool.free_blocks(), 1u);
    EXPECT_EQ(fault_of([&] { buffer::import(handle); }), buffer_fault::stale);
    last = pool.try_take();
  }
  static_cast<char*>(last.data())[99] = 1;
}

TEST(groups_test, pool__what_this_process_imports_keeps_the_block) {
  buffer_pool pool(100, 2);
  buffer block = pool.try_take();
  buffer again = buffer::import(block.export_handle());
  EXPECT_EQ(again.data(), block.data());
  EXPECT_EQ(again.size(), 100u);
  buffer once_more = buffer::import(again.slice(1, 2).export_handle());
  block = buffer();
  EXPECT_EQ(pool.free_blocks(), 1u);
  {
    const buffer other = pool.try_take();
    EXPECT_NE(other.data(), again.data());
    EXPECT_FALSE(pool.try_take());
  }
  again = buffer();
  EXPECT_EQ(pool.free_blocks(), 1u);
  once_more = buffer();
  EXPECT_EQ(pool.free_blocks(), 2u);
}

TEST(groups_test, pool__misuse) {
  EXPECT_THROW(buffer_pool(0, 1), argument_error);
  EXPECT_THROW(buffer_pool(1, 0), argument_error);
  EXPECT_THROW(buffer_pool(~std::size_t{0}, 2), argument_error);
}

TEST(groups_test, pool__threads_take_and_give_back) {
  buffer_pool pool(64, 8);
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i) {
    all.emplace_back([&pool] {
      for (int round = 0; round < 2000; ++round) {
        buffer block = pool.try_take();
        if (!block) continue;
        ++*static_cast<int*>(block.data());
        if (round % 100 == 0) block.export_handle();
      }
    });
  }
  for (std::thread& each : all) each.join();
  EXPECT_EQ(pool.free_blocks(), 8u);
}

TEST(groups_test, copier__on_the_host_is_done_at_once) {
  buffer_copier copies(buffer::HOST);
  char from[4] = "abc", to[4] = "";
  EXPECT_EQ(copies.start(to, from, 4), 1u);
  EXPECT_STREQ(to, "abc");
  EXPECT_EQ(copies.ended(), 1u);
  copies.wait(1);
  EXPECT_THROW(copies.wait(2), argument_error);
  EXPECT_EQ(copies.start(to, from, 0), 2u);
  EXPECT_THROW(buffer_copier(99), backend_error);
}

}  // namespace
}  // namespace lci::share
