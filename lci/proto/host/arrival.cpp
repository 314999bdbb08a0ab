#include "lci/proto/host/arrival.hpp"

#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/base/copy.hpp"
#include "lci/base/log.hpp"
#include "lci/comp/handler.hpp"
#include "lci/completion.hpp"
#include "lci/mem/packet_hand.hpp"
#include "lci/proto/host/arrival_buffer.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/proto/host/rendezvous.hpp"

namespace lci::proto {

// `to` is a handler. Inlined for its argument: the status is made where the handler reads it.
[[gnu::always_inline]] inline void arrival_sink::run(const comp_impl_t& to, int rank, tag_t tag,
                                                     void* buffer, std::size_t size) noexcept {
  try {
    static_cast<const comp::handler&>(to).callee()(arrival_status(rank, tag, buffer, size));
  } catch (...) {
    host_.engine.errors.keep(std::current_exception());
  }
}

// The kind that nearly all small messages go to comes first; the others take a call more.
inline void arrival_sink::signal(comp_impl_t& to, int rank, tag_t tag, void* buffer,
                                 std::size_t size) noexcept {
  if (to.attr.comp_type != attr_comp_type_t::handler) [[unlikely]]
    return host_.engine.signals.signal_now(&to, arrival_status(rank, tag, buffer, size),
                                           buffer != nullptr ? news::message : news::notification);
  run(to, rank, tag, buffer, size);
}

net::verdict arrival_sink::on_message(const net::arrival& message) noexcept {
  if ((message.imm & wire::FAST_BIT) != 0) [[likely]] {
    const wire::imm_layout& layout = host_.engine.shared.imm;
    return deliver(message, layout.rcomp_of(message.imm), layout.tag_of(message.imm));
  }
  return on_control(message);
}

// Messages of the protocols, what may go to memory that a GPU brings it to, and what comes while
// handlers wait for their turn are for the thread inside. A receive in GPU memory is not: posts
// meet messages in any thread as well.
net::verdict arrival_sink::on_message_beside(const net::arrival& message) noexcept {
  if ((message.imm & wire::FAST_BIT) == 0 || depth_ > host_.engine.handlers.open_to() ||
      host_.payloads.load(std::memory_order_relaxed) != nullptr ||
      host_.engine.shared.allocator.load(std::memory_order_relaxed) != &g_allocator_default)
    return net::verdict::deferred;
  return on_message(message);
}

// Not inline: a round that found nothing then has fewer registers to keep.
void arrival_sink::give_home() noexcept { host_.engine.pool.restock(spare_); }

// Calls nothing. Null: the pool may have more.
inline mem::packet* arrival_sink::take_packet_at_hand() noexcept {
  mem::packet* const spare = spare_;
  if (spare == nullptr) return host_.engine.pool.get_at_hand();
  spare_ = nullptr;
  spare->state.store(mem::packet_state::out, std::memory_order_relaxed);
  return spare;
}

// Tail calls only: the way to a receive saves no registers.
[[gnu::always_inline]] inline net::verdict arrival_sink::deliver(const net::arrival& from,
                                                                 rcomp_t rcomp,
                                                                 tag_t tag) noexcept {
  const remote_target to = host_.engine.shared.rcomps.find(rcomp);
  if (to.comp != nullptr) [[likely]] {
    if (has_to_wait(*to.comp)) [[unlikely]]
      return put_off(from, rcomp, tag);
    return deliver_am(*to.comp, from, tag);
  }
  if (to.match != nullptr) return matcher::of(*to.match).on_eager(host_, from, tag, to.policy);
  return drop_unknown(from.rank, rcomp);
}

// A few bytes for a handler, with a packet at hand: nothing is called but the handler, and the slow
// paths are tail calls.
net::verdict arrival_sink::deliver_am(comp_impl_t& to, const net::arrival& from,
                                      tag_t tag) noexcept {
  // Read once: compilers cannot know that what is written here leaves it as it is.
  const std::size_t size = from.size;
  if (!to.attr.zero_copy_am || to.attr.comp_type != attr_comp_type_t::handler ||
      from.packet != nullptr || size > base::COPIED_WITHOUT_CALL ||
      host_.payloads.load(std::memory_order_relaxed) != nullptr)
    return deliver_any_am(to, from, tag);
  mem::packet* const packet = take_packet_at_hand();
  if (packet == nullptr) [[unlikely]]
    return deliver_any_am(to, from, tag);
  base::copy_small(packet->payload(), from.data, size);
  const mem::packet_hand hand(packet);
  run(to, from.rank, tag, packet->payload(), size);
  if (hand.is_returned()) spare_ = packet;
  return net::verdict::taken;
}

net::verdict arrival_sink::deliver_any_am(comp_impl_t& to, const net::arrival& from,
                                          tag_t tag) noexcept {
  const std::byte* const data = from.data;
  const std::size_t size = from.size;
  if (to.attr.zero_copy_am) {
    if (host_.payloads.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      return host_.accelerator->deliver_am(to, from.rank, data, size, tag);
    // A packet that may be kept goes to the user as it is; its payload then starts where the
    // message starts unless a head came before.
    if (from.packet != nullptr && data == from.packet->payload() &&
        size <= host_.engine.max_in_packet) {
      // One that this process has posted to itself is the program's again.
      if (from.rank == host_.engine.shared.me)
        from.packet->state.store(mem::packet_state::out, std::memory_order_relaxed);
      signal(to, from.rank, tag, const_cast<std::byte*>(data), size);
      return net::verdict::kept;
    }
    // Else a peer has larger packets than ours.
    if (size <= host_.engine.max_in_packet) [[likely]] {
      mem::packet* packet = take_packet_at_hand();
      if (packet == nullptr) packet = host_.engine.pool.get();
      if (packet == nullptr) return net::verdict::deferred;
      base::copy_small(packet->payload(), data, size);
      const mem::packet_hand hand(packet);
      signal(to, from.rank, tag, packet->payload(), size);
      if (hand.is_returned()) spare_ = packet;
      return net::verdict::taken;
    }
  }
  return deliver_copy(to, from.rank, data, size, tag);
}

net::verdict arrival_sink::deliver_in_turn(const net::arrival& from, rcomp_t rcomp,
                                           tag_t tag) noexcept {
  const remote_target to = host_.engine.shared.rcomps.find(rcomp);
  if (to.comp == nullptr) return drop_unknown(from.rank, rcomp);
  return deliver_any_am(*to.comp, from, tag);
}

net::verdict arrival_sink::deliver_copy(comp_impl_t& to, int rank, const std::byte* data,
                                        std::size_t size, tag_t tag) noexcept {
  am_place at;
  if (!take_buffer(host_, size, at)) return net::verdict::deferred;
  void* const buffer = at.buffer;
  if (at.where.kind != mem::mem_kind::host) [[unlikely]] {
    if (host_.accelerator->deliver_at(to, arrival_status(rank, tag, buffer, size), at, data))
      return net::verdict::taken;
    host_.engine.shared.give_back(buffer, at.allocator);
    return net::verdict::deferred;
  }
  if (size != 0) std::memcpy(buffer, data, size);
  signal(to, rank, tag, buffer, size);
  return net::verdict::taken;
}

net::verdict arrival_sink::drop_unknown(int rank, rcomp_t rcomp) noexcept {
  return drop_message(host_.engine, rank, rcomp);
}

// Messages of the protocols, and those with a head before their payload.
net::verdict arrival_sink::on_control(const net::arrival& message) noexcept {
  if (wire::kind_of(message.imm) == wire::kind::extended) {
    net::arrival behind = message;
    wire::extended_head head;
    if (wire::decode_extended(behind.data, behind.size, head))
      return deliver(behind, head.rcomp, head.tag());
  } else {
    try {
      net::verdict answer = net::verdict::taken;
      if (host_.engine.dispatch.handle(message, answer)) return answer;
    } catch (const std::bad_alloc&) {
      return net::verdict::deferred;
    }
  }
  host_.engine.dropped.add(1);
  base::log::warn("proto",
                  "dropped a message of %zu bytes from rank %d that does not parse, immediate %08x",
                  message.size, message.rank, message.imm);
  return net::verdict::taken;
}

void notify(host_context& host, int rank, std::uint32_t imm) noexcept {
  single_arrival(host).on_immediate(rank, imm);
}

void on_signal(host_context& host, int rank, const wire::signal_body& body) noexcept {
  notify(host, rank, body.imm);
}

void arrival_sink::on_immediate(int rank, std::uint32_t imm) noexcept {
  if ((imm & wire::FAST_BIT) == 0) {
    if (wire::kind_of(imm) == wire::kind::fin_imm)
      return on_fin_imm(host_, rank, imm & 0x0fffffffu);
    host_.engine.dropped.add(1);
    return;
  }
  const wire::imm_layout& layout = host_.engine.shared.imm;
  const rcomp_t rcomp = layout.rcomp_of(imm);
  const remote_target to = host_.engine.shared.rcomps.find(rcomp);
  if (to.comp == nullptr) {
    drop_unknown(rank, rcomp);
    return;
  }
  const tag_t tag = layout.tag_of(imm);
  if (has_to_wait(*to.comp)) [[unlikely]]
    return put_off(*to.comp, arrival_status(rank, tag, nullptr, 0));
  signal(*to.comp, rank, tag, nullptr, 0);
}

void arrival_sink::on_complete(void* context) noexcept {
  auto& move = *static_cast<transfer*>(context);
  move.at += move.op.size;
  move.queue->start(move);
}

void arrival_sink::on_error(int rank, void* context, std::string_view reason) noexcept {
  auto* move = static_cast<transfer*>(context);
  if (rank >= 0 && host_.engine.watch.has_ended(rank)) {
    host_.engine.watch.miss(rank);
  } else {
    host_.engine.errors.keep_made([&] {
      return std::runtime_error("an operation with rank " + std::to_string(rank) +
                                " failed: " + std::string(reason));
    });
  }
  if (move != nullptr) host_.engine.abort(*move);
}

void arrival_sink::on_peer_ended(int rank, bool orderly, std::string_view reason) noexcept {
  host_.engine.watch.note_end(rank, orderly, reason);
}

// Behind those that wait already. Where the depth allows it they all run now, but not before the
// bytes of this one are safe.
net::verdict arrival_sink::put_off(const net::arrival& from, rcomp_t rcomp, tag_t tag) noexcept {
  handler_queue& queue = host_.engine.handlers;
  const bool is_too_deep = depth_ > queue.limit();
  // Nothing is to pile up while the program has all packets: the sender has to wait.
  if (!is_too_deep && queue.is_starved()) return net::verdict::deferred;
  const net::verdict answer = queue.add(from, rcomp, tag);
  if (!is_too_deep && answer != net::verdict::deferred) queue.run(queue.size());
  return answer;
}

void arrival_sink::put_off(comp_impl_t& to, const status_t& status) noexcept {
  handler_queue& queue = host_.engine.handlers;
  if (!queue.add(to, status, false, news::notification))
    return host_.engine.signals.signal_now(&to, status, news::notification);
  if (depth_ <= queue.limit()) queue.run(queue.size());
}

}  // namespace lci::proto
