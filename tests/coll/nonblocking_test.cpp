// The non-blocking form: it returns after starting, and signals its object once, when it is over.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/coll/data.hpp"

namespace lci::test {
namespace {

void expect_done(const status_t& status) {
  EXPECT_TRUE(status.is_done());
  EXPECT_EQ(status.get_rank(), -1);
  EXPECT_EQ(status.get_user_context(), nullptr);
}

TEST(nonblocking, barrier_signals_only_when_all_have_started_it) {
  const int me = get_rank_me(), n = get_rank_n();
  comp_t sync = alloc_sync();
  for (int late = 0; late < n; ++late) {
    status_t status;
    if (me != late) {
      barrier_x().comp(sync)();
      // The late rank starts its barrier after a message from every other one, so none can be over.
      for (int i = 0; i < 50; ++i) progress();
      EXPECT_EQ(sync_test(sync, &status), false || n == 1);
      post_send(late, nullptr, 0, 77, COMP_NULL);
    } else {
      for (int rank = 0; rank < n; ++rank) {
        if (rank != me) post_recv(rank, nullptr, 0, 77, COMP_NULL);
      }
      barrier_x().comp(sync)();
    }
    sync_wait(sync, &status);
    expect_done(status);
    barrier();
  }
  free_comp(&sync);
}

TEST(nonblocking, every_collective_signals_once_with_the_result_there) {
  const size_t n = static_cast<size_t>(get_rank_n()), me = static_cast<size_t>(get_rank_me());
  for (const size_t count : {size_t{0}, size_t{5}, size_t{12800}}) {
    comp_t queue = alloc_cq();
    std::vector<uint64_t> everywhere =
        me == 0 ? contribution(0, count) : std::vector<uint64_t>(count);
    const auto in = contribution(get_rank_me(), count * n);
    std::vector<uint64_t> all(count * n), block(count), exchanged(count * n);
    broadcast_x(everywhere.data(), count * 8, 0).comp(queue)();
    allreduce_x(in.data(), all.data(), count * n, 8, add_u64).comp(queue)();
    reduce_scatter_x(in.data(), block.data(), count, 8, add_u64).comp(queue)();
    alltoall_x(in.data(), exchanged.data(), count * 8).comp(queue)();
    barrier_x().comp(queue)();
    for (int signals = 0; signals < 5;) {
      const status_t status = cq_pop(queue);
      if (status.is_done()) {
        expect_done(status);
        ++signals;
      }
      progress();
    }
    const auto sum = sum_of_all(count * n);
    EXPECT_EQ(everywhere, contribution(0, count));
    EXPECT_EQ(all, sum);
    EXPECT_TRUE(are_same(block.data(), sum.data() + me * count, count * 8));
    for (size_t i = 0; i < exchanged.size(); ++i) {
      EXPECT_EQ(exchanged[i], item_of(static_cast<int>(i / count), me * count + i % count));
    }
    barrier();
    while (progress().is_done()) {
    }
    EXPECT_TRUE(cq_pop(queue).is_retry()) << "signalled more than once";
    free_comp(&queue);
  }
}

class many_in_flight : public testing::TestWithParam<allreduce_algorithm_t> {};
TEST_P(many_in_flight, do_not_take_each_others_messages) {
  constexpr int MANY = 64;
  constexpr size_t COUNT = 300;
  std::vector<std::vector<uint64_t>> in, out(MANY, std::vector<uint64_t>(COUNT));
  comp_t counter = alloc_counter();
  for (uint64_t i = 0; i < MANY; ++i) in.push_back(contribution(get_rank_me(), COUNT, i));
  for (size_t i = 0; i < MANY; ++i) {
    allreduce_x(in[i].data(), out[i].data(), COUNT, 8, add_u64)
        .algorithm(GetParam())
        .comp(counter)();
  }
  while (counter_get(counter) < MANY) progress();
  for (size_t i = 0; i < MANY; ++i) EXPECT_EQ(out[i], sum_of_all(COUNT, i)) << "number " << i;
  free_comp(&counter);
}
INSTANTIATE_TEST_SUITE_P(algorithm, many_in_flight,
                         testing::Values(allreduce_algorithm_t::direct, allreduce_algorithm_t::tree,
                                         allreduce_algorithm_t::ring));

// Reconverse does this: a counter that is there for other things too.
TEST(nonblocking, barrier_on_a_counter_while_blocking_collectives_run) {
  comp_t counter = alloc_counter();
  for (int i = 1; i <= 50; ++i) {
    barrier_x().comp(counter)();
    uint64_t mine = static_cast<uint64_t>(get_rank_me()), sum = 0;
    allreduce(&mine, &sum, 1, 8, add_u64);
    while (counter_get(counter) < i) progress();
  }
  EXPECT_EQ(counter_get(counter), 50);
  free_comp(&counter);
}

}  // namespace
}  // namespace lci::test
