// Queues of active messages that kernels poll. Callers: kernels, or threads of the process.
// Threads: any; each message goes to one call. Always true: messages are taken in the order in
// which the host added them; one that does not fit the buffer stays, and the call returns its size;
// a slot belongs to the host again when its message has been copied.
#pragma once

#include <cstdint>

#include "lci/gpu/copying.hpp"
#include "lci/gpu/messages.hpp"

namespace lci::gpu {

namespace detail {

// A message that its taker copies out.
struct taken_message {
  status said = status::nothing;
  message_t what;
  std::uint64_t slot = 0;  // where it is
};

LCI_ANYWHERE inline message_slot* slot_of(const queue_record& q, std::uint64_t turn) noexcept {
  return reinterpret_cast<message_slot*>(q.slots + (turn & (q.capacity - 1)) * q.stride);
}

LCI_ANYWHERE inline endpoint_t endpoint_of(const queue_record& q) noexcept {
  endpoint_t ep;
  ep.record = q.endpoint;
  ep.generation = q.generation;
  return ep;
}

// edge gpu.queue, other side in the host, which stores the turn behind the message.
LCI_ANYWHERE inline taken_message try_take(const queue_record& q, std::uint64_t room) noexcept {
  taken_message out;
  for (;;) {
    const std::uint64_t turn = look_at(q.taken);
    message_slot* const slot = slot_of(q, turn);
    if (wqe::word_at<std::uint64_t>(&slot->turn).load(std::memory_order_acquire) != turn + 1) {
      // Not there; or another took this turn, and there may be a next one.
      if (look_at(q.taken) == turn) return out;
      continue;
    }
    // A word, since another may take this turn meanwhile, and the host write the next message.
    out.what.size = look_at(&slot->size);
    out.slot = reinterpret_cast<std::uintptr_t>(slot);
    if (out.what.size > room) {
      // Of the message that is next now, not of one that another took meanwhile.
      if (look_at(q.taken) != turn) continue;
      out.said = status::too_long;
      return out;
    }
    // Relaxed: the host's stores came with the slot's turn; takers tell each other nothing else.
    if (wqe::word_at<std::uint64_t>(q.taken).compare_exchange_strong(turn, turn + 1,
                                                                     std::memory_order_relaxed)) {
      out.what.tag = slot->tag;
      out.what.rank = slot->rank;
      out.said = status::ok;
      return out;
    }
  }
}

// edge gpu.queue_free, other side in the host: the message was read before it writes the slot.
LCI_ANYWHERE inline void free_message(std::uint64_t slot) noexcept {
  wqe::word_at<std::uint64_t>(&static_cast<message_slot*>(pointer(slot))->turn)
      .store(0, std::memory_order_release);
}

LCI_ANYWHERE_ONCE inline taken_message take(const queue_t& queue, std::uint64_t room,
                                            bool waits) noexcept {
  taken_message out;
  out.said = status::bad_endpoint;
  if (queue.record == nullptr) return out;
  const queue_record& q = *queue.record;
  const endpoint_t ep = endpoint_of(q);
  if (const status s = check_endpoint(ep); s != status::ok) {
    out.said = s;
    return out;
  }
  patience wait(ep, ep.record->any_ended, ANY_RANK);
  for (;;) {
    out = try_take(q, room);
    if (out.said != status::nothing || !waits) return out;
    wait.saw(look_at(q.taken));  // others may get all that comes
    if (const status s = wait(); s != status::ok) {
      out = try_take(q, room);
      if (out.said == status::nothing) out.said = s;
      return out;
    }
  }
}

template <class Scope>
LCI_ANYWHERE status copy_out(const queue_t& queue, void* buffer, std::uint64_t room,
                             message_t* what, bool waits) noexcept {
  const taken_message m = by_leader<Scope>([&] { return take(queue, room, waits); });
  if (what != nullptr && (m.said == status::ok || m.said == status::too_long)) *what = m.what;
  if (m.said != status::ok) return m.said;
  const auto* const from =
      static_cast<const unsigned char*>(pointer(m.slot)) + sizeof(message_slot);
  copy<Scope, source::others>(buffer, from, m.what.size);
  Scope::barrier();
  if (Scope::index() == 0) free_message(m.slot);
  return status::ok;
}

}  // namespace detail

// Copies the next message to `buffer`, of `room` bytes, in memory that all members of the scope can
// access. ok: `what` describes the message. nothing: there is none. too_long: the message stays;
// `what` gives its size. `what` may be null.
template <class Scope = thread>
LCI_ANYWHERE status poll(const queue_t& queue, void* buffer, std::uint64_t room,
                         message_t* what = nullptr) noexcept {
  return detail::copy_out<Scope>(queue, buffer, room, what, false);
}
// The same, and waits for a message. The wait also ends as that of wait_until() does, including
// with the end of any rank.
template <class Scope = thread>
LCI_ANYWHERE status wait(const queue_t& queue, void* buffer, std::uint64_t room,
                         message_t* what = nullptr) noexcept {
  return detail::copy_out<Scope>(queue, buffer, room, what, true);
}

}  // namespace lci::gpu
