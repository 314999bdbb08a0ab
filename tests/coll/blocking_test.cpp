// The blocking form of every collective: all algorithms, all roots, sizes across the protocols, in
// place.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "tests/coll/data.hpp"

namespace lci::test {
namespace {

TEST(barrier, nobody_leaves_before_everybody_has_arrived) {
  // Rank by rank is late; a flag from the late one must be there when the barrier is over, since
  // the barrier's own messages follow it.
  static std::atomic<int> flags{0};
  comp_t handler = alloc_handler([](status_t message) {
    std::free(message.get_buffer());
    flags.fetch_add(1, std::memory_order_relaxed);
  });
  const rcomp_t remote = register_rcomp(handler);
  barrier();
  const int me = get_rank_me(), n = get_rank_n();
  for (int late = 0; late < n; ++late) {
    if (me == late) {
      for (int rank = 0; rank < n; ++rank) post_am(rank, nullptr, 0, COMP_NULL, remote);
    }
    barrier();
    // Messages of different keys may overtake each other, so the last ones may still be on the way.
    while (flags.load(std::memory_order_relaxed) < late + 1) progress();
    EXPECT_EQ(flags.load(std::memory_order_relaxed), late + 1);
    barrier();
  }
  flags = 0;
  deregister_rcomp(remote);
  free_comp(&handler);
}

TEST(barrier, works_many_times_in_a_row_and_with_network_semantic) {
  for (int i = 0; i < 200; ++i) barrier();
  for (int i = 0; i < 20; ++i) barrier_x().comp_semantic(comp_semantic_t::network)();
}

class broadcast_by : public testing::TestWithParam<broadcast_algorithm_t> {};
TEST_P(broadcast_by, from_every_root_in_every_size) {
  const int me = get_rank_me();
  for (int root = 0; root < get_rank_n(); ++root) {
    for (const size_t count : COUNTS) {
      for (const size_t cut :
           {size_t{0}, size_t{3}}) {  // also sizes that are no multiple of anything
        const auto expected = contribution(root, count);
        std::vector<uint64_t> buffer = me == root ? expected : std::vector<uint64_t>(count, 0);
        const size_t size = count * 8 > cut ? count * 8 - cut : 0;
        broadcast_x(buffer.data(), size, root).algorithm(GetParam())();
        EXPECT_TRUE(are_same(buffer.data(), expected.data(), size))
            << "root " << root << ", size " << size;
      }
    }
  }
}
TEST_P(broadcast_by, ring_steps_of_the_caller) {
  const auto expected = contribution(0, 5000);
  for (const int nsteps : {1, 2, 13, 400}) {
    std::vector<uint64_t> buffer = get_rank_me() == 0 ? expected : std::vector<uint64_t>(5000, 0);
    broadcast_x(buffer.data(), 5000 * 8, 0).algorithm(GetParam()).ring_nsteps(nsteps)();
    EXPECT_EQ(buffer, expected) << nsteps << " steps";
  }
}
INSTANTIATE_TEST_SUITE_P(algorithm, broadcast_by,
                         testing::Values(broadcast_algorithm_t::none, broadcast_algorithm_t::direct,
                                         broadcast_algorithm_t::tree, broadcast_algorithm_t::ring));

TEST(reduce, to_every_root_in_every_size) {
  const int me = get_rank_me();
  for (int root = 0; root < get_rank_n(); ++root) {
    for (const size_t count : COUNTS) {
      const auto in = contribution(me, count);
      const auto expected = sum_of_all(count);
      std::vector<uint64_t> out(count, 0);
      reduce(in.data(), me == root ? out.data() : nullptr, count, 8, add_u64, root);
      if (me == root) {
        EXPECT_EQ(out, expected) << "root " << root << ", count " << count;
      }
      EXPECT_EQ(in, contribution(me, count));
      auto both = in;
      reduce(both.data(), both.data(), count, 8, add_u64, root);
      EXPECT_EQ(both, me == root ? expected : in) << "in place, root " << root;
    }
  }
}

class allreduce_by : public testing::TestWithParam<allreduce_algorithm_t> {};
TEST_P(allreduce_by, in_every_size_apart_and_in_place) {
  for (const size_t count : COUNTS) {
    const auto in = contribution(get_rank_me(), count);
    const auto expected = sum_of_all(count);
    std::vector<uint64_t> out(count, 0);
    allreduce_x(in.data(), out.data(), count, 8, add_u64).algorithm(GetParam())();
    EXPECT_EQ(out, expected) << "count " << count;
    auto both = in;
    allreduce_x(both.data(), both.data(), count, 8, add_u64)
        .algorithm(GetParam())
        .ring_nsteps(11)();
    EXPECT_EQ(both, expected) << "in place, count " << count;
  }
}
INSTANTIATE_TEST_SUITE_P(algorithm, allreduce_by,
                         testing::Values(allreduce_algorithm_t::none, allreduce_algorithm_t::direct,
                                         allreduce_algorithm_t::tree, allreduce_algorithm_t::ring));

class reduce_scatter_by : public testing::TestWithParam<reduce_scatter_algorithm_t> {};
TEST_P(reduce_scatter_by, in_every_size_apart_and_into_the_own_block) {
  const size_t n = static_cast<size_t>(get_rank_n()), me = static_cast<size_t>(get_rank_me());
  for (const size_t block : {size_t{0}, size_t{1}, size_t{7}, size_t{1014}, size_t{9001}}) {
    auto in = contribution(get_rank_me(), block * n);
    const auto sum = sum_of_all(block * n);
    const std::vector<uint64_t> expected(sum.begin() + static_cast<ptrdiff_t>(me * block),
                                         sum.begin() + static_cast<ptrdiff_t>((me + 1) * block));
    std::vector<uint64_t> out(block, 0);
    reduce_scatter_x(in.data(), out.data(), block, 8, add_u64).algorithm(GetParam())();
    EXPECT_EQ(out, expected) << "block " << block;
    reduce_scatter_x(in.data(), in.data() + me * block, block, 8, add_u64)
        .algorithm(GetParam())
        .ring_nsteps(17)();
    EXPECT_TRUE(are_same(in.data() + me * block, expected.data(), block * 8))
        << "own block, block " << block;
  }
}
INSTANTIATE_TEST_SUITE_P(algorithm, reduce_scatter_by,
                         testing::Values(reduce_scatter_algorithm_t::none,
                                         reduce_scatter_algorithm_t::direct,
                                         reduce_scatter_algorithm_t::tree,
                                         reduce_scatter_algorithm_t::ring));

TEST(allgather, in_every_size_apart_and_in_place) {
  const size_t n = static_cast<size_t>(get_rank_n()), me = static_cast<size_t>(get_rank_me());
  for (const size_t count : COUNTS) {
    std::vector<uint64_t> expected;
    for (int rank = 0; rank < get_rank_n(); ++rank) {
      const auto theirs = contribution(rank, count);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    const auto in = contribution(get_rank_me(), count);
    std::vector<uint64_t> out(count * n, 0);
    allgather(in.data(), out.data(), count * 8);
    EXPECT_EQ(out, expected) << "count " << count;
    std::vector<uint64_t> both(count * n, 0);
    std::copy(in.begin(), in.end(), both.begin() + static_cast<ptrdiff_t>(me * count));
    allgather(both.data() + me * count, both.data(), count * 8);
    EXPECT_EQ(both, expected) << "in place, count " << count;
  }
}

TEST(alltoall, in_every_size) {
  const size_t n = static_cast<size_t>(get_rank_n()), me = static_cast<size_t>(get_rank_me());
  for (const size_t count : COUNTS) {
    const auto in = contribution(get_rank_me(), count * n);
    std::vector<uint64_t> out(count * n, 0), expected;
    for (int rank = 0; rank < get_rank_n(); ++rank) {
      for (size_t i = 0; i < count; ++i) expected.push_back(item_of(rank, me * count + i));
    }
    alltoall(in.data(), out.data(), count * 8);
    EXPECT_EQ(out, expected) << "count " << count;
  }
}

}  // namespace
}  // namespace lci::test
