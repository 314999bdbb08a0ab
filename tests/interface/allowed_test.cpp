// What the caller may rule out: combinations that leave no answer, and posts that may not be
// refused however full everything is.
#include <algorithm>

#include "world.hpp"

namespace interface_test {
namespace {

TEST(allowed, neither_done_nor_posted__throws_and_posts_nothing) {
  inbox box;
  owned_comp cq(lci::alloc_cq());
  char byte = 1;
  const auto am = lci::post_am_x(world().next(), &byte, 1, cq, box.rcomp()).device(world().device);
  EXPECT_THROW(lci::post_am_x(am).allow_done(false).allow_posted(false)(), lci::argument_error);
  // The null objects imply allow_posted(false).
  EXPECT_THROW(lci::post_am_x(am).local_comp(lci::COMP_NULL).allow_done(false)(),
               lci::argument_error);
  EXPECT_THROW(lci::post_recv_x(world().next(), &byte, 1, 1, lci::COMP_NULL_RETRY)
                   .device(world().device)
                   .allow_done(false)(),
               lci::argument_error);
  EXPECT_TRUE(stays_empty(box.cq()));
}

// Many more messages than any queue holds, with nobody taking them out meanwhile.
TEST(allowed, retry_false__accepts_more_than_the_network_holds_and_keeps_order) {
  constexpr int COUNT = 3000;
  inbox box;
  owned_comp cq(lci::alloc_counter());
  int posted = 0;
  for (int i = 0; i < COUNT; ++i) {
    int value = i;
    const lci::status_t status =
        lci::post_am_x(world().next(), &value, sizeof value, cq, box.rcomp())
            .device(world().device)
            .allow_retry(false)();
    ASSERT_FALSE(status.is_retry()) << "message " << i;
    posted += status.is_posted() ? 1 : 0;
  }
  std::vector<int> arrived;
  wait_until([&] {
    for (lci::status_t s = lci::cq_pop(box.cq()); s.is_done(); s = lci::cq_pop(box.cq())) {
      arrived.push_back(*static_cast<int*>(s.buffer));
      std::free(s.buffer);
    }
    return arrived.size() == COUNT && lci::counter_get(cq) == posted;
  });
  EXPECT_TRUE(stays_empty(box.cq()));
  std::sort(arrived.begin(), arrived.end());
  for (int i = 0; i < COUNT; ++i) ASSERT_EQ(arrived[static_cast<std::size_t>(i)], i);
}

// While the library still holds messages for a rank, a post that may be refused must not overtake
// them.
TEST(allowed, retry_true__does_not_overtake_the_backlog) {
  constexpr int COUNT = 3000;
  owned_comp counter(lci::alloc_counter());
  for (int i = 0; i < COUNT; ++i) {
    int value = i;
    lci::post_send_x op(world().next(), &value, sizeof value, 5, counter);
    op.device(world().device).allow_retry(i % 2 == 0);
    const lci::status_t status = i % 2 == 0 ? insist(op) : op();
    ASSERT_FALSE(status.is_retry());
  }
  for (int i = 0; i < COUNT; ++i) {
    int value = -1;
    lci::post_recv_x(world().previous(), &value, sizeof value, 5, lci::COMP_NULL)
        .device(world().device)();
    ASSERT_EQ(value, i) << "send/recv of one key are first in, first out";
  }
}

// A refused post leaves no trace: everything that was accepted arrives once, nothing else does.
TEST(allowed, retry__means_that_nothing_happened) {
  constexpr int COUNT = 2000;
  inbox box;
  std::vector<char> data = pattern(512, 9);
  for (int accepted = 0; accepted < COUNT;) {
    const lci::status_t status =
        lci::post_am_x(world().next(), data.data(), data.size(), lci::COMP_NULL_RETRY, box.rcomp())
            .device(world().device)();
    accepted += status.is_done() ? 1 : 0;
    if (status.is_retry()) progress();
  }
  int arrived = 0;
  wait_until([&] {
    for (lci::status_t s = lci::cq_pop(box.cq()); s.is_done(); s = lci::cq_pop(box.cq())) {
      EXPECT_EQ(difference(s.buffer, s.size, 9), "");
      std::free(s.buffer);
      ++arrived;
    }
    return arrived >= COUNT;
  });
  EXPECT_TRUE(stays_empty(box.cq()));
  EXPECT_EQ(arrived, COUNT);
}

TEST(allowed, drained__is_false_with_an_open_receive_and_true_after_it) {
  char in = 0, out = 42;
  owned_comp cq(lci::alloc_cq());
  EXPECT_TRUE(
      lci::post_recv_x(world().previous(), &in, 1, 3, cq).device(world().device)().is_posted());
  EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_retry());
  barrier();
  lci::post_send_x(world().next(), &out, 1, 3, lci::COMP_NULL).device(world().device)();
  lci::wait_drained_x().device(world().device)();
  EXPECT_EQ(in, 42);
  EXPECT_TRUE(lci::test_drained_x().device(world().device)().is_done());
  EXPECT_TRUE(lci::cq_pop(cq).is_done());
}

// Programs do not expect retry of a receive that has an object. The message is sent by a handler
// that runs inside the call, behind more messages than one round of progress takes.
TEST(allowed, posted_false__a_receive_waits_for_its_message) {
  static lci::rcomp_t hop;
  static int left;
  left = 100;
  lci::comp_t handler = lci::alloc_handler([](lci::status_t status) {
    std::free(status.buffer);
    char out = 42;
    if (--left != 0)
      lci::post_am_x(world().rank, &out, 1, lci::COMP_NULL_RETRY, hop)
          .device(world().device)
          .allow_retry(false)();
    else
      lci::post_send_x(world().rank, &out, 1, 8, lci::COMP_NULL_RETRY)
          .device(world().device)
          .allow_retry(false)();
  });
  hop = lci::register_rcomp(handler);
  owned_comp cq(lci::alloc_cq());
  char in = 0;
  insist(lci::post_am_x(world().rank, &in, 1, lci::COMP_NULL_RETRY, hop).device(world().device));
  const lci::status_t got =
      lci::post_recv_x(world().rank, &in, 1, 8, cq).device(world().device).allow_posted(false)();
  EXPECT_TRUE(got.is_done()) << got.error.get_str();
  EXPECT_EQ(in, 42);
  EXPECT_TRUE(stays_empty(cq));
  wait_until([] { return left == 0; });
  barrier();
  lci::deregister_rcomp(hop);
  lci::free_comp(&handler);
}

TEST(allowed, post_comm__stands_for_each_operation) {
  inbox box;
  window memory(64);
  char out = 7, in = 0;
  const auto comm = [&](lci::direction_t direction, int rank, char* buffer) {
    return lci::post_comm_x(direction, rank, buffer, 1, lci::COMP_NULL).device(world().device);
  };
  const lci::rmr_t key = memory.rmr(world().next());
  EXPECT_TRUE(comm(lci::direction_t::OUT, world().next(), &out).tag(3)().is_done());
  EXPECT_TRUE(comm(lci::direction_t::IN, world().previous(), &in).tag(3)().is_done());
  EXPECT_EQ(in, 7);
  EXPECT_TRUE(
      comm(lci::direction_t::OUT, world().next(), &out).remote_comp(box.rcomp())().is_done());
  std::free(pop(box.cq()).buffer);
  EXPECT_TRUE(
      comm(lci::direction_t::OUT, world().next(), &out).rmr(key).remote_disp(5)().is_done());
  wait_until([&] { return memory.bytes()[5] == 7; });
  EXPECT_TRUE(comm(lci::direction_t::OUT, world().next(), &out)
                  .rmr(key)
                  .remote_disp(6)
                  .remote_comp(box.rcomp())()
                  .is_done());
  EXPECT_EQ(pop(box.cq()).rank, world().previous());
  EXPECT_EQ(memory.bytes()[6], 7);
  barrier();
  in = 0;
  EXPECT_TRUE(comm(lci::direction_t::IN, world().next(), &in).rmr(key).remote_disp(6)().is_done());
  EXPECT_EQ(in, 7);
  EXPECT_THROW(comm(lci::direction_t::IN, world().next(), &in).rmr(key).remote_comp(box.rcomp())(),
               lci::argument_error);
  EXPECT_THROW(comm(lci::direction_t::IN, world().next(), &in).remote_comp(box.rcomp())(),
               lci::argument_error);
}

}  // namespace
}  // namespace interface_test
