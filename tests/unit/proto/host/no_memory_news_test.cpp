// The same for what goes wrong besides: queues, errors, deaths, and the raw network.
#include <cstring>

#include "lci/comp/queue.hpp"
#include "lci/proto/host/raw.hpp"
#include "tests/unit/proto/no_memory_world.hpp"

using namespace lci::test;             // NOLINT: a test reads better without the prefix
using namespace lci::test::no_memory;  // NOLINT: likewise
namespace net = lci::net;
namespace proto = lci::proto;

namespace {

using lci::errorcode_t;
using lci::rcomp_t;
using lci::status_t;

TEST(no_memory, queue_that_cannot_grow__gets_it_later) {
  constexpr int COUNT = 40;
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    lci::comp_attr_t small;
    small.cq_type = lci::attr_cq_type_t::array_atomic;
    small.cq_default_length = 1;
    lci::comp::queue queue(small);
    const rcomp_t number = w[1].core.rcomps.add(&queue);
    std::uint64_t word = 7;
    int popped = 0;
    const fail_nth_new failing(n);
    for (int i = 0; i < COUNT; ++i) w.send(0, &word, sizeof(word), number, nullptr);
    w.until([&] {
      for (status_t got = queue.pop(); got.is_done(); got = queue.pop()) {
        lci::g_allocator_default.deallocate(got.buffer);
        ++popped;
      }
      return popped == COUNT;
    });
    EXPECT_TRUE(w.thrown.empty());
    return failing.fired();
  });
}

// It stays what who drains waits for.
TEST(no_memory, queue_that_cannot_grow_again__is_still_owed_a_completion) {
  ranks w;
  lci::comp_attr_t small;
  small.cq_type = lci::attr_cq_type_t::array_atomic;
  small.cq_default_length = 1;
  lci::comp::queue queue(small);
  proto::device_queues& queues = *w[0].queues;
  status_t status;
  status.set_done();
  int failures = 0;
  const auto fails = [&](const auto& action) {
    const fail_nth_new failing(1);
    action();
    failures += failing.fired();
  };
  int signals = 0;
  while (failures == 0 && signals < 1000) {
    fails(
        [&] { queues.engine().signals.signal_now(&queue, status, proto::news::operation, true); });
    ++signals;
  }
  ASSERT_EQ(failures, 1);
  EXPECT_EQ(queues.engine().handlers.completions(), 1u);
  fails([&] { queues.engine().handlers.run(1); });
  ASSERT_EQ(failures, 2);
  EXPECT_EQ(queues.engine().handlers.completions(), 1u);
  EXPECT_FALSE(queues.is_drained());
  EXPECT_EQ(queues.engine().handlers.run(1), 1u);
  EXPECT_TRUE(queues.is_drained());
  int popped = 0;
  while (queue.pop().is_done()) ++popped;
  EXPECT_EQ(popped, signals);
}

TEST(no_memory, message_for_nobody__is_told) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    std::uint64_t word = 7;
    const fail_nth_new failing(n);
    w.send(0, &word, sizeof(word), 99, nullptr);
    w.until([&] { return !w.thrown.empty(); });
    EXPECT_EQ(w.thrown.size(), 1u);
    w.count_thrown<lci::argument_error>();
    return failing.fired();
  });
}

TEST(no_memory, receive_that_is_too_small__ends) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    std::vector<std::byte> from = pattern(64), to(8);
    counting got;
    status_t at_once;
    ranks::again([&] { return w[1].receive(0, to.data(), to.size(), TAG, &got, at_once); });
    const fail_nth_new failing(n);
    w.send(0, from.data(), from.size(), w[1].engine_rcomp(), nullptr);
    w.until([&] { return !w.thrown.empty() && w.is_quiet(); });
    EXPECT_EQ(w.thrown.size(), 1u);
    w.count_thrown<lci::truncation_error>();
    return failing.fired();
  });
}

// More than there was room for.
TEST(no_memory, many_problems_at_once__are_told_or_stand_for_others) {
  constexpr int COUNT = 40;
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    const fail_nth_new failing(n);
    for (int i = 0; i < COUNT; ++i)
      w[1].queues->engine().errors.keep_made([] { return lci::argument_error("one"); });
    w.until([&] { return w.thrown.size() >= COUNT - 1u; });
    w.step(10);
    EXPECT_EQ(w.thrown.size(), COUNT + 0u);
    EXPECT_GE(w.count_thrown<lci::argument_error>(), COUNT - 1u);
    return failing.fired();
  });
}

TEST(no_memory, death__is_told_once_and_ends_what_was_under_way) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    std::vector<std::byte> to(8), large = pattern(LARGE);
    std::uint64_t word = 7;
    counting got;
    status_t at_once;
    w[0].receive(1, to.data(), to.size(), TAG, &got, at_once);
    w.send(0, &word, sizeof(word), w[1].engine_rcomp(), nullptr);
    w.send(0, large.data(), large.size(), w[1].engine_rcomp(), &got);
    w.step(3);
    w.sim.kill(1);
    const fail_nth_new failing(n);
    w.until([&] { return !w.thrown.empty() && w.nodes[0]->queues->is_drained(); });
    w.step(10);
    EXPECT_EQ(w.count_thrown<lci::peer_failure_error>(), 1u);
    EXPECT_EQ(w.thrown.size(), 1u);
    EXPECT_EQ(got.count, 0);
    return failing.fired();
  });
}

TEST(no_memory, raw_network__reports_everything_once) {
  for_each_allocation([](std::uint64_t n) {
    ranks w;
    proto::raw_net a(w[0].queues->engine());
    proto::raw_net b(w[1].queues->engine());
    std::uint64_t word = 7, into = 0, target = 0;
    const net::remote_key key = w[1].expose(&target, sizeof(target));
    bool is_sent = false, is_put = false, is_posted = false;
    int sent = 0, received = 0, written = 0, lost = 0;
    const fail_nth_new failing(n);
    const auto post = [&](errorcode_t (net::endpoint::*verb)(const net::net_op&), bool& is_over) {
      if (is_over) return;
      proto::raw_net::record* const r =
          ranks::again([&] { return a.make_record(lci::net_opcode_t::SEND, 1, nullptr); });
      net::net_op op;
      op.rank = 1;
      op.buffer = &word;
      op.size = sizeof(word);
      op.remote = key;
      op.imm = 3;
      op.context = r;
      const errorcode_t code = (w[0].queue->end().*verb)(op);
      is_over = !proto::is_retry(code);
      if (code == errorcode_t::done) a.complete(r);
      if (!is_over) a.drop(r);
    };
    const auto poll = [&](proto::raw_net& of) {
      lci::net_status_t out[4];
      try {
        const std::size_t found = of.poll(4, out);
        for (std::size_t i = 0; i < found; ++i) {
          sent += out[i].opcode == lci::net_opcode_t::SEND;
          received += out[i].opcode == lci::net_opcode_t::RECV;
          written += out[i].opcode == lci::net_opcode_t::REMOTE_WRITE;
        }
      } catch (const std::bad_alloc&) {
        ++lost;
      }
    };
    for (int rounds = 0; rounds < ROUNDS && sent + received + written + lost < 4; ++rounds) {
      if (!is_posted) ranks::again([&] { b.post_recv(&into, sizeof(into), nullptr); });
      is_posted = true;
      post(&net::endpoint::send, is_sent);
      post(&net::endpoint::put_imm, is_put);
      poll(a);
      poll(b);
    }
    EXPECT_EQ(sent, 2);
    EXPECT_EQ(received, 1);
    EXPECT_EQ(written + lost, 1);
    EXPECT_EQ(into, word);
    return failing.fired();
  });
}

}  // namespace
