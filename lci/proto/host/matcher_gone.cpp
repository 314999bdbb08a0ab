// What leaves a matching engine without meeting anything: a rank, a device, a pool or a network has
// ended.
#include <utility>

#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/matcher.hpp"
#include "lci/proto/host/receive_ends.hpp"

namespace lci::proto {

// A receive was filed for a rank that may have ended. posted: it was ended, or the thread that
// ended it comes by; fatal: it is out of the engine, and nothing would have met it; retry: that
// rank is there.
errorcode_t matcher::look_at_peer(host_context& host, const receive& record, int rank) noexcept {
  // take_lost() has either found the receive, or was over before it was filed: then the engine's
  // lock has brought us what the table says.
  if (host.engine.shared.peers.has_failed(rank)) {
    end_receives(take_lost(host, rank));
    return errorcode_t::posted;
  }
  if (!host.engine.watch.has_ended(rank)) return errorcode_t::retry;
  return is_for_parted(host, rank, record) ? errorcode_t::fatal : errorcode_t::posted;
}

errorcode_t matcher::end_early(host_context& host, receive& record, int rank) noexcept {
  const errorcode_t code = look_at_peer(host, record, rank);
  if (code == errorcode_t::fatal) take_home(record);
  return code == errorcode_t::retry ? errorcode_t::posted : code;
}

// A list, through pool_next, of the receives that left the engine, before `behind`.
receive* matcher::remove(const receive_test& takes, receive* behind) noexcept {
  engine_->remove_recvs([&](int source, void* value) {
    auto& to = *static_cast<receive*>(value);
    if (!takes(source, to)) return false;
    to.pool_next = behind;
    behind = &to;
    return true;
  });
  return behind;
}

// A receive that this thread has just filed for a rank that left: true if nothing can meet it any
// more and it has left the engine. By its address, and by the thread, since a message may have met
// it and another thread have filed the same record; once parting is over no other takes it out.
bool matcher::is_for_parted(host_context& host, int rank, const receive& record) noexcept {
  switch (host.parted_from(rank)) {
    case parting::not_yet:
      break;
    case parting::begun:  // by another thread, which may have passed by
      if (end_receives(take_lost(host, rank)) != 0) host.engine.watch.miss(rank);
      break;
    case parting::over: {
      const auto thread = static_cast<std::uint16_t>(base::thread_id());
      return remove([&](int source, const receive& to) {
               return source == rank && &to == &record && to.thread == thread;
             }) != nullptr;
    }
  }
  return false;
}

receive* matcher::take_lost(const host_context& host, int rank, receive* behind) noexcept {
  return remove([&](int source, const receive& to) { return source == rank && to.host == &host; },
                behind);
}

std::size_t end_receives(receive* taken, bool is_told) noexcept {
  std::size_t ended = 0;
  while (taken != nullptr) {
    receive& to = *std::exchange(taken, taken->pool_next);
    if (was_claimed(to)) continue;
    ++ended;
    comp_impl_t* const comp = to.user.comp;
    if (is_told) {
      drop(to);
      continue;
    }
    take_home(to);
    abandon(comp);
  }
  return ended;
}

bool matcher::take_back(const waiter& by) noexcept {
  receive* const to = remove([&](int, const receive& each) { return each.user.comp == &by; });
  if (to == nullptr || was_claimed(*to)) return false;
  take_home(*to);
  return true;
}

receive* matcher::take_back(const std::function<bool(const comp_impl_t& by)>& is_one) noexcept {
  return remove([&](int, const receive& each) {
    return each.user.comp != nullptr && is_one(*each.user.comp);
  });
}

void matcher::forget_messages(host_common& shared,
                              const std::function<bool(message&)>& takes) noexcept {
  message* taken = nullptr;
  engine_->remove_sends([&](void* value) {
    auto& m = *static_cast<message*>(value);
    if (!takes(m)) return false;
    m.pool_next = taken;
    taken = &m;
    return true;
  });
  while (taken != nullptr) give_back(shared, *std::exchange(taken, taken->pool_next));
}

// That rank may have left one network only: requests that came over another one still count.
void matcher::forget_requests_of(host_common& shared, int rank) noexcept {
  forget_messages(shared, [&](message& m) {
    return m.what == message::form::rts && m.rank == rank && m.host->engine.watch.has_ended(rank);
  });
}

receive* matcher::part_with(const host_context& host, receive* behind) noexcept {
  behind = remove([&](int, const receive& to) { return to.host == &host; }, behind);
  forget_messages(host.common, [&](message& m) {
    if (m.host != &host) return false;
    if (m.what == message::form::rts) return true;
    m.host = nullptr;
    m.left_by = &host.engine.fabric;
    return false;
  });
  return behind;
}

void matcher::part_with(host_common& shared, const mem::packet_pool& pool) noexcept {
  forget_messages(shared, [&](message& m) {
    return m.packet != nullptr && shared.core.arena.contains(m.packet) && m.packet->pool == &pool;
  });
}

void matcher::part_with(host_common& shared, const net::fabric& network) noexcept {
  forget_messages(shared, [&](message& m) {
    return m.host == nullptr && m.left_by == &network && m.packet != nullptr &&
           !shared.core.arena.contains(m.packet);
  });
}

void matcher::empty_st(host_common& shared) {
  engine_->drain_st([&](void* value, matching_entry_type_t type, bool is_raw) {
    if (is_raw) return;
    if (type == matching_entry_type_t::send)
      return give_back(shared, *static_cast<message*>(value));
    auto& to = *static_cast<receive*>(value);
    if (was_claimed(to)) return;
    to.host->open_receives.add(-1);
    shared.receives.put(&to);
  });
}

}  // namespace lci::proto
