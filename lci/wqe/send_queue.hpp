// A send queue that any number of threads post to, those of one GPU or of processors: who writes
// which blocks, who rings, who polls, and how everyone gets out when something ends.
// Callers: kernels or host threads with a copy of the handle. Threads: all functions any, but
// prepare(), which comes before. Both sides at once only where the GPU's atomics on host memory are
// atomic for processors too (CUDA's hostNativeAtomicSupported).
// Always true: blocks are reserved once and published in order, so the card sees a prefix; a
// request that was posted is never lost, it waits while the ring is full; every wait drains
// completions and rings for what is published, so no thread waits for what only the waiter could
// move; a reservation that is given up ends the queue in the same step, or was made when it had
// ended, since nothing behind it could be published; a thread that finds the queue ended rings for
// what is. The two locks, state.bell_lock and state.poll_lock, are only tried, never both held, and
// nothing waits for another thread under them.
#pragma once

#include <cstdint>

#include "lci/wqe/completion_queue.hpp"
#include "lci/wqe/doorbell.hpp"
#include "lci/wqe/progress.hpp"
#include "lci/wqe/send_wqe.hpp"
#include "lci/wqe/waiting.hpp"

namespace lci::wqe {

// What the threads share, in memory that all of them reach. Each line has writers of its own.
struct send_queue_state {
  alignas(64) std::uint64_t reserved;  // the next block that no thread has
  // The next block that is not published, shifted, and how many blocks the last request has.
  alignas(64) std::uint64_t published;
  alignas(64) std::uint64_t done;  // all blocks before it are free again
  // All before it has been carried out: counted at completions of requests that do nothing, which
  // wait for all before them. A send is completed when it was taken, while what it reads may be
  // under way still, also when requests behind it are completed. Not above `done`.
  std::uint64_t carried_out;
  alignas(64) std::uint64_t rung;  // the card was told of all before it; under bell_lock
  std::uint32_t bell_lock;
  std::uint32_t bell_offset;           // half of a BlueFlame register; under bell_lock
  alignas(64) std::uint64_t consumed;  // completions that were read; under poll_lock
  std::uint32_t poll_lock;
  alignas(64) std::uint32_t ended;  // 0, or the status that ended the queue
  completion error;                 // written before `ended` becomes failed
};

struct send_queue {
  send_ring ring;
  completion_queue cq;  // of this send queue alone, at least as long as the ring
  doorbell bell;
  send_limits limits;
  wait_limits waits;
  send_queue_state* state = nullptr;
  std::uint32_t qpn = 0;
  // A thread leaves the ringing to one that comes after it, but for every so many blocks, or where
  // it rings a mailbox behind the barrier that it makes anyway. Not 0.
  std::uint32_t batch = MAX_BLOCKS;
};

inline constexpr unsigned PUBLISHED_SHIFT = 5;  // MAX_BLOCKS fits below

LCI_ANYWHERE constexpr status check(const send_queue& q) noexcept {
  if (const status s = check(q.cq); s != status::ok) return s;
  if (q.qpn > MAX_QPN) return status::bad_qpn;
  if (const status s = check_ring(q.ring); s != status::ok) return s;
  if (!is_known(q.bell.form)) return status::bad_doorbell_form;
  if (q.batch == 0) return status::bad_batch;
  return q.cq.count >= q.ring.blocks ? status::ok : status::too_few_completions;
}

// Before any other thread knows of the queue. `first` is the index that the card begins with.
LCI_ANYWHERE inline status prepare(const send_queue& q, std::uint64_t first = 0) noexcept {
  if (const status s = check(q); s != status::ok) return s;
  make_unused(q.cq);
  *q.state = send_queue_state{};
  q.state->reserved = q.state->done = q.state->carried_out = q.state->rung = first;
  q.state->published = first << PUBLISHED_SHIFT;
  return status::ok;
}

// What ended the queue; ok: it lives. After failed, state->error says what the card reported.
// edge wqe.ended: partner is end().
LCI_ANYWHERE inline status ended_by(const send_queue& q) noexcept {
  return static_cast<status>(static_cast<std::int32_t>(
      word_at<std::uint32_t>(&q.state->ended).load(std::memory_order_acquire)));
}
// The first reason stays. edge wqe.ended: partner is ended_by().
LCI_ANYWHERE inline status end(const send_queue& q, status why) noexcept {
  word_at<std::uint32_t>(&q.state->ended)
      .compare_exchange_strong(0, static_cast<std::uint32_t>(why), std::memory_order_acq_rel);
  return ended_by(q);
}

// edge wqe.bell_lock and wqe.poll_lock: partner is unlock().
LCI_ANYWHERE inline bool try_lock(std::uint32_t* lock) noexcept {
  return word_at<std::uint32_t>(lock).compare_exchange_strong(0, 1, std::memory_order_acquire);
}
// edge wqe.bell_lock and wqe.poll_lock: partners are try_lock() and try_lock_early().
LCI_ANYWHERE inline void unlock(std::uint32_t* lock) noexcept {
  word_at<std::uint32_t>(lock).store(0, std::memory_order_release);
}
// Before it is known whether there is something to do under it. A thread that does something makes
// a barrier of the card first. edge wqe.bell_lock: partners are unlock() and unlock_untouched().
LCI_ANYWHERE inline bool try_lock_early(std::uint32_t* lock) noexcept {
  return word_at<std::uint32_t>(lock).compare_exchange_strong(0, 1, order_before_barrier());
}
// Nothing was done under it. An exchange, no store: it goes on with the release sequence of the
// unlock() before, so the next holder sees what that one has stored. edge wqe.bell_lock: partners
// are try_lock() and try_lock_early().
LCI_ANYWHERE inline void unlock_untouched(std::uint32_t* lock) noexcept {
  word_at<std::uint32_t>(lock).compare_exchange_strong(1, 0, order_before_barrier());
}

// Reads the completions that are there, one turn of their queue at most, unless another thread
// does. True: it found some.
LCI_ANYWHERE inline bool drain(const send_queue& q) noexcept {
  send_queue_state& s = *q.state;
  if (!try_lock(&s.poll_lock)) return false;
  // Under the lock both words change here alone.
  const std::uint64_t before = s.consumed;
  std::uint64_t done = s.done, carried_out = s.carried_out, consumed = before;
  completion c;
  for (; consumed - before < q.cq.count; ++consumed) {
    const status found = poll(q.cq, consumed, &c);
    if (found == status::nothing) break;
    if (found == status::failed) {
      if (ended_by(q) == status::ok) s.error = c;
      end(q, status::failed);
    }
    // The request is still in the ring and says how long it is: its blocks are not free yet.
    const std::uint64_t index = widened(done, c.wqe_counter);
    const std::uint32_t octowords = be32(octoword_at(q.ring, index, 0)->word[1]) & MAX_OCTOWORDS;
    done = index + blocks_of(octowords);
    // One that was flushed says nothing of those before it.
    if (found == status::ok && static_cast<opcode>(c.send_opcode) == opcode::nop)
      carried_out = done;
  }
  if (consumed != before) {
    s.consumed = consumed;
    // In this order: with the blocks come requests that complete, and the card takes every entry
    // that was given back, and no other, to be free.
    give_back(q.cq, consumed);
    // edge wqe.done: the blocks are read before they are free. Partner is admit(), and of what the
    // card wrote wait_until_done(). Partner is also post_by_one().
    word_at<std::uint64_t>(&s.carried_out).store(carried_out, std::memory_order_release);
    word_at<std::uint64_t>(&s.done).store(done, std::memory_order_release);
  }
  unlock(&s.poll_lock);
  return consumed != before;
}

LCI_ANYWHERE inline bool is_rung(const send_queue& q, std::uint64_t end) noexcept {
  // Relaxed: see try_ring().
  return word_at<std::uint64_t>(&q.state->rung).load(std::memory_order_relaxed) >= end;
}
// Tells the card of all that is published, if it does not know of so much, unless another thread is
// about to. What is before `covered` this thread has a barrier of the card behind.
LCI_ANYWHERE inline void try_ring(const send_queue& q, std::uint64_t covered = 0) noexcept {
  send_queue_state& s = *q.state;
  const word_at<std::uint64_t> word(&s.published);
  // Relaxed: a guess that spares waiting threads the lock. The last publisher sees its own word.
  if (is_rung(q, word.load(std::memory_order_relaxed) >> PUBLISHED_SHIFT)) return;
  if (!try_lock(&s.bell_lock)) return;
  const std::uint64_t rung = s.rung;
  // edge wqe.published: the card may be told of what publish() stored before.
  const std::uint64_t published = word.load(std::memory_order_acquire);
  const std::uint64_t next = published >> PUBLISHED_SHIFT;
  if (next > rung) {
    const std::uint64_t last = next - (published & ((1u << PUBLISHED_SHIFT) - 1));
    ring_doorbell(q.bell, q.ring, {next, last, last == rung, true, next <= covered}, s.bell_offset);
    // Relaxed: a reader without the lock wants to know whether there is something to do.
    word_at<std::uint64_t>(&s.rung).store(next, std::memory_order_relaxed);
  }
  unlock(&s.bell_lock);
}

// The queue has ended: a poster may have left the ringing to a reservation that was given up, and
// what is published is still executed. The lock is held for a moment only.
LCI_ANYWHERE inline void ring_at_the_end(const send_queue& q) noexcept {
  for (int i = 0; i < 1024; ++i) {
    // Relaxed: as in try_ring().
    const std::uint64_t published =
        word_at<std::uint64_t>(&q.state->published).load(std::memory_order_relaxed);
    if (is_rung(q, published >> PUBLISHED_SHIFT)) return;
    try_ring(q);
  }
}

// One round of every wait: moves what can be moved. The limit counts from when something moved
// last, by any thread. Not ok: the queue has ended.
LCI_ANYWHERE inline status wait_a_round(const send_queue& q, waiter& wait) noexcept {
  if (const status s = ended_by(q); s != status::ok) {
    ring_at_the_end(q);
    return s;
  }
  try_ring(q);
  if (drain(q)) wait.progressed();
  const status s = wait();
  return s == status::ok ? s : end(q, s);
}

// Until everything before `until` is free. The blocks before it must be published, the last request
// of them signaled, or others must follow.
LCI_ANYWHERE inline status wait_until_done(const send_queue& q, std::uint64_t until) noexcept {
  waiter wait(q.waits);
  const word_at<std::uint64_t> word(&q.state->done);
  // edge wqe.done: what the card wrote is seen. Partner is drain().
  for (std::uint64_t done = word.load(std::memory_order_acquire); done < until;
       done = word.load(std::memory_order_acquire)) {
    wait.saw(done);
    if (const status s = wait_a_round(q, wait); s != status::ok) return s;
  }
  return ended_by(q);
}

// Whether the reservation may be written now. edge wqe.done: blocks are written after they were
// read. Partner is drain().
LCI_ANYWHERE inline bool is_admitted(const send_queue& q, std::uint64_t base, std::uint32_t blocks,
                                     waiter& wait) noexcept {
  const std::uint64_t done = word_at<std::uint64_t>(&q.state->done).load(std::memory_order_acquire);
  wait.saw(done);
  return may_write(base, blocks, done, q.ring.blocks);
}

// Until the reservation may be written.
LCI_ANYWHERE inline status admit(const send_queue& q, std::uint64_t base,
                                 std::uint32_t blocks) noexcept {
  waiter wait(q.waits);
  while (!is_admitted(q, base, blocks, wait)) {
    if (const status s = wait_a_round(q, wait); s != status::ok) return s;
  }
  return status::ok;
}

// Whether everything before that reservation is published: then no other publishes before it.
LCI_ANYWHERE inline bool has_turn(const send_queue& q, std::uint64_t base) noexcept {
  // edge wqe.published: what the threads before have stored comes with their word.
  const std::uint64_t published =
      word_at<std::uint64_t>(&q.state->published).load(std::memory_order_acquire);
  return published >> PUBLISHED_SHIFT == base;
}
// What a poster has found out before its barrier. Nothing of it changes until it publishes.
struct own_turn {
  bool is_mine = false;   // has_turn()
  bool has_bell = false;  // it holds bell_lock, and ring_in_turn() follows publish_in_turn()
};
// Of [base, end). The last thread in the queue takes the bell too, where that is a mailbox: the one
// barrier then covers the requests, their publication and the ring, and nothing is read behind it.
// A GPU needs half a microsecond for each word that it reads first.
LCI_ANYWHERE inline own_turn find_turn(const send_queue& q, std::uint64_t base,
                                       std::uint64_t end) noexcept {
  own_turn t;
  // Relaxed, and before the other load so that both are under way at once: a thread that reserves
  // later rings for itself, and ringing for one that is not the last is no harm.
  const std::uint64_t reserved =
      word_at<std::uint64_t>(&q.state->reserved).load(std::memory_order_relaxed);
  t.is_mine = has_turn(q, base);
  t.has_bell = t.is_mine && reserved == end && q.bell.form == doorbell_form::mailbox &&
               try_lock(&q.state->bell_lock);
  return t;
}
// All before `end` is published, and nothing behind `base` was rung for: the lock was taken before
// that.
LCI_ANYWHERE inline void ring_in_turn(const send_queue& q, std::uint64_t end) noexcept {
  send_queue_state& s = *q.state;
  ring_doorbell(q.bell, q.ring, {end, 0, false, true, true}, s.bell_offset);
  // Relaxed: see try_ring().
  word_at<std::uint64_t>(&s.rung).store(end, std::memory_order_relaxed);
  unlock(&s.bell_lock);
}

// try_publish() for one that had its turn before the barrier of the card, which therefore covers
// what it has and what came with the turn.
LCI_ANYWHERE inline void publish_in_turn(const send_queue& q, std::uint64_t base,
                                         std::uint32_t blocks, std::uint32_t last) noexcept {
  // edge wqe.published: partner is try_ring().
  word_at<std::uint64_t>(&q.state->published)
      .store((base + blocks) << PUBLISHED_SHIFT | last, order_behind_barrier());
}

// Makes [base, base + blocks) part of what may be rung for, if it is its turn: after everything
// before it. It is one request, or several of which the last one has `last` blocks. A barrier of
// the card comes before it, because another thread may ring for these blocks.
LCI_ANYWHERE inline bool try_publish(const send_queue& q, std::uint64_t base, std::uint32_t blocks,
                                     std::uint32_t last, waiter& wait) noexcept {
  word_at<std::uint64_t> word(&q.state->published);
  // edge wqe.published: what the threads before have stored comes with their word.
  const std::uint64_t published = word.load(std::memory_order_acquire);
  wait.saw(published);
  if (published >> PUBLISHED_SHIFT != base) return false;
  // edge wqe.published: partner is try_ring().
  word.store((base + blocks) << PUBLISHED_SHIFT | last, std::memory_order_release);
  return true;
}

// The same, and waits for its turn, unless the poster had it before the barrier.
LCI_ANYWHERE inline status publish_covered(const send_queue& q, std::uint64_t base,
                                           std::uint32_t blocks, std::uint32_t last,
                                           own_turn turn) noexcept {
  if (turn.is_mine) {
    publish_in_turn(q, base, blocks, last);
    return status::ok;
  }
  waiter wait(q.waits);
  while (!try_publish(q, base, blocks, last, wait)) {
    if (const status s = wait_a_round(q, wait); s != status::ok) return s;
  }
  return status::ok;
}
// The same with the barrier. It says of its turn what ring_if_last() is to be told.
LCI_ANYWHERE inline status publish(const send_queue& q, std::uint64_t base, std::uint32_t blocks,
                                   std::uint32_t last, own_turn* turn) noexcept {
  *turn = find_turn(q, base, base + blocks);
  to_card_barrier();
  return publish_covered(q, base, blocks, last, *turn);
}

// Rings for [base, end), unless a later reservation will: the last one always does.
LCI_ANYWHERE inline status ring_if_last(const send_queue& q, std::uint64_t base, std::uint64_t end,
                                        own_turn turn) noexcept {
  if (turn.has_bell) {
    ring_in_turn(q, end);
    return status::ok;
  }
  // Relaxed: a thread that reserved before this is read will read it later than that itself, unless
  // the queue has ended.
  const std::uint64_t reserved =
      word_at<std::uint64_t>(&q.state->reserved).load(std::memory_order_relaxed);
  const std::uint32_t ended =
      word_at<std::uint32_t>(&q.state->ended).load(std::memory_order_relaxed);
  if (ended == 0 && reserved != end && base / q.batch == end / q.batch) return status::ok;
  waiter wait(q.waits);
  for (try_ring(q, turn.is_mine ? end : 0); !is_rung(q, end);) {
    if (const status s = wait_a_round(q, wait); s != status::ok) return s;
  }
  return status::ok;
}

// Posts one request; its queue number is the queue's. Waits while the ring is full. ok: it is in
// the queue for good, and everything is done once wait_until_done(*end) is. Else it was refused and
// nothing happened, or the queue has ended.
LCI_ANYWHERE inline status post(const send_queue& q, send_request r, std::uint64_t* end) noexcept {
  r.qpn = q.qpn;
  if (const status s = check(q.ring, r, q.limits); s != status::ok) return s;
  if (ended_by(q) != status::ok) return status::dead;
  const std::uint32_t blocks = blocks_of(static_cast<std::uint32_t>(octowords_of(r)));
  // Relaxed: the number alone matters here; admit() and publish() order the rest.
  const std::uint64_t base =
      word_at<std::uint64_t>(&q.state->reserved).fetch_add(blocks, std::memory_order_relaxed);
  if (const status s = admit(q, base, blocks); s != status::ok) return s;
  r.signaled |= must_signal(base, blocks, q.ring.blocks);
  write_checked(q.ring, base, r);
  own_turn turn;
  if (const status s = publish(q, base, blocks, blocks, &turn); s != status::ok) return s;
  *end = base + blocks;
  return ring_if_last(q, base, *end, turn);
}

// Until everything that this thread has posted is done: a signaled request comes behind it.
LCI_ANYWHERE inline status flush(const send_queue& q) noexcept {
  std::uint64_t end = 0;
  if (const status s = post(q, send_request{}, &end); s != status::ok) return s;
  return wait_until_done(q, end);
}

}  // namespace lci::wqe
