// How an operation is issued in the pipeline: its pieces go into the poller's lane as far as the
// window, the lane and memory allow, and come back; gets are asked for. Threads: the one that is
// inside the device's `polling`. Always true: what answers false has changed nothing and is asked
// again.
#include <algorithm>
#include <cstring>
#include <new>

#include "backends/shm/bulk_stream.hpp"
#include "backends/shm/connections.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci::shm {

void bulk_stream::retire(flow& f) noexcept {
  while (!f.in_flight.empty() && has_come_back(*f.in_flight.front().packet)) {
    const piece p = f.in_flight.front();
    f.in_flight.pop_front();
    if (!p.is_read) f.bytes -= p.size;
    p.of->out -= p.size;
    if (p.packet->length == CHUNK_REFUSED && p.of->why == nullptr) {
      p.of->why = reason_of(copied::unknown);
    } else if (p.packet->length == CHUNK_NOT_READ) {
      f.may_share = false;
      p.of->is_to_repeat = true;
    }
    take_home(p.packet);
  }
}

bool bulk_stream::issue(flow& f, stream& s) noexcept {
  if (!s.has_started) {
    if (s.has_fence && !f.in_flight.empty()) return false;
    if (s.before.used != 0 && !out_.is_past(s.rank, s.before)) return false;
    s.has_started = true;
    choose(f, s);
  }
  if (s.waits_for_others) {
    if (!is_alone(f)) return false;
    s.waits_for_others = false;
  }
  if (s.why != nullptr) return !s.is_reply || issue_failure(s);
  if (s.way != copy_way::pipeline) return issue_by_kernel(f, s);
  if (s.what == kind::get && !s.is_reply) return issue_get(s);
  return issue_pieces(f, s);
}

const std::byte* bulk_stream::source_of(const stream& s, std::size_t size) const noexcept {
  if (!s.is_reply) return s.buffer + s.issued;
  return static_cast<const std::byte*>(peers_.config().regions->find(
      {s.source.region_slot, s.source.region_generation}, s.source.offset + s.issued, size));
}

bool bulk_stream::issue_pieces(flow& f, stream& s) noexcept {
  do {
    const std::size_t size = std::min(PIECE, s.size - s.issued);
    if (f.bytes + size > WINDOW) return false;
    tx_lane* lane = nullptr;
    if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
    const std::byte* from = source_of(s, size);
    if (from == nullptr) {
      s.why = "the registration ended while a get was reading it";
      return issue_failure(s);
    }
    if (!issue_piece(f, s, *lane, from, size)) return false;
  } while (s.issued < s.size);
  return true;
}

// A packet for that piece, which is in flight now and says how long it is. Null: no memory.
mem::packet* bulk_stream::send_off(flow& f, const piece& what) noexcept {
  mem::packet* const p = peers_.chunks().get();
  if (p == nullptr) return nullptr;
  try {
    f.in_flight.push_back({p, what.size, what.of, what.is_read});
  } catch (const std::bad_alloc&) {
    mem::pool_of(*p).put(p);
    return nullptr;
  }
  what.of->out += what.size;
  p->length = static_cast<std::uint32_t>(what.size);
  p->state.store(mem::packet_state::lent, std::memory_order_relaxed);
  return p;
}

bool bulk_stream::issue_piece(flow& f, stream& s, tx_lane& lane, const std::byte* from,
                              std::size_t size) noexcept {
  mem::packet* const p = send_off(f, {nullptr, size, &s, false});
  if (p == nullptr) return false;
  f.bytes += size;
  std::memcpy(p->payload(), from, size);
  const bool is_last = s.issued + size == s.size;
  chunk_record r;
  r.where = {s.there.region_slot, s.there.region_generation, s.there.offset + s.issued};
  r.data = peers_.arena().offset_of(p);
  r.size = static_cast<std::uint32_t>(size);
  std::memcpy(lane.next().data, &r, sizeof(r));
  slot_header h{0, sizeof(r), slot_kind::put_packet, 0};
  if (is_last && s.is_reply) h.flags = GET_DONE;
  if (is_last && s.what == kind::put_imm) {
    h.flags = HAS_IMM;
    h.imm = s.imm;
  }
  lane.publish(h);
  s.issued += size;
  return true;
}

// One piece, in a packet that the pool remembers: no record, and nothing to come back to. It may
// overtake what waits in the flow, with which it has no order. False: it is to wait there, too.
bool bulk_stream::reply_at_once(int rank, const get_record& asked, const void* from) noexcept {
  if (asked.size > MOST_SHORT_GET) return false;
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(rank, lane) != errorcode_t::done) return false;
  mem::packet* const p = peers_.chunks().get();
  if (p == nullptr) return false;
  std::memcpy(p->payload(), from, asked.size);
  p->length = static_cast<std::uint32_t>(asked.size);
  // From here on another device may take it back, once the peer has ended.
  if (!out_.lend(rank, p)) {
    mem::pool_of(*p).put(p);
    return false;
  }
  const chunk_record r{{asked.to_slot, asked.to_generation, 0},
                       peers_.arena().offset_of(p),
                       static_cast<std::uint32_t>(asked.size),
                       0};
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::put_packet, GET_DONE});
  return true;
}

bool bulk_stream::issue_get(stream& s) noexcept {
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(s.rank, lane) != errorcode_t::done) return false;
  mem::region_name to;
  try {
    // The peer will write to us, so the destination is a region for the time being.
    to = peers_.config().regions->insert(s.buffer, s.size);
  } catch (const std::exception&) {
    return false;  // the table is full: some registration will end; or there is no memory
  }
  s.source = {to.slot, to.generation, 0};
  const get_record r{s.there, s.size, to.slot, to.generation};
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::get_request, 0});
  return true;
}

bool bulk_stream::issue_failure(const stream& s) noexcept {
  return refuse_get(s.rank, {s.there.region_slot, s.there.region_generation});
}

bool bulk_stream::refuse_get(int rank, const get_failure& r) noexcept {
  tx_lane* lane = nullptr;
  if (out_.acquire_poller(rank, lane) != errorcode_t::done) return false;
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::get_failed, 0});
  return true;
}

}  // namespace lci::shm
