// Messages of kernels over endpoints of the library: sends to receives of kernels, active messages
// to queues of kernels and to the host. Callers: product_kernels.cu, and tests/accelerator/product
// in threads. Threads: all members of a caller. Always true: tags tell callers apart; messages of a
// queue may be taken by any caller, so each says whose it is.
#pragma once

#include "tests/support/device_code/product_calls.hpp"

namespace lci::test::product {

LCI_ANYWHERE inline std::uint64_t tag_of(const caller& who, std::uint64_t turn) {
  return 1000 + who.number * 64 + turn;
}

// Waits as wait_receive() does, with looks.
template <class Scope>
LCI_ANYWHERE status look_until_received(const gpu::endpoint_t& ep, const gpu::ticket_t& ticket,
                                        gpu::message_t* got) {
  status said = status::nothing;
  // The leader's clock counts for all.
  for (const limited may; said == status::nothing && Scope::from_leader(may());)
    said = gpu::test_receive<Scope>(ep, ticket, got);
  return said;
}

// Out of memory that the thread reads and that it does not, and into such memory: sizes around what
// travels in the request, and one that takes a rendezvous. Nobody waits for quiet() before its last
// receive: quiet() waits also for long messages of others in the queue, until they meet receives,
// which the peer's callers must be free to post.
template <class Scope>
LCI_ANYWHERE_ONCE fault receives(const task& t, const caller& who) {
  const std::uint64_t sizes[] = {0, 8, 180, 181, MOST};
  fill<Scope>(bytes(t, who, OUT), MOST, seed_of(t.me, who, 0));
  for (std::uint64_t turn = 0; turn < 10; ++turn) {
    const std::uint64_t size = sizes[turn / 2], tag = tag_of(who, turn);
    const bool looks = turn % 2 != 0;
    fill<Scope>(bytes(t, who, IN), MOST, seed_of(t.of, who, 1));
    gpu::ticket_t ticket;
    gpu::message_t got;
    LCI_TEST_OK(gpu::recv<Scope>(t.second, looks ? t.of : gpu::ANY_RANK,
                                 at(looks ? t.own : t.plain, who, IN), size, tag, &ticket));
    LCI_TEST_OK(gpu::send<Scope>(t.first, t.to, at(looks ? t.own : t.plain, who, OUT), size, tag));
    if (looks) {
      LCI_TEST_OK(look_until_received<Scope>(t.second, ticket, &got));
    } else {
      LCI_TEST_OK(gpu::wait_receive<Scope>(t.second, ticket, &got));
    }
    LCI_TEST_TRUE(got.size == size && got.rank == t.of && got.tag == tag);
    LCI_TEST_TRUE(is_filled(bytes(t, who, IN), size, seed_of(t.of, who, 0)));
    LCI_TEST_SAYS(gpu::wait_receive<Scope>(t.second, ticket, &got), status::bad_key);
  }
  // By value.
  gpu::ticket_t ticket;
  gpu::message_t got;
  LCI_TEST_OK(gpu::recv<Scope>(t.second, t.of, at(t.own, who, IN), 64, tag_of(who, 20), &ticket));
  LCI_TEST_OK(gpu::send_value<Scope>(t.first, t.to, seed_of(t.me, who, 20), tag_of(who, 20)));
  LCI_TEST_OK(gpu::wait_receive<Scope>(t.second, ticket, &got));
  LCI_TEST_TRUE(got.size == 8);
  LCI_TEST_TRUE(gpu::look_at(reinterpret_cast<const std::uint64_t*>(bytes(t, who, IN))) ==
                seed_of(t.of, who, 20));
  LCI_TEST_OK(gpu::quiet<Scope>(t.first));
  return {};
}

// To this rank: a message that is too long for the first receive waits for the next.
template <class Scope>
LCI_ANYWHERE_ONCE fault receive_too_short(const task& t, const caller& who) {
  const std::uint64_t tag = tag_of(who, 30), value = seed_of(t.me, who, 30);
  const gpu::place_t in = at(t.own, who, IN), behind = at(t.own, who, IN + 64);
  gpu::ticket_t small, large;
  gpu::message_t got;
  LCI_TEST_OK(gpu::recv<Scope>(t.first, t.me, in, 4, tag, &small));
  LCI_TEST_OK(gpu::send_value<Scope>(t.first, t.me, value, tag));
  LCI_TEST_OK(gpu::recv<Scope>(t.first, t.me, behind, 8, tag, &large));
  LCI_TEST_SAYS(gpu::wait_receive<Scope>(t.first, small), status::too_long);
  LCI_TEST_OK(gpu::wait_receive<Scope>(t.first, large, &got));
  LCI_TEST_TRUE(got.size == 8 && got.rank == t.me);
  LCI_TEST_TRUE(gpu::look_at(reinterpret_cast<const std::uint64_t*>(bytes(t, who, IN + 64))) ==
                value);
  LCI_TEST_TRUE(gpu::look_at(reinterpret_cast<const std::uint64_t*>(bytes(t, who, IN))) == 0);
  return {};
}

// An active message: whose it is, and bytes that follow from that. By value it is only the head.
struct item {
  std::uint64_t rank, number, turn;
};
LCI_ANYWHERE inline std::uint64_t size_of(const item& what) {
  return what.turn % 2 == 0 ? sizeof(item) : ITEM;
}
LCI_ANYWHERE inline std::uint64_t seed_of(const item& what) {
  return seed_of(static_cast<int>(what.rank), {what.number}, what.turn);
}
// The bytes of one as it came; `from` is who sent it.
LCI_ANYWHERE inline bool is_item(const unsigned char* at, std::uint64_t size, int from,
                                 std::uint64_t tag) {
  const auto* const head = reinterpret_cast<const std::uint64_t*>(at);
  const item what{gpu::look_at(head), gpu::look_at(head + 1), gpu::look_at(head + 2)};
  if (size < sizeof(item) || what.number >= MOST_CALLERS || what.turn >= MESSAGES) return false;
  if (what.rank != static_cast<std::uint64_t>(from) || tag != what.turn || size != size_of(what))
    return false;
  return is_filled(at + sizeof(item), size - sizeof(item), seed_of(what));
}
LCI_ANYWHERE inline std::uint64_t index_of(const unsigned char* at) {
  const auto* const head = reinterpret_cast<const std::uint64_t*>(at);
  return gpu::look_at(head + 1) * MESSAGES + gpu::look_at(head + 2);
}

// Turn about by value and out of memory, which stays as it is.
template <class Scope>
LCI_ANYWHERE_ONCE fault send_items(const task& t, const caller& who, std::uint32_t rcomp) {
  for (std::uint64_t turn = 0; turn < MESSAGES; ++turn) {
    const item what{static_cast<std::uint64_t>(t.me), who.number, turn};
    if (turn % 2 == 0) {
      LCI_TEST_OK(gpu::am_value<Scope>(t.first, t.to, what, rcomp, turn));
      continue;
    }
    unsigned char* const out = bytes(t, who, OUT + turn * 256);
    fill<Scope>(out + sizeof(item), ITEM - sizeof(item), seed_of(what));
    if (Scope::index() == 0) *reinterpret_cast<item*>(out) = what;
    LCI_TEST_OK(gpu::am<Scope>(t.first, t.to, at(t.own, who, OUT + turn * 256), ITEM, rcomp, turn));
  }
  return {};
}

// Each takes as many as it sends, whoever sent them, and counts each.
template <class Scope>
LCI_ANYWHERE_ONCE fault active_messages(const task& t, const caller& who) {
  LCI_TEST_PASS(send_items<Scope>(t, who, t.to_queue));
  unsigned char* const in = bytes(t, who, BACK);
  auto* const taken = reinterpret_cast<std::uint32_t*>(t.memory + TAKEN);
  for (std::uint64_t turn = 0; turn < MESSAGES; ++turn) {
    gpu::message_t got;
    status said = status::nothing;
    if (turn % 2 == 0) {
      said = gpu::wait<Scope>(t.queue, in, MOST, &got);
    } else {
      for (const limited may; said == status::nothing && Scope::from_leader(may());)
        said = gpu::poll<Scope>(t.queue, in, MOST, &got);
    }
    LCI_TEST_OK(said);
    Scope::barrier();
    LCI_TEST_TRUE(got.rank == t.of && is_item(in, got.size, t.of, got.tag));
    // Relaxed: a count that the host reads when the kernel has ended.
    if (Scope::index() == 0)
      wqe::word_at<std::uint32_t>(taken + index_of(in)).fetch_add(1, std::memory_order_relaxed);
  }
  LCI_TEST_OK(gpu::quiet<Scope>(t.first));
  return {};
}

template <class Scope>
LCI_ANYWHERE_ONCE fault to_host(const task& t, const caller& who) {
  LCI_TEST_PASS(send_items<Scope>(t, who, t.to_host));
  LCI_TEST_OK(gpu::quiet<Scope>(t.first));
  return {};
}

// Nobody sends to it.
template <class Scope>
LCI_ANYWHERE_ONCE fault post_receive(const task& t, const caller& who, gpu::ticket_t* ticket) {
  LCI_TEST_OK(gpu::recv<Scope>(t.second, who.number % 2 == 0 ? t.me : gpu::ANY_RANK,
                               at(t.own, who, IN), 8, tag_of(who, 40), ticket));
  return {};
}

// Waits for what does not come end as is wanted, each kind of wait.
template <class Scope>
LCI_ANYWHERE_ONCE fault wait_in_vain(const task& t, const caller& who) {
  gpu::ticket_t ticket;
  const fault refused = post_receive<Scope>(t, who, &ticket);
  // The abort may come before the wait begins, and while the post waits for room.
  if (t.wanted == status::aborted &&
      (refused.said == status::dead || refused.said == status::aborted))
    return {};
  LCI_TEST_PASS(refused);
  gpu::message_t got;
  switch (who.number % 3) {
    case 0:
      LCI_TEST_SAYS(gpu::wait_receive<Scope>(t.second, ticket, &got), t.wanted);
      break;
    case 1:
      LCI_TEST_SAYS(gpu::wait<Scope>(t.queue, bytes(t, who, BACK), MOST, &got), t.wanted);
      break;
    default:
      LCI_TEST_SAYS(gpu::wait_until<Scope>(t.second, words(t, who), gpu::comparison::equal, 1),
                    t.wanted);
  }
  return {};
}

template <class Scope>
LCI_ANYWHERE fault run(const task& t, const caller& who) {
  gpu::ticket_t ticket;
  switch (t.what) {
    case kind::put_and_get:
      return put_and_get<Scope>(t, who);
    case kind::put_signal:
      return put_signal<Scope>(t, who);
    case kind::values:
      return values<Scope>(t, who);
    case kind::atomics:
      return atomics<Scope>(t, who);
    case kind::several_words:
      return several_words<Scope>(t, who);
    case kind::barrier:
      return barriers<Scope>(t);
    case kind::receives:
      return receives<Scope>(t, who);
    case kind::receive_too_short:
      return receive_too_short<Scope>(t, who);
    case kind::active_messages:
      return active_messages<Scope>(t, who);
    case kind::to_host:
      return to_host<Scope>(t, who);
    case kind::post_receive:
      return post_receive<Scope>(t, who, &ticket);
    case kind::wait_in_vain:
      return wait_in_vain<Scope>(t, who);
  }
  return {NOT_RUN, status::ok};
}

}  // namespace lci::test::product
