#include "lci/wqe/send_queue.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/wqe/consumer.hpp"

namespace {

using namespace lci::test;
using namespace lci::wqe;

constexpr std::uint32_t QPN = 0x123;

class send_queue_test : public testing::Test {
 protected:
  void make(std::uint32_t blocks, std::uint64_t first = 0, doorbell_form form = {}) {
    world = std::make_unique<small_world>(blocks, QPN, form);
    ASSERT_EQ(prepare(world->queue, first), status::ok);
  }
  send_queue& queue() { return world->queue; }
  send_queue_state& state() { return world->state; }
  std::uint32_t record() { return be32(world->record[SEND_RECORD]); }

  status post_one(std::uint32_t thread = 0, std::uint32_t count = 0, std::uint32_t length = 8,
                  bool signaled = false) {
    unsigned char payload[MOST_INLINE] = {};
    const numbered n{thread, count};
    std::memcpy(payload, &n, sizeof(n));
    send_request r;
    r.op = opcode::rdma_write_imm;
    r.imm = length;
    r.inline_data = payload;
    r.inline_length = length;
    r.signaled = signaled;
    return post(queue(), r, &end);
  }

  std::unique_ptr<small_world> world;
  std::uint64_t end = 0;
  own_turn turn;
};

TEST_F(send_queue_test, check__what_cannot_work_is_refused) {
  make(64);
  send_queue q = queue();
  q.cq.count = 32;
  EXPECT_EQ(prepare(q), status::too_few_completions);
  q = queue();
  q.ring.blocks = 48;
  EXPECT_EQ(prepare(q), status::bad_ring);
  q.ring.blocks = 65536;
  q.cq.count = 65536;
  EXPECT_EQ(prepare(q), status::bad_ring);
  q = queue();
  q.cq.entry_size = 32;
  EXPECT_EQ(prepare(q), status::bad_cqe_size);
  q = queue();
  q.qpn = MAX_QPN + 1;
  EXPECT_EQ(prepare(q), status::bad_qpn);
  q = queue();
  q.bell.form = static_cast<doorbell_form>(4);
  EXPECT_EQ(prepare(q), status::bad_doorbell_form);
  q = queue();
  q.batch = 0;
  EXPECT_EQ(prepare(q), status::bad_batch);
}

TEST_F(send_queue_test, post__refused_requests_reserve_nothing) {
  make(64);
  EXPECT_EQ(post_one(0, 0, 100), status::inline_too_long);
  EXPECT_EQ(state().reserved, 0u);
  queue().limits.max_inline = MOST_INLINE;
  EXPECT_EQ(post_one(0, 0, 100), status::ok);
  EXPECT_EQ(end, 3u);
  EXPECT_EQ(record(), 3u);
}

// With another reservation behind it a thread does not ring; a thread that waits does.
TEST_F(send_queue_test, ring_if_last__left_to_later_reservations_but_never_forgotten) {
  make(64);
  ASSERT_EQ(post_one(), status::ok);
  EXPECT_EQ(record(), 1u);
  queue().batch = 1u << 20;
  state().reserved = 3;  // block 1 is ours, block 2 another thread's, not yet published
  EXPECT_EQ(publish(queue(), 1, 1, 1, &turn), status::ok);
  EXPECT_EQ(ring_if_last(queue(), 1, 2, turn), status::ok);
  EXPECT_EQ(record(), 1u);
  EXPECT_FALSE(is_rung(queue(), 2));
  waiter wait({});
  EXPECT_EQ(wait_a_round(queue(), wait), status::ok);
  EXPECT_EQ(record(), 2u);
}

TEST_F(send_queue_test, ring_if_last__a_batch_is_rung_in_any_case) {
  make(64);
  queue().batch = 4;
  state().reserved = 10;
  state().published = 3 << PUBLISHED_SHIFT;
  ASSERT_EQ(publish(queue(), 3, 1, 1, &turn), status::ok);
  ASSERT_EQ(ring_if_last(queue(), 3, 4, turn), status::ok);
  EXPECT_EQ(record(), 4u);
  ASSERT_EQ(publish(queue(), 4, 1, 1, &turn), status::ok);
  ASSERT_EQ(ring_if_last(queue(), 4, 5, turn), status::ok);
  EXPECT_EQ(record(), 4u);
}

TEST_F(send_queue_test, try_ring__only_if_more_is_published_than_was_rung) {
  make(64);
  ASSERT_EQ(post_one(), status::ok);
  world->record[SEND_RECORD] = 0xdead;
  try_ring(queue());
  EXPECT_EQ(world->record[SEND_RECORD], 0xdeadu);
  state().rung = 7;  // somebody was later and faster
  ASSERT_EQ(post_one(), status::ok);
  EXPECT_EQ(world->record[SEND_RECORD], 0xdeadu);
}

TEST_F(send_queue_test, post__a_full_ring_waits_and_ends_at_the_limit_with_nothing_lost) {
  make(4);
  queue().waits.limit_ns = 1;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post_one(), status::ok);
  EXPECT_EQ(post_one(), status::timed_out);
  EXPECT_EQ(ended_by(queue()), status::timed_out);
  EXPECT_EQ(record(), 4u);
  EXPECT_EQ(post_one(), status::dead);
  EXPECT_EQ(flush(queue()), status::dead);
  EXPECT_EQ(wait_until_done(queue(), 4), status::timed_out);
}

TEST_F(send_queue_test, post__the_abort_flag_ends_every_wait) {
  make(4);
  std::uint32_t abort = 0;
  queue().waits.abort = &abort;
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post_one(), status::ok);
  std::vector<std::thread> threads;
  status found[3] = {};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      send_request nop;
      std::uint64_t mine = 0;
      found[t] = t == 0 ? wait_until_done(queue(), 4) : post(queue(), nop, &mine);
    });
  }
  // All of them wait now, or will: the ring is full and there is no card.
  word_at<std::uint32_t>(&abort).store(1, std::memory_order_relaxed);
  for (std::thread& t : threads) t.join();
  for (status s : found) EXPECT_TRUE(s == status::aborted || s == status::dead) << text_of(s);
  EXPECT_EQ(found[0], status::aborted);
}

// The barrier of one that has its turn before it covers what came with the turn; of one that comes
// to its turn behind the barrier it does not.
TEST_F(send_queue_test, publish__covered_by_its_barrier_only_in_turn) {
  make(64);
  state().reserved = 5;
  ASSERT_EQ(publish(queue(), 0, 2, 1, &turn), status::ok);
  EXPECT_TRUE(turn.is_mine);
  EXPECT_EQ(state().published, 2u << PUBLISHED_SHIFT | 1);
  EXPECT_FALSE(has_turn(queue(), 3));
  queue().waits.limit_ns = 1;
  EXPECT_EQ(publish(queue(), 3, 1, 1, &turn), status::timed_out);
  EXPECT_FALSE(turn.is_mine);
  EXPECT_EQ(state().published, 2u << PUBLISHED_SHIFT | 1);
}

// The last in the queue rings a mailbox itself, behind the barrier of its requests.
TEST_F(send_queue_test, publish__the_last_one_takes_the_bell_of_a_mailbox) {
  make(64, 0, doorbell_form::mailbox);
  state().reserved = 2;
  ASSERT_EQ(publish(queue(), 0, 2, 1, &turn), status::ok);
  EXPECT_TRUE(turn.has_bell);
  EXPECT_EQ(state().bell_lock, 1u);
  ASSERT_EQ(ring_if_last(queue(), 0, 2, turn), status::ok);
  EXPECT_EQ(state().rung, 2u);
  EXPECT_EQ(world->target[0], 2u);
  EXPECT_EQ(state().bell_lock, 0u);
  // Another one is behind it, and will ring.
  state().reserved = 4;
  EXPECT_FALSE(find_turn(queue(), 2, 3).has_bell);
  EXPECT_TRUE(find_turn(queue(), 2, 3).is_mine);
  // Another one has the bell: it is waited for as ever.
  state().bell_lock = 1;
  EXPECT_FALSE(find_turn(queue(), 2, 4).has_bell);
  EXPECT_EQ(state().bell_lock, 1u);
  state().bell_lock = 0;
  // Not in turn: what is before it may not be there.
  EXPECT_FALSE(find_turn(queue(), 3, 4).has_bell);
  EXPECT_EQ(state().bell_lock, 0u);
}
TEST_F(send_queue_test, publish__other_bells_are_not_taken) {
  make(64);
  state().reserved = 1;
  ASSERT_EQ(publish(queue(), 0, 1, 1, &turn), status::ok);
  EXPECT_TRUE(turn.is_mine);
  EXPECT_FALSE(turn.has_bell);
  EXPECT_EQ(state().bell_lock, 0u);
}

// A reservation that is never published would hold up all behind it.
TEST_F(send_queue_test, publish__a_hole_ends_the_queue) {
  make(64);
  state().reserved = 1;  // a thread that died
  queue().waits.limit_ns = 1;
  EXPECT_EQ(post_one(), status::timed_out);
  EXPECT_EQ(ended_by(queue()), status::timed_out);
  EXPECT_EQ(record(), 0u);
}

TEST_F(send_queue_test, drain__an_error_ends_the_queue_with_what_the_card_said) {
  make(64);
  ASSERT_EQ(post_one(), status::ok);
  ASSERT_EQ(post_one(), status::ok);
  world->write_error(0, syndrome::remote_access, 0x88);
  world->write_error(1, syndrome::flushed, 0xf9);
  EXPECT_EQ(wait_until_done(queue(), end), status::failed);
  EXPECT_EQ(ended_by(queue()), status::failed);
  EXPECT_EQ(state().error.error, syndrome::remote_access);  // the first one, not the flush
  EXPECT_EQ(state().error.vendor_error, 0x88);
  EXPECT_EQ(state().error.wqe_counter, 0);
  EXPECT_EQ(post_one(), status::dead);
}

// A free block is a request that may come, and it may complete: its entry must be free before. Here
// the two words have one place, so what was stored last is what stays.
TEST_F(send_queue_test, drain__entries_are_given_back_before_blocks_are_free) {
  make(4);
  queue().cq.record = reinterpret_cast<std::uint32_t*>(&state().done);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(post_one(), status::ok);
    write_entry(queue(), i, cqe_opcode::request, i, 0);
  }
  EXPECT_TRUE(drain(queue()));
  EXPECT_EQ(word_at<std::uint64_t>(&state().done).load(std::memory_order_relaxed), 4u);
}

// Threads against a card that takes nothing on trust.
void many_producers(std::uint32_t blocks, std::uint64_t first, doorbell_form form,
                    std::uint32_t each) {
  constexpr std::uint32_t THREADS = 4;
  small_world world(blocks, QPN, form);
  world.queue.limits.max_inline = blocks >= 4 ? 92 : 28;
  ASSERT_EQ(prepare(world.queue, first), status::ok);
  world.record[SEND_RECORD] = work_record(first);
  numbered_requests found(THREADS);
  std::uint64_t wrong = 0;
  std::thread card([&] {
    consumer c(world.queue, first);
    c.consume_until(
        [&] { return found.seen == std::uint64_t{THREADS} * each; },
        [&](const octoword* wqe, std::uint32_t octowords) { found.look(wqe, octowords); });
    wrong = c.wrong();
  });
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < THREADS; ++t)
    threads.emplace_back([&, t] { ASSERT_EQ(post_numbered(world.queue, t, each), status::ok); });
  for (std::thread& t : threads) t.join();
  card.join();
  EXPECT_EQ(wrong + found.wrong, 0u);
  EXPECT_EQ(found.next, std::vector<std::uint32_t>(THREADS, each));
  EXPECT_EQ(world.state.ended, 0u);
  EXPECT_EQ(world.state.published >> PUBLISHED_SHIFT, world.state.reserved);
  EXPECT_EQ(world.state.rung, world.state.reserved);
}

// Each thread gives its processor away while another one is to go on. Where other programs want it,
// too, that takes milliseconds each time: the quick tests have few messages.
constexpr std::uint32_t EACH = 1000;

TEST(send_queue_threads, post__nothing_lost_doubled_or_out_of_order) {
  many_producers(64, 0, doorbell_form::eight_bytes, EACH);
}
TEST(send_queue_threads, post__in_a_ring_of_one_block) {
  many_producers(1, 0, doorbell_form::eight_bytes, EACH / 10);
}
TEST(send_queue_threads, post__in_a_short_ring_across_the_wrap_of_16_bits) {
  many_producers(4, 0xff00, doorbell_form::synthesized, EACH);
}
TEST(send_queue_threads, post__with_requests_copied_to_the_register) {
  many_producers(4, 0, doorbell_form::blueflame, EACH);
}
TEST(send_queue_threads, post__in_the_longest_ring_across_32_bits) {
  many_producers(MAX_RING_BLOCKS, 0xffffff00, doorbell_form::mailbox, EACH);
}
TEST(every_send_queue, post__in_all_rings_twenty_times_as_many) {
  many_producers(64, 0, doorbell_form::eight_bytes, 20 * EACH);
  many_producers(1, 0, doorbell_form::eight_bytes, 2 * EACH);
  many_producers(4, 0xff00, doorbell_form::synthesized, 20 * EACH);
  many_producers(4, 0, doorbell_form::blueflame, 20 * EACH);
  many_producers(MAX_RING_BLOCKS, 0xffffff00, doorbell_form::mailbox, 20 * EACH);
}

}  // namespace
