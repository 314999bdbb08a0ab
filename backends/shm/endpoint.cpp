#include "backends/shm/endpoint.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include "backends/shm/connections.hpp"
#include "backends/shm/device_queues.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::shm {
namespace {

// The whole of a small post, once there is a lane with a free slot.
inline errorcode_t write_message(tx_lane& lane, std::uint32_t imm, const void* head,
                                 std::size_t head_size, const void* payload,
                                 std::size_t size) noexcept {
  const std::uint32_t position = lane.position();
  slot& s = lane.at(position);
  if (head_size != 0) [[unlikely]]
    std::memcpy(s.data, head, head_size);
  copy_small(s.data + head_size, payload, size);
  lane.publish(position, s,
               {imm, static_cast<std::uint16_t>(head_size + size), slot_kind::message, 0});
  lane.prefetch_behind(position, head_size + size);
  return errorcode_t::done;
}

// The whole of a put that fits a slot, once the lane may take it.
inline void write_put(tx_lane& lane, const put_record& where, const void* data, std::size_t size,
                      const std::uint32_t* imm) noexcept {
  const std::uint32_t position = lane.position();
  slot& s = lane.at(position);
  std::memcpy(s.data, &where, sizeof(where));
  copy_small(s.data + sizeof(where), data, size);
  lane.publish(position, s,
               {imm != nullptr ? *imm : 0, static_cast<std::uint16_t>(sizeof(where) + size),
                slot_kind::put, imm != nullptr ? HAS_IMM : std::uint8_t{0}});
  lane.prefetch_behind(position, sizeof(where) + size);
}

// Bytes from which the kernel copies, if the program says so; else the way of larger messages is
// chosen by measurement (docs/decisions/0049-way-by-measurement.md).
constexpr std::size_t single_copy_min(const net::fabric_config& config) noexcept {
  return config.shm_single_copy_min != 0 ? config.shm_single_copy_min : SIZE_MAX;
}

// Larger ones are measured. Where many puts with an immediate or gets of up to 8 KiB are under way,
// the target has work in any case, and shares the copying; the others, each of which is waited for,
// are measured by copy_in_post (docs/decisions/0060-small-copies-in-the-post.md).
constexpr std::size_t chosen_from(bulk_stream::kind what) noexcept {
  return what == bulk_stream::kind::put ? way_chooser::FROM : 2 * way_chooser::FROM;
}

// Smaller gets are not worth a system call, nor are puts of this size and less.
constexpr std::size_t SMALL_GET = 1024, SMALL_PUT = 2048;

// Is this operation of more than way_chooser::FROM bytes one that goes that way as a matter of
// course? One less, then.
template <std::size_t N>
bool is_unmeasured(std::array<std::atomic<std::uint32_t>, N>& classes, std::size_t size) noexcept {
  const std::size_t number = way_chooser::class_of(size);
  if (number >= N) return false;
  std::atomic<std::uint32_t>& left = classes[number];
  const std::uint32_t n = left.load(std::memory_order_relaxed);
  if (n != 0) left.store(n - 1, std::memory_order_relaxed);
  return n != 0;
}

// A put of 2 to 8 KiB with an immediate, between polls that are several times more frequent: its
// program waits for answers. Where such puts come one upon the other the lane has more bandwidth,
// since the target shares the copying.
bool is_waited_for(peer::spared& of, std::uint32_t polls) noexcept {
  constexpr std::uint32_t POLLS_BETWEEN = 8;
  // Relaxed, as in copy_in_post.
  const bool is_apart = polls - of.polls_at_put.load(std::memory_order_relaxed) >= POLLS_BETWEEN;
  of.polls_at_put.store(polls, std::memory_order_relaxed);
  return is_apart;
}

}  // namespace

endpoint::endpoint(connections& peers, device_queues& queues) noexcept
    : peers_(peers), out_(queues.out), flow_(queues.flow), gets_(queues.gets) {}

errorcode_t endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                  std::size_t head_size, const void* payload,
                                  std::size_t size) noexcept {
  tx_lane* lane = out_.own_or_unmade(rank);
  // What needs no call needs no place for registers either.
  if (lane == nullptr || head_size != 0 || size > base::COPIED_WITHOUT_CALL ||
      lane->seems_closed() || lane->seems_full()) [[unlikely]]
    return send_inline_otherwise(rank, imm, head, head_size, payload, size);
  return write_message(*lane, imm, nullptr, 0, payload, size);
}

std::uint64_t endpoint::unconsumed(int rank) noexcept { return out_.unconsumed(rank); }

[[gnu::noinline]] errorcode_t endpoint::send_inline_otherwise(int rank, std::uint32_t imm,
                                                              const void* head,
                                                              std::size_t head_size,
                                                              const void* payload,
                                                              std::size_t size) noexcept {
  if (tx_lane* const own = out_.own(rank); own != nullptr) [[likely]] {
    if (own->seems_closed()) return errorcode_t::fatal;
    return own->is_full() ? errorcode_t::retry_nomem
                          : write_message(*own, imm, head, head_size, payload, size);
  }
  outbox::hold lane;
  if (const errorcode_t rc = out_.acquire(rank, lane); rc != errorcode_t::done) return rc;
  return write_message(*lane, imm, head, head_size, payload, size);
}

errorcode_t endpoint::send(const net::net_op& op) noexcept {
  if (op.size <= SLOT_DATA) {
    const errorcode_t rc = send_inline(op.rank, op.imm, nullptr, 0, op.buffer, op.size);
    // The bytes are in the slot, so the packet is free already.
    if (rc == errorcode_t::done && op.packet != nullptr) mem::pool_of(*op.packet).put(op.packet);
    return rc;
  }
  if (tx_lane* mine = out_.own(op.rank); mine != nullptr) [[likely]] {
    if (mine->seems_closed()) return errorcode_t::fatal;
    return mine->is_full() ? errorcode_t::retry_nomem : send_packet(op, *mine);
  }
  outbox::hold lane;
  if (const errorcode_t rc = out_.acquire(op.rank, lane); rc != errorcode_t::done) return rc;
  return send_packet(op, *lane);
}

errorcode_t endpoint::send_packet(const net::net_op& op, tx_lane& lane) noexcept {
  mem::packet* p = op.packet;
  if (p == nullptr) {
    // A buffer that the peer cannot see: copied to a packet that it can.
    p = peers_.chunks().get();
    if (p == nullptr) return errorcode_t::retry_nopacket;
    std::memcpy(p->payload(), op.buffer, op.size);
  }
  slot_header h{op.imm, sizeof(packet_record), slot_kind::packet, MAY_KEEP};
  // A message to ourselves just passes the packet on. A peer borrows it, if the pool has lent few
  // enough; else it reads it in place and returns it right away.
  if (op.rank != peers_.config().book->rank() && !out_.lend(op.rank, p)) {
    h.flags = 0;
    p->state.store(mem::packet_state::lent, std::memory_order_relaxed);
    if (!flow_.watch(op.rank, p)) {
      p->state.store(mem::packet_state::out, std::memory_order_relaxed);
      if (op.packet == nullptr) mem::pool_of(*p).put(p);
      return errorcode_t::retry_nomem;
    }
  }
  const packet_record r{peers_.arena().offset_of(p), static_cast<std::uint32_t>(op.size), 0};
  std::memcpy(lane.next().data, &r, sizeof(r));
  lane.publish(h);
  return errorcode_t::done;
}

// By the calling thread's own lane, if it is the only one, or to memory of this process: what rma()
// finds out for every put.
errorcode_t endpoint::put_inline(const net::small_put& what) noexcept {
  tx_lane* const lane = out_.own(what.rank);
  if (lane == nullptr || what.size > MAX_SLOT_PUT || !out_.may_put(what.rank))
    return errorcode_t::retry;
  const peer* const who = peers_.find(what.rank);
  // edge peer.mapped: partner is the release store in map_locked().
  if (who == nullptr || who->state.load(std::memory_order_acquire) != contact::mapped ||
      who->has_ended() || who->rows == nullptr ||
      what.remote.slot >= mem::region_table::MAX_REGIONS)
    return errorcode_t::retry;
  if (what.size >= single_copy_min(peers_.config()) || !peers_.config().shm_pipelined_copy)
      [[unlikely]]
    return errorcode_t::retry;
  if (!mem::region_table::is_host_range(who->rows, {what.remote.slot, what.remote.generation},
                                        what.offset, what.size)) [[unlikely]]
    return errorcode_t::retry;
  if (who->memory.is_own()) return put_inline_to_self(what);
  if (lane->seems_closed() || lane->is_full() || !out_.begin_put(what.rank, *lane)) [[unlikely]]
    return errorcode_t::retry;
  write_put(*lane, {what.remote.slot, what.remote.generation, what.offset}, what.data, what.size,
            what.has_imm ? &what.imm : nullptr);
  return errorcode_t::done;
}

errorcode_t endpoint::put_inline_to_self(const net::small_put& what) noexcept {
  if (what.has_imm) return errorcode_t::retry;  // to_self() has a slot for it
  void* const there = peers_.config().regions->find({what.remote.slot, what.remote.generation},
                                                    what.offset, what.size);
  if (there == nullptr) return errorcode_t::retry;
  std::memmove(there, what.data, what.size);  // the two may overlap: it is one memory
  return errorcode_t::done;
}

errorcode_t endpoint::put(const net::net_op& op) noexcept {
  return rma(bulk_stream::kind::put, op);
}
errorcode_t endpoint::put_imm(const net::net_op& op) noexcept {
  return rma(bulk_stream::kind::put_imm, op);
}
errorcode_t endpoint::get(const net::net_op& op) noexcept {
  return rma(bulk_stream::kind::get, op);
}

// A put needs to know the peer's registrations, so it waits for the peer's hello.
errorcode_t endpoint::meet(int rank, peer*& who) noexcept {
  if (rank < 0 || rank >= peers_.size()) return errorcode_t::fatal;
  who = peers_.find(rank);
  if (who == nullptr || who->state.load(std::memory_order_relaxed) == contact::none) {
    peers_.connect(rank);
    who = peers_.find(rank);
    if (who == nullptr) return errorcode_t::retry_nomem;
  }
  if (who->has_ended()) return errorcode_t::fatal;
  // edge peer.mapped: partner is the release store in map_locked().
  return who->state.load(std::memory_order_acquire) == contact::mapped ? errorcode_t::done
                                                                       : errorcode_t::retry_nomem;
}

errorcode_t endpoint::rma(bulk_stream::kind what, const net::net_op& op) noexcept {
  peer* who = nullptr;
  if (const errorcode_t rc = meet(op.rank, who); rc != errorcode_t::done) return rc;
  const net::remote_view there = peers_.check_remote(op.rank, op.remote);
  if (there.what != net::remote_view::answer::ok || op.remote_offset > there.size ||
      op.size > there.size - op.remote_offset) {
    return flow_.fail_later(op.rank, op.context, reason_of(copied::unknown));
  }
  if (who->memory.is_own()) return to_self(what, op);
  const net::fabric_config& config = peers_.config();
  const bool kernel = who->single_copy.load(std::memory_order_relaxed);
  const bool at_once = kernel && (op.size >= single_copy_min(config) || !config.shm_pipelined_copy);
  const copy_way way = at_once ? copy_way::kernel : copy_way::pipeline;
  const bool is_chosen = !at_once && op.size > chosen_from(what) &&
                         config.shm_single_copy_min == 0 && config.shm_pipelined_copy;
  using by = bulk_stream::chosen_by;
  if (op.fence) return flow_.post(what, op, way, is_chosen ? by::chooser : by::caller);
  if (op.size == 0) {
    return what == bulk_stream::kind::put_imm ? post_immediate(op) : errorcode_t::done;
  }
  // The kernel would not wait for what is still in a lane.
  outbox::mark ignored;
  const auto has_open_puts = [&] { return out_.find_open_puts(op.rank, ignored); };
  if (at_once && has_open_puts()) [[unlikely]]
    return flow_.post(what, op, way, by::caller);
  if (at_once) return copy_now(what, *who, op, false);
  // What a lane takes in order is as fast there. A lane that threads share is not held for a copy.
  const bool suits_lane = what == bulk_stream::kind::put && op.size <= bulk_stream::PIECE &&
                          (op.context == nullptr || op.in_order);
  const bool has_lane = what != bulk_stream::kind::put_imm || out_.own(op.rank) != nullptr;
  const bool may_be_at_once = is_chosen && kernel && !suits_lane && has_lane;
  if (may_be_at_once && !has_open_puts() &&
      is_unmeasured(who->unmeasured.by_kernel[what == bulk_stream::kind::get], op.size))
    return copy_now(what, *who, op, true);
  // A get that is posted while nothing is under way is waited for. Several at once are faster by
  // the target, which copies the first while the next are on their way.
  const bool is_small_get = what == bulk_stream::kind::get && op.size >= SMALL_GET && !is_chosen;
  const bool is_medium_put =
      what == bulk_stream::kind::put_imm && has_lane && op.size > SMALL_PUT && !is_chosen;
  bool is_timed = false;  // a get that goes to the target
  if ((is_small_get || is_medium_put) && kernel && config.shm_single_copy_min == 0) {
    copy_in_post& small = who->unmeasured.in_post_of(is_small_get, op.size);
    const auto picked = is_small_get
                            ? small.pick(!flow_.is_busy() && gets_.is_empty())
                            : small.pick_in_turn(is_waited_for(who->unmeasured, flow_.polls()),
                                                 [] { return base::cpu_ticks(); });
    if (copy_in_post::is_in_post(picked)) {
      if (!has_open_puts()) return copy_measured(what, *who, op, small, picked);
      small.forget_last();
    }
    is_timed = is_small_get && picked == copy_in_post::way::target_timed;
  }
  // A lane promises order and not that the data is there, and order only while it is the only one.
  const bool may_lag = what != bulk_stream::kind::get &&
                       (op.context == nullptr || op.in_order || what == bulk_stream::kind::put_imm);
  const bool in_lane = may_lag && out_.may_put(op.rank);
  if (in_lane && op.size <= MAX_SLOT_PUT) return put_in_slot(what, op);
  if (!config.shm_pipelined_copy && !(may_lag && op.size <= MAX_SLOT_PUT)) {
    return flow_.fail_later(op.rank, op.context,
                            "the system forbids copies between the processes, and "
                            "shm_pipelined_copy is off");
  }
  const bool is_sample = is_chosen && kernel && what == bulk_stream::kind::put_imm &&
                         !is_unmeasured(who->unmeasured.by_lane, op.size);
  const bool fits_lane = in_lane && op.size <= bulk_stream::PIECE;
  if (fits_lane && !is_sample) {
    const errorcode_t rc = put_in_ring(what, op);
    if (rc != errorcode_t::retry_nopacket) return rc;
  }
  if (what == bulk_stream::kind::get && !is_chosen && !flow_.is_busy() &&
      gets_.post(op, out_, is_timed))
    return errorcode_t::posted;
  const by caller = is_timed ? by::caller_timed : by::caller;
  return flow_.post(what, op, way, is_chosen ? by::chooser : caller,
                    {.pipeline = fits_lane, .kernel = may_be_at_once});
}

errorcode_t endpoint::to_self(bulk_stream::kind what, const net::net_op& op) noexcept {
  outbox::hold lane;
  if (what == bulk_stream::kind::put_imm) {
    if (const errorcode_t rc = out_.acquire(op.rank, lane); rc != errorcode_t::done) return rc;
  }
  void* there = peers_.config().regions->find({op.remote.slot, op.remote.generation},
                                              op.remote_offset, op.size);
  if (there == nullptr) {
    return flow_.fail_later(op.rank, op.context, reason_of(copied::unknown));
  }
  // The two may overlap: it is one memory.
  if (op.size != 0 && what == bulk_stream::kind::get) std::memmove(op.buffer, there, op.size);
  if (op.size != 0 && what != bulk_stream::kind::get) std::memmove(there, op.buffer, op.size);
  if (what == bulk_stream::kind::put_imm) lane->publish({op.imm, 0, slot_kind::immediate, 0});
  return errorcode_t::done;
}

errorcode_t endpoint::post_immediate(const net::net_op& op) noexcept {
  outbox::hold lane;
  if (const errorcode_t rc = out_.acquire(op.rank, lane); rc != errorcode_t::done) return rc;
  lane->publish({op.imm, 0, slot_kind::immediate, 0});
  return errorcode_t::done;
}

errorcode_t endpoint::put_in_slot(bulk_stream::kind what, const net::net_op& op) noexcept {
  outbox::hold lane;
  if (const errorcode_t rc = out_.acquire_for_put(op.rank, lane); rc != errorcode_t::done)
    return rc;
  write_put(*lane, {op.remote.slot, op.remote.generation, op.remote_offset}, op.buffer, op.size,
            what == bulk_stream::kind::put_imm ? &op.imm : nullptr);
  return errorcode_t::done;
}

errorcode_t endpoint::put_in_ring(bulk_stream::kind what, const net::net_op& op) noexcept {
  outbox::hold lane;
  if (const errorcode_t rc = out_.acquire_for_put(op.rank, lane); rc != errorcode_t::done)
    return rc;
  put_ring* const ring = out_.ring_of(op.rank);
  std::byte* const at = ring != nullptr ? ring->reserve(*lane, op.size) : nullptr;
  if (at == nullptr) {
    out_.cancel_put(op.rank, *lane);
    return ring != nullptr ? errorcode_t::retry_nomem : errorcode_t::retry_nopacket;
  }
  base::copy_small(at, op.buffer, op.size);
  ring->commit(*lane);
  const chunk_record r{{op.remote.slot, op.remote.generation, op.remote_offset},
                       peers_.arena().offset_of(at),
                       static_cast<std::uint32_t>(op.size),
                       0};
  const std::uint32_t position = lane->position();
  slot& s = lane->at(position);
  std::memcpy(s.data, &r, sizeof(r));
  const bool has_imm = what == bulk_stream::kind::put_imm;
  lane->publish(position, s,
                {has_imm ? op.imm : 0, sizeof(r), slot_kind::put_in_ring,
                 has_imm ? HAS_IMM : std::uint8_t{0}});
  return errorcode_t::done;
}

// A put that is timed is so until the next one (copy_in_post::pick_in_turn()).
errorcode_t endpoint::copy_measured(bulk_stream::kind what, peer& who, const net::net_op& op,
                                    copy_in_post& choice, copy_in_post::way picked) noexcept {
  const bool is_timed = what == bulk_stream::kind::get && picked == copy_in_post::way::post_timed;
  const std::uint64_t from = is_timed ? base::cpu_ticks() : 0;
  const errorcode_t rc = copy_now(what, who, op, true);
  if (is_timed && rc == errorcode_t::done) choice.note(picked, base::cpu_ticks() - from);
  // The kernel cannot copy such memory, or it is an error.
  if (rc == errorcode_t::posted) choice.start_again();
  return rc;
}

errorcode_t endpoint::copy_now(bulk_stream::kind what, peer& who, const net::net_op& op,
                               bool is_chosen) noexcept {
  copied c = copied::done;
  {
    // The immediate's place is taken before the data moves, which is then not copied for nothing.
    outbox::hold lane;
    if (what == bulk_stream::kind::put_imm) {
      if (const errorcode_t rc = out_.acquire(op.rank, lane); rc != errorcode_t::done) return rc;
    }
    c = copy_whole(who, what == bulk_stream::kind::get,
                   {op.remote.slot, op.remote.generation, op.remote_offset}, op.buffer, op.size);
    if (c == copied::done) {
      if (what == bulk_stream::kind::put_imm) lane->publish({op.imm, 0, slot_kind::immediate, 0});
      return errorcode_t::done;
    }
  }
  // It will go the other way. A part may have been copied before, here and below.
  if (c == copied::refused) return errorcode_t::retry;
  // Memory of a device, say, is copied by processors and not by the kernel.
  if (c == copied::failed && is_chosen)
    return flow_.post(what, op, copy_way::pipeline, bulk_stream::chosen_by::caller);
  return flow_.fail_later(op.rank, op.context, reason_of(c));
}

}  // namespace lci::shm
