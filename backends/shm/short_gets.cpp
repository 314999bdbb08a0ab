#include "backends/shm/short_gets.hpp"

#include <cstring>

#include "backends/shm/landing.hpp"
#include "backends/shm/peer.hpp"
#include "backends/shm/single_copy.hpp"
#include "lci/base/platform.hpp"
#include "lci/base/thread_id.hpp"

namespace lci::shm {

bool short_gets::post(const net::net_op& op, outbox& out, bool is_timed) noexcept {
  tx_lane* const lane = out.own(op.rank);
  if (op.size > MOST_SHORT_GET || lane == nullptr || lane->seems_closed() || lane->is_full())
    return false;
  outbox::mark puts;
  const bool has_puts = out.find_open_puts(op.rank, puts);
  if (has_puts && puts.used != 1u << base::thread_id()) return false;
  name to;
  if (!open({static_cast<std::byte*>(op.buffer), op.size, op.context,
             is_timed && !has_puts ? base::cpu_ticks() : 0, op.rank},
            to))
    return false;
  const get_record r{
      {op.remote.slot, op.remote.generation, op.remote_offset}, op.size, to.slot, to.generation};
  std::memcpy(lane->next().data, &r, sizeof(r));
  lane->publish({0, sizeof(r), slot_kind::get_request, 0});
  return true;
}

void short_gets::take_reply(rx_lane& lane, const chunk_record& r, mem::packet& packet,
                            net::sink& to) noexcept {
  open_get get;
  const bool is_one = close(lane.rank, {r.where.region_slot, r.where.region_generation}, get);
  const bool is_right = is_one && r.size == get.size;
  if (is_right) land(get.buffer, packet.payload(), r.size);
  mem::return_borrowed(packet);
  if (is_right && get.started_ticks != 0)
    lane.from->unmeasured.in_post_of(true, get.size)
        .note(copy_in_post::way::target, base::cpu_ticks() - get.started_ticks);
  if (is_one) finish(get, is_right ? nullptr : "the answer has another size", to);
}

void short_gets::take_refusal(int rank, const get_failure& r, net::sink& to) noexcept {
  open_get get;
  if (close(rank, {r.to_slot, r.to_generation}, get)) finish(get, reason_of(copied::unknown), to);
}

void short_gets::drop_peer(int rank, net::sink& to) noexcept {
  for (open_get get; drop(rank, get);) finish(get, "the peer has ended", to);
}

void short_gets::finish(const open_get& get, const char* why, net::sink& to) noexcept {
  if (why != nullptr)
    to.on_error(get.rank, get.context, why);
  else if (get.context != nullptr)
    to.on_complete(get.context);
  // edge short_gets.finished: partner is is_empty().
  open_.fetch_sub(1, std::memory_order_release);
}

}  // namespace lci::shm
