#include "lci/proto/host/matcher.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lci/base/copy.hpp"
#include "lci/base/race_point.hpp"
#include "lci/errors.hpp"
#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/rendezvous_answer.hpp"

namespace lci::proto {

namespace {

void give_back(host_context& host, message& m) noexcept { give_back(host.common, m); }

status_t outcome(const receive& to, const message& from) noexcept {
  return outcome(to, from.rank, from.tag, from.size);
}

// It does not wait any more, and nobody is told.
void take_home(receive& to) noexcept {
  to.host->open_receives.add(-1);
  to.host->common.receives.put(&to);
}

// Ends a receive that has left its engine without a message, or cannot take it.
void drop(receive& to) noexcept {
  host_context& host = *to.host;
  const user_side user = to.user;
  take_home(to);
  host.engine.signals.fail(user);
}

// A GPU brings the bytes to a receive. Takes over the receive.
LCI_COLD void send_to_device(host_context& host, receive& to, const status_t& status,
                             const std::byte* data) noexcept {
  try {
    host.accelerator->deliver(to, status, data);
  } catch (...) {
    host.engine.errors.keep(std::current_exception());
    drop(to);
  }
}

// A receive and the bytes for it, which lie in `filed` if the message had to wait. What both held
// is home before the user's code runs, which may need it.
void complete(host_context& host, receive& to, const status_t& status, const std::byte* data,
              message* filed) noexcept {
  if (to.kind != mem::mem_kind::host && status.size != 0) [[unlikely]] {
    if (!host.accelerator->write_by_cpu(status.buffer, data, status.size)) {
      send_to_device(host, to, status, data);
      if (filed != nullptr) give_back(host, *filed);
      return;
    }
  } else {
    base::copy_small(status.buffer, data, status.size);
  }
  comp_impl_t* const comp = to.user.comp;
  const std::uint32_t serial = to.user.serial;
  host_context& counted = *to.host;
  host.common.receives.put(&to);
  if (filed != nullptr) give_back(host, *filed);
  counted.open_receives.add(-1);
  host.engine.signals.signal_given(comp, serial, status, true, news::receive);
}

// A sender is writing into this receive by itself: the message has to find another one.
bool was_claimed(receive& to) noexcept {
  if (to.preposted.generation == 0 || to.host->accelerator->withdraw(to)) [[likely]]
    return false;
  to.host->common.receives.put(&to);
  return true;
}

// A receive that is too small is used up by its error.
LCI_COLD void refuse(host_context& host, receive& to, const match::match_key& key) noexcept {
  host.engine.errors.keep_made(
      [&] { return truncation_error(match::truncation_text(key, to.user.status.size)); });
  drop(to);
}

bool is_offerable(int rank, tag_t tag, matching_policy_t policy) noexcept {
  return policy == matching_policy_t::rank_tag && rank != ANY_SOURCE && tag != ANY_TAG;
}

}  // namespace

// Brings a matched pair together. False: it does not fit; both are untouched.
bool matcher::deliver(host_context& host, receive& to, message& from) noexcept {
  if (from.size > to.user.status.size) [[unlikely]]
    return false;
  if (from.what == message::form::rts)
    give_answer(to, from);
  else
    complete(host, to, outcome(to, from), from.data, &from);
  return true;
}

// An eager message straight to a receive that waits. False: none is easily found.
bool matcher::hand_over(host_context& host, const match::match_key& key,
                        const std::byte* data) noexcept {
  while (auto* to = static_cast<receive*>(engine_->take_recv(key))) {
    if (was_claimed(*to)) [[unlikely]]
      continue;
    if (key.size <= to->user.status.size) [[likely]] {
      complete(host, *to, outcome(*to, key.rank, key.tag, key.size), data, nullptr);
      return true;
    }
    refuse(host, *to, key);
  }
  return false;
}

// Meets the message with receives until one takes it or none waits, so that it is not lost when one
// is too small. False: there is no memory to file it in.
bool matcher::file(host_context& host, const match::match_key& key, message& m) noexcept {
  try {
    while (auto* to = static_cast<receive*>(engine_->insert_send(key, &m))) {
      if (was_claimed(*to)) [[unlikely]]
        continue;
      if (deliver(host, *to, m)) return true;
      refuse(host, *to, key);
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

net::verdict matcher::on_eager(host_context& host, const net::arrival& from, const std::byte* data,
                               std::size_t size, tag_t tag, matching_policy_t policy) noexcept {
  const match::match_key key{from.rank, tag, policy, size};
  if (hand_over(host, key, data)) return net::verdict::taken;
  host_common& shared = host.common;
  message* m = shared.messages.try_get();
  if (m == nullptr) [[unlikely]]
    return net::verdict::deferred;
  m->rank = from.rank;
  m->tag = tag;
  m->size = size;
  m->host = &host;
  m->packet = nullptr;
  m->data = m->bytes;
  bool kept = false;
  if (size <= message::INLINE_BYTES) {
    m->what = message::form::inlined;
    if (size != 0) std::memcpy(m->bytes, data, size);
  } else {
    // Whether a receive waits is known only after the message is filed, and once filed any thread
    // may take it, so it must be complete before.
    m->what = message::form::packet;
    if (from.packet != nullptr) {
      m->packet = from.packet;
      m->data = data;
      kept = true;
    } else {
      m->packet = host.engine.pool.get();
      if (m->packet == nullptr || size > m->packet->capacity) {
        if (m->packet != nullptr) host.engine.pool.put(m->packet);
        m->packet = nullptr;
        shared.messages.put(m);
        return net::verdict::deferred;
      }
      std::memcpy(m->packet->payload(), data, size);
      m->data = m->packet->payload();
    }
  }
  if (!file(host, key, *m)) [[unlikely]] {
    if (kept) m->packet = nullptr;  // it is not ours
    give_back(host, *m);
    return net::verdict::deferred;
  }
  return kept ? net::verdict::kept : net::verdict::taken;
}

net::verdict matcher::on_rts(host_context& host, int rank, const wire::rts& request,
                             matching_policy_t policy) noexcept {
  message* m = host.common.messages.try_get();
  if (m == nullptr) return net::verdict::deferred;
  m->what = message::form::rts;
  m->rank = rank;
  m->tag = request.tag;
  m->size = request.size;
  m->data = nullptr;
  m->packet = nullptr;
  m->host = &host;
  m->sender = request.sender;
  m->from_device = (request.flags & wire::FROM_DEVICE) != 0;
  const match::match_key key{rank, request.tag, policy, request.size};
  if (file(host, key, *m)) return net::verdict::taken;
  give_back(host, *m);
  return net::verdict::deferred;
}

errorcode_t matcher::post(receive& record, int rank, tag_t tag, matching_policy_t policy,
                          status_t& got) {
  host_context& host = *record.host;
  host.open_receives.add(1);
  message* from;
  record.preposted = {};
  wire::name preposted;
  try {
    if (record.kind == mem::mem_kind::device && is_offerable(rank, tag, policy)) {
      host.accelerator->prepare(record, rank, tag, first_rcomp + static_cast<rcomp_t>(policy));
      preposted = record.preposted;
    }
    from = static_cast<message*>(
        engine_->insert_recv({rank, tag, policy, record.user.status.size}, &record));
  } catch (...) {
    if (record.preposted.generation != 0) host.accelerator->withdraw(record);
    take_home(record);
    throw;
  }
  if (from == nullptr) {
    LCI_RACE_POINT("matcher.post.after_filing");
    // take_lost() has either found the receive, or was over before it was filed: then the engine's
    // lock has brought us what the table says.
    const core& shared = host.engine.shared;
    if (shared.peers.epoch() != 0 && rank >= 0 && shared.peers.has_failed(rank)) [[unlikely]] {
      end_receives(take_lost(host, rank));
      return errorcode_t::posted;
    }
    if (shared.peers.epoch() != 0 && rank >= 0 && shared.peers.has_ended(rank)) [[unlikely]] {
      if (!is_for_parted(host, rank, record)) return errorcode_t::posted;
      if (preposted.generation != 0) host.accelerator->withdraw(record);
      take_home(record);
      return errorcode_t::fatal;
    }
    if (preposted.generation != 0) host.accelerator->publish(rank, preposted, *engine_);
    return errorcode_t::posted;
  }
  if (preposted.generation != 0) [[unlikely]]
    host.accelerator->withdraw(record);  // nobody was told
  if (from->what == message::form::rts) {
    give_answer(record, *from);
    return errorcode_t::posted;
  }
  if (record.kind != mem::mem_kind::host && from->size != 0) {
    if (!host.accelerator->write_by_cpu(record.user.status.buffer, from->data, from->size)) {
      send_to_device(host, record, outcome(record, *from), from->data);
      give_back(host, *from);
      return errorcode_t::posted;
    }
  } else if (from->size != 0) {
    std::memcpy(record.user.status.buffer, from->data, from->size);
  }
  got = outcome(record, *from);
  host.open_receives.add(-1);
  host.common.receives.put(&record);
  give_back(host, *from);
  return errorcode_t::done;
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

// A receive that was just filed for a rank that left: true if nothing can meet it any more
// and it has left the engine. By its address: once parting is over nobody else takes it out.
bool matcher::is_for_parted(host_context& host, int rank, const receive& record) noexcept {
  switch (host.parted_from(rank)) {
    case parting::not_yet:
      break;
    case parting::begun:  // by another thread, which may have passed by
      if (end_receives(take_lost(host, rank)) != 0) host.engine.watch.miss(rank);
      break;
    case parting::over:
      return remove([&](int source, const receive& to) {
               return source == rank && &to == &record;
             }) != nullptr;
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
