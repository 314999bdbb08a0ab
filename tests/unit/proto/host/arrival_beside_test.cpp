// What a thread beside the device's poller may take, and what it must leave.
#include <gtest/gtest.h>

#include <cstdint>

#include "lci/net/wanted_by.hpp"
#include "lci/proto/host/arrival.hpp"
#include "tests/unit/proto/world.hpp"

using namespace lci::test;  // NOLINT: a test reads better without the prefix
namespace proto = lci::proto;
using lci::net::verdict;

namespace {

// A message of 8 bytes for rank 1, presented as if by such a thread.
struct beside {
  verdict present(std::uint32_t imm) {
    lci::net::arrival a;
    a.rank = 0;
    a.imm = imm;
    a.data = reinterpret_cast<const std::byte*>(&word);
    a.size = sizeof(word);
    proto::single_arrival sink(w[1].queues->host);
    return sink.on_message_beside(a);
  }
  verdict for_number(lci::rcomp_t rcomp, lci::tag_t tag = 0) {
    return present(w[1].core.imm.encode(rcomp, tag));
  }
  proto_world w;
  std::uint64_t word = 42;
};

}  // namespace

TEST(arrival_beside, active_message__is_delivered) {
  beside t;
  recorder receiver;
  const lci::rcomp_t rcomp = t.w[1].core.rcomps.add(&receiver);
  EXPECT_EQ(t.for_number(rcomp), verdict::taken);
  ASSERT_EQ(receiver.seen.size(), 1u);
  free(receiver.seen[0].buffer);
}

TEST(arrival_beside, message_for_a_receive__says_who_waits_for_it) {
  beside t;
  recorder done;
  std::uint64_t in = 0;
  lci::status_t got;
  ASSERT_EQ(t.w[1].receive(0, &in, sizeof(in), 5, &done, got), lci::errorcode_t::posted);
  lci::net::wanted_by::take();
  EXPECT_EQ(t.for_number(t.w[1].engine_rcomp(), 5), verdict::taken);
  EXPECT_EQ(in, 42u);
  EXPECT_EQ(lci::net::wanted_by::take(), lci::base::thread_id());
  EXPECT_EQ(lci::net::wanted_by::take(), lci::net::wanted_by::NOBODY);
}

TEST(arrival_beside, message_that_no_receive_waits_for__is_kept_and_wanted_by_nobody) {
  beside t;
  lci::net::wanted_by::take();
  EXPECT_EQ(t.for_number(t.w[1].engine_rcomp(), 5), verdict::taken);
  EXPECT_EQ(lci::net::wanted_by::take(), lci::net::wanted_by::NOBODY);
  recorder done;
  std::uint64_t in = 0;
  lci::status_t got;
  EXPECT_EQ(t.w[1].receive(0, &in, sizeof(in), 5, &done, got), lci::errorcode_t::done);
  EXPECT_EQ(in, 42u);
}

TEST(arrival_beside, request_of_the_protocols__is_left) {
  beside t;
  EXPECT_EQ(t.present(static_cast<std::uint32_t>(proto::wire::kind::rts) << 28), verdict::deferred);
  EXPECT_EQ(t.w[1].queues->engine().dropped.sum(), 0);
}

TEST(arrival_beside, while_others_wait_for_their_turn__is_left) {
  beside t;
  recorder receiver;
  const lci::rcomp_t rcomp = t.w[1].core.rcomps.add(&receiver);
  auto& waiting = t.w[1].queues->engine().handlers;
  ASSERT_TRUE(waiting.add(receiver, lci::status_t(lci::errorcode_t::done), false,
                          proto::news::notification));
  {
    const proto::handler_depth inside;  // as in a round of progress
    EXPECT_EQ(t.for_number(rcomp), verdict::deferred);
  }
  EXPECT_EQ(waiting.run(1), 1u);
  ASSERT_EQ(receiver.seen.size(), 1u);
  {
    const proto::handler_depth inside;
    EXPECT_EQ(t.for_number(rcomp), verdict::taken);
  }
  ASSERT_EQ(receiver.seen.size(), 2u);
  free(receiver.seen[1].buffer);
}

TEST(arrival_beside, an_allocator_of_the_program__may_give_memory_of_a_gpu__is_left) {
  beside t;
  struct own final : lci::allocator_base_t {
    void* allocate(std::size_t size) override { return malloc(size); }
    void deallocate(void* p) override { free(p); }
  } mine;
  recorder receiver;
  const lci::rcomp_t rcomp = t.w[1].core.rcomps.add(&receiver);
  t.w[1].core.allocator.store(&mine);
  EXPECT_EQ(t.for_number(rcomp), verdict::deferred);
}
