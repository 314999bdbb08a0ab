// The raw network layer: thin access for tools. Must not be mixed with progress on one device.
#include "lci/net.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "lci/api/buffer_kind.hpp"
#include "lci/api/buffers.hpp"
#include "lci/api/post_run.hpp"
#include "lci/api/remote_name.hpp"
#include "lci/api/resolve.hpp"
#include "lci/errors.hpp"
#include "lci/proto/host/raw.hpp"

namespace lci {
namespace detail {

namespace {

constexpr std::size_t MAX_POLLS = LCI_BACKEND_MAX_POLLS;

struct target {
  endpoint_impl_t& end;
  proto::raw_net& raw;
};

void check_memory(const net_post_args& a, const proto::core& core, bool checks_pointers) {
  api::check_buffer("buffer", a.buffer, a.size, a.mr);
  api::check_room("buffer", a.buffer, a.size, core.arena);
  if (checks_pointers) api::check_pointer("buffer", a.buffer, a.size, a.mr);
}

target find_target(const char* who, const net_post_args& a) {
  endpoint_impl_t& end = api::find_endpoint(who, a.runtime, a.device, a.endpoint);
  proto::core& core = end.device.owner().core;
  if (a.rank < 0 || a.rank >= core.n) api::throw_bad_rank(who, a.rank, core.n);
  check_memory(a, core, end.checks_pointers);
  end.device.queues.engine().watch.check(a.rank);
  return {end, end.device.raw()};
}

void check_short(const net_post_args& a, const target& to) {
  // Some are copied into a packet.
  const std::size_t limit = std::min({to.end.device.context.attr.max_inject_size,
                                      to.raw.longest_whole(a.rank), to.raw.pool().payload_size()});
  if (a.size > limit)
    throw argument_error("size " + std::to_string(a.size) +
                         " is more than a short operation carries: at most " +
                         std::to_string(limit));
}

// No protocol above these posts could carry the bytes in another way.
[[noreturn]] LCI_COLD void throw_off_network(const net_post_args& a,
                                             const mem::memory_place& place) {
  throw argument_error((a.mr.is_empty() ? "buffer is " : "mr is ") +
                       place.domain->describe(a.buffer) +
                       ", which is not registered with the network, and net_* posts do not go "
                       "through host memory");
}

// The processor copies the bytes of a receive, whatever the network could do.
void check_host_memory(const net_post_args& a, proto::shared_state& shared) {
  if (a.mr.p_impl == nullptr || a.size == 0) return;
  const mem::memory_place place = a.mr.is_empty()
                                      ? api::find_place("buffer", a.buffer, a.size, a.mr, shared)
                                      : a.mr.p_impl->place;
  if (place.kind != mem::mem_kind::host)
    throw argument_error("net_post_recv: buffer is " + place.domain->describe(a.buffer) +
                         ", and net_* receives do not go through host memory");
}

// The operation for the network; `key` holds what is registered for it alone, unless a copy goes.
net::net_op make_op(const net_post_args& a, const net_context_impl_t& network, bool is_copied,
                    proto::network_key& key) {
  net::net_op op;
  op.rank = a.rank;
  op.imm = a.imm_data;
  op.buffer = a.buffer;
  op.size = a.size;
  const net::capabilities& can = network.fabric->caps_of(a.rank);
  mem::memory_place place;
  bool is_off = false;
  if (!a.mr.is_empty()) {
    const mr_impl_t& mr = *a.mr.p_impl;
    place = mr.place;
    is_off = mr.key.is_off() || !proto::may_register(can, network.attr.gpu_path, place.kind);
    op.local_key = mr.key.get();
  } else if (a.mr.p_impl != nullptr && a.size != 0) {
    place = api::find_place("buffer", a.buffer, a.size, a.mr, network.owner.shared);
  }
  if (a.size != 0) op.kind = place.kind;
  if (!is_copied && op.local_key == 0 && (op.kind == mem::mem_kind::host || a.mr.is_empty())) {
    key =
        proto::network_key(*network.fabric, can, network.attr.gpu_path, a.buffer, a.size, op.kind);
    is_off = key.is_off();
    op.local_key = key.get();
  }
  if (is_off && a.size != 0) throw_off_network(a, place);
  op.remote = api::key_of(a.rmr);
  op.remote_offset = a.offset;
  return op;
}

// The network takes nothing for that rank any more, and the record will have no entry.
[[noreturn]] LCI_COLD void refuse_for_good(const target& to, proto::raw_net::record* r, int rank) {
  to.raw.drop(r);
  to.end.device.owner().core.peers.throw_ended(rank);
}

// A message that is longer than a send of the network can be.
error_t post_in_pieces(const net_post_args& a, const target& to) {
  proto::network_key none;
  const net::net_op op = make_op(a, to.end.device.context, true, none);
  if (op.kind != mem::mem_kind::host)
    throw argument_error("size " + std::to_string(a.size) +
                         " is more than one message from GPU memory carries: at most " +
                         std::to_string(to.raw.longest_whole(a.rank)));
  proto::raw_net::record* const r = to.raw.make_record(net_opcode_t::SEND, a.rank, a.user_context);
  const errorcode_t code = to.raw.send_in_pieces(to.end.queue->end(), op, r);
  if (code == errorcode_t::fatal) [[unlikely]]
    refuse_for_good(to, r, a.rank);
  if (proto::is_retry(code)) to.raw.drop(r);
  return code;
}

// Posts an operation that reports through the queue; `is_short`: the caller may reuse its buffer at
// once, so the bytes are copied.
error_t post(const char* who, const net_post_args& a, net_opcode_t opcode,
             errorcode_t (net::endpoint::*verb)(const net::net_op&), bool is_short) {
  const target to = find_target(who, a);
  if (is_short) check_short(a, to);
  const net_context_impl_t& network = to.end.device.context;
  if (opcode == net_opcode_t::SEND) {
    if (to.raw.has_pieces_for(a.rank)) return errorcode_t::retry_nomem;
    if (to.raw.needs_pieces(a.rank, a.size)) return post_in_pieces(a, to);
  } else {
    api::check_rmr(a.rmr, a.rank, to.end.device.owner().core);
    net::remote_view there;
    if (!api::check_remote({a.rank, a.rmr, a.offset, a.size, "offset"},
                           to.end.device.queues.engine(), there))
      return errorcode_t::retry_nomem;
  }
  proto::network_key key;
  net::net_op op = make_op(a, network, is_short, key);
  proto::raw_net::record* r = to.raw.make_record(opcode, a.rank, a.user_context);
  r->key = std::move(key);
  op.context = r;
  if (is_short) {
    r->packet = to.raw.pool().get();
    if (r->packet == nullptr) {
      to.raw.drop(r);
      return errorcode_t::retry_nopacket;
    }
    if (a.size != 0) std::memcpy(r->packet->payload(), a.buffer, a.size);
    op.buffer = r->packet->payload();
    op.in_order = true;
  }
  // Done would mean that a short put is in order (docs/decisions/0028-order-behind-puts.md).
  const bool orders_puts = network.fabric->caps_of(a.rank).orders_puts;
  const errorcode_t code = (to.end.queue->end().*verb)(op);
  if (code == errorcode_t::fatal) [[unlikely]]
    refuse_for_good(to, r, a.rank);
  if (code == errorcode_t::done)
    to.raw.complete(r);
  else if (code != errorcode_t::posted)
    to.raw.drop(r);
  if (proto::is_retry(code)) return code;
  const bool is_done = is_short && (code == errorcode_t::done || orders_puts);
  return is_done ? errorcode_t::done : errorcode_t::posted;
}

}  // namespace

size_t net_poll_cq(const net_poll_cq_args& a) {
  if (a.max_polls == 0 || a.max_polls > MAX_POLLS)
    throw argument_error("max_polls " + std::to_string(a.max_polls) + " is not in 1.." +
                         std::to_string(MAX_POLLS));
  return api::find_device("net_poll_cq", a.runtime, a.device).raw().poll(a.max_polls, a.statuses);
}

error_t net_post_recv(const net_post_args& a) {
  device_impl_t& device = api::find_device("net_post_recv", a.runtime, a.device);
  proto::core& core = device.owner().core;
  check_memory(a, core, device.context.attr.check_pointers);
  check_host_memory(a, device.owner().shared);
  device.raw().post_recv(a.buffer, a.size, a.user_context);
  return errorcode_t::posted;
}

error_t net_post_sends(const net_post_args& a) {
  const target to = find_target("net_post_sends", a);
  check_short(a, to);
  if (to.raw.has_pieces_for(a.rank)) return errorcode_t::retry_nomem;
  proto::raw_net::record* const r = to.raw.make_record(net_opcode_t::SEND, a.rank, a.user_context);
  const errorcode_t code =
      to.end.queue->end().send_inline(a.rank, a.imm_data, nullptr, 0, a.buffer, a.size);
  if (code == errorcode_t::fatal) [[unlikely]]
    refuse_for_good(to, r, a.rank);
  if (code == errorcode_t::done)
    to.raw.complete(r);
  else
    to.raw.drop(r);
  return code;
}

error_t net_post_send(const net_post_args& a) {
  return post("net_post_send", a, net_opcode_t::SEND, &net::endpoint::send, false);
}
error_t net_post_puts(const net_post_args& a) {
  return post("net_post_puts", a, net_opcode_t::WRITE, &net::endpoint::put, true);
}
error_t net_post_put(const net_post_args& a) {
  return post("net_post_put", a, net_opcode_t::WRITE, &net::endpoint::put, false);
}
error_t net_post_putImms(const net_post_args& a) {
  return post("net_post_putImms", a, net_opcode_t::WRITE, &net::endpoint::put_imm, true);
}
error_t net_post_putImm(const net_post_args& a) {
  return post("net_post_putImm", a, net_opcode_t::WRITE, &net::endpoint::put_imm, false);
}
error_t net_post_get(const net_post_args& a) {
  return post("net_post_get", a, net_opcode_t::READ, &net::endpoint::get, false);
}

}  // namespace detail
}  // namespace lci
