#include "lci/proto/host/matcher.hpp"

#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lci/base/copy.hpp"
#include "lci/base/race_point.hpp"
#include "lci/errors.hpp"
#include "lci/net/wanted_by.hpp"
#include "lci/proto/engine/waiter.hpp"
#include "lci/proto/host/host_context.hpp"
#include "lci/proto/host/receive_ends.hpp"
#include "lci/proto/host/rendezvous_answer.hpp"

namespace lci::proto {

namespace {

void give_back(host_context& host, message& m) noexcept { give_back(host.common, m); }

status_t outcome(const receive& to, const message& from) noexcept {
  return outcome(to, from.rank, from.tag, from.size);
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

// The bytes are in the buffer. `filed`: the message, if it had to wait; what both held is home
// before the user's code runs, which may need it.
void conclude(host_context& host, receive& to, const status_t& status, message* filed) noexcept {
  const std::uint32_t thread = base::thread_id();
  comp_impl_t* const comp = to.user.comp;
  const std::uint32_t serial = to.user.serial;
  net::wanted_by::note(to.thread);
  to.host->open_receives.add(-1, thread);
  host.common.receives.put(&to, thread);
  if (filed != nullptr) give_back(host, *filed);
  host.engine.signals.signal_given(comp, serial, status, true, news::receive);
}

// The status is what its object is to be told, and the bytes are in the buffer.
[[gnu::noinline]] net::verdict conclude_anyhow(host_context& host, receive& to) noexcept {
  const status_t status = to.user.status;
  conclude(host, to, status, nullptr);
  return net::verdict::taken;
}

// Its record is home, but not reused before this thread posts again, which a handler may do.
[[gnu::noinline]] net::verdict tell(host_context& host, const receive& was) noexcept {
  const status_t status = was.user.status;
  host.engine.signals.signal_given(was.user.comp, was.user.serial, status, true, news::receive);
  return net::verdict::taken;
}

// conclude() with tail calls only, for a thread below OVERFLOW_THREAD.
inline net::verdict conclude_quickly(host_context& host, receive& to,
                                     std::uint32_t thread) noexcept {
  if (!host.common.receives.try_put_at_hand(&to, thread)) [[unlikely]]
    return conclude_anyhow(host, to);
  net::wanted_by::note(to.thread);
  to.host->open_receives.add(-1, thread);
  return signaller::count_given(to.user.comp, to.user.serial) ? net::verdict::taken
                                                              : tell(host, to);
}

// A receive and the bytes for it, which lie in `filed` if the message had to wait.
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
  conclude(host, to, status, filed);
}

// True for nearly every receive: the bytes are copied, and its object is told.
inline bool is_ready_for(const receive& to, std::size_t size) noexcept {
  return to.kind == mem::mem_kind::host && to.preposted.generation == 0 &&
         size <= to.user.status.size;
}

[[gnu::noinline]] net::verdict complete_large(host_context& host, receive& to,
                                              const std::byte* data) noexcept {
  base::copy_small(to.user.status.buffer, data, to.user.status.size);
  return conclude_anyhow(host, to);
}

// A receive that is too small is used up by its error.
LCI_COLD void refuse(host_context& host, receive& to, const match::match_key& key) noexcept {
  drop_unsuited(to, host.engine.errors.keep_made([&] {
    return truncation_error(match::truncation_text(key, to.user.status.size));
  }));
}

// The bytes, into the packet that `m` has, or beside it. False: there is no memory.
bool copy_into(message& m, const net::arrival& from, std::size_t room) noexcept {
  std::byte* to = m.packet->payload();
  if (from.size > room) [[unlikely]] {
    m.apart.reset(new (std::nothrow) std::byte[from.size]);
    to = m.apart.get();
    if (to == nullptr) return false;
  }
  std::memcpy(to, from.data, from.size);
  m.data = to;
  return true;
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

// An eager message for a receive that has left its engine. False: that was claimed or is too small,
// and is used up.
bool matcher::give_to(host_context& host, receive& to, const match::match_key& key,
                      const std::byte* data) noexcept {
  if (was_claimed(to)) return false;
  if (key.size > to.user.status.size) {
    refuse(host, to, key);
    return false;
  }
  complete(host, to, outcome(to, key.rank, key.tag, key.size), data, nullptr);
  return true;
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

// The receive has left its engine. thread: below OVERFLOW_THREAD.
inline net::verdict matcher::give(host_context& host, const net::arrival& from, tag_t tag,
                                  matching_policy_t policy, receive& to,
                                  std::uint32_t thread) noexcept {
  status_t& status = to.user.status;
  // Read once: compilers cannot know that what is written here leaves it as it is.
  const std::size_t size = from.size;
  if (!is_ready_for(to, size)) [[unlikely]]
    return give_or_keep(host, from, tag, policy, to);
  void* const buffer = status.buffer;
  set_arrival(status, from.rank, tag, buffer, size);
  if (size > base::COPIED_WITHOUT_CALL) return complete_large(host, to, from.data);
  base::copy_small(buffer, from.data, size);
  return conclude_quickly(host, to, thread);
}

// The message path: all that a message with a receive in host memory needs is inlined here; the
// slow paths are tail calls.
net::verdict matcher::on_eager(host_context& host, const net::arrival& from, tag_t tag,
                               matching_policy_t policy) noexcept {
  const std::uint32_t thread = base::detail::thread_id_tls;
  if (map_ == nullptr || thread >= base::OVERFLOW_THREAD) [[unlikely]]
    return meet(host, from, tag, policy);
  const auto found =
      map_->take_recv_alone(match::exact_key::of(match::match_key{from.rank, tag, policy, 0}));
  if (!found.is_sure) return meet(host, from, tag, policy);
  if (found.value == nullptr) return keep(host, from, tag, policy);
  return give(host, from, tag, policy, *static_cast<receive*>(found.value), thread);
}

// The same where threads share the engine, and in every other case.
net::verdict matcher::meet(host_context& host, const net::arrival& from, tag_t tag,
                           matching_policy_t policy) noexcept {
  const match::match_key key{from.rank, tag, policy, from.size};
  auto* const to = static_cast<receive*>(
      map_ != nullptr ? map_->take_recv_of(match::exact_key::of(key)) : engine_->take_recv(key));
  if (to == nullptr) return keep(host, from, tag, policy);
  const std::uint32_t thread = base::thread_id();
  return thread < base::OVERFLOW_THREAD ? give(host, from, tag, policy, *to, thread)
                                        : give_or_keep(host, from, tag, policy, *to);
}

// Every kind of receive. If it cannot take the message, the next one may.
net::verdict matcher::give_or_keep(host_context& host, const net::arrival& from, tag_t tag,
                                   matching_policy_t policy, receive& to) noexcept {
  return give_to(host, to, {from.rank, tag, policy, from.size}, from.data)
             ? net::verdict::taken
             : keep(host, from, tag, policy);
}

// Files a message that no receive waits for, or gives it to one that was posted meanwhile.
net::verdict matcher::keep(host_context& host, const net::arrival& from, tag_t tag,
                           matching_policy_t policy) noexcept {
  const match::match_key key{from.rank, tag, policy, from.size};
  const std::byte* const data = from.data;
  const std::size_t size = key.size;
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
      if (m->packet == nullptr || !copy_into(*m, from, host.engine.pool.payload_size())) {
        give_back(host, *m);
        return net::verdict::deferred;
      }
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
  const peer_watch& peers = host.engine.watch;
  if (peers.has_ended(rank)) [[unlikely]]
    return net::verdict::taken;
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
  if (!file(host, key, *m)) {
    give_back(host, *m);
    return net::verdict::deferred;
  }
  // The requests of a rank that has ended may have been forgotten before this one was filed.
  if (peers.has_ended(rank)) [[unlikely]]
    forget_requests_of(host.common, rank);
  return net::verdict::taken;
}

errorcode_t matcher::post(receive& record, int rank, tag_t tag, matching_policy_t policy,
                          status_t& got) {
  host_context& host = *record.host;
  host.open_receives.add(1);
  message* from;
  record.thread = static_cast<std::uint16_t>(base::thread_id());
  record.preposted = {};
  wire::name preposted;
  try {
    if (record.kind == mem::mem_kind::device && is_offerable(rank, tag, policy)) {
      host.accelerator->prepare(record, rank, tag, first_rcomp + static_cast<rcomp_t>(policy));
      preposted = record.preposted;
    }
    from = static_cast<message*>(
        engine_->insert_recv({rank, tag, policy, record.user.status.size}, record.filed));
  } catch (...) {
    if (record.preposted.generation != 0) host.accelerator->withdraw(record);
    take_home(record);
    throw;
  }
  if (from == nullptr) {
    LCI_RACE_POINT("matcher.post.after_filing");
    if (host.engine.shared.peers.epoch() != 0 && rank >= 0) [[unlikely]] {
      if (const errorcode_t code = look_at_peer(host, record, rank); code != errorcode_t::retry) {
        if (code == errorcode_t::fatal) {
          if (preposted.generation != 0) host.accelerator->withdraw(record);
          take_home(record);
        }
        return code;
      }
    }
    if (preposted.generation != 0) host.accelerator->publish(rank, preposted, *engine_);
    return errorcode_t::posted;
  }
  if (preposted.generation != 0) [[unlikely]]
    host.accelerator->withdraw(record);  // no sender was told
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

}  // namespace lci::proto
