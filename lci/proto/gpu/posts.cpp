// Posts with GPU memory: who carries them, and how those start that the network leaves to us.
#include <array>
#include <optional>
#include <string>

#include "lci/base/platform.hpp"
#include "lci/errors.hpp"
#include "lci/proto/gpu/peer_copy.hpp"
#include "lci/proto/gpu/protocols.hpp"
#include "lci/proto/host/rma.hpp"
#include "lci/proto/host/select.hpp"
#include "lci/proto/host/transfers.hpp"

namespace lci::proto::gpu {

namespace {

// A few bytes of GPU memory that the processor reads by itself (mem::accelerator::read_by_cpu) go
// as if they had been in host memory. `direct` means copy engines, so nothing goes so there.
using small_copy = std::array<std::byte, 1024>;

bool may_go_by_cpu(const context& ctx, const outgoing& out) noexcept {
  return out.kind == mem::mem_kind::device && ctx.common.gpus.may_read_by_cpu(out.size) &&
         out.size <= std::tuple_size_v<small_copy> && out.size <= out.bcopy_limit &&
         !out.wants_network && out.host.gpu_path != attr_gpu_path_t::direct;
}

// After may_go_by_cpu(). False: this memory cannot be read so.
bool read_by_cpu(const context& ctx, const outgoing& out, small_copy& bytes) noexcept {
  return ctx.common.gpus.read_by_cpu(bytes.data(), out.buffer, out.size);
}

// A message. Nothing: not this way.
[[gnu::noinline]] std::optional<errorcode_t> send_by_cpu(const context& ctx, outgoing& out) {
  if (!may_go_by_cpu(ctx, out)) return {};
  if (out.may_retry && out.queue.log.pending(out.rank)) return errorcode_t::retry_backlog;
  small_copy bytes;
  if (!read_by_cpu(ctx, out, bytes)) return {};
  outgoing from_host = out.from_host(bytes.data());
  return proto::start_message(from_host);
}

// Memory of a GPU at one end or both that the network leaves to us, and bytes to move. If it takes
// them, memory of a GPU here is registered, in `key` unless the caller has.
bool is_for_gpus(const outgoing& out, network_key& key) {
  const host_context& host = out.host;
  if (out.size == 0) return false;
  if (out.off_network || !is_for_network(host, out.rank, out.kind) ||
      !is_for_network(host, out.rank, out.there))
    return true;
  if (out.kind == mem::mem_kind::host || out.local_key != 0) return false;
  key = key_for(host, out.rank, out.buffer, out.size, out.kind);
  return key.is_off();
}

// The post's answer, where it is made.
direct_answer launch_direct(context& ctx, outgoing& out, transfer::verb what, std::string& why_not,
                            errorcode_t& code) {
  const bool is_put = what == transfer::verb::put;
  transfer* const move = make_transfer(out, what, COPY);
  if (is_put) move->packet = out.packet;
  if (is_put && out.rcomp != 0) move->imm = out.imm();
  direct_answer answer = direct_answer::impossible;
  try {
    answer = make_direct(ctx, *move, out.there, move->imm != 0 ? COPY_SIGNAL : COPY, true, why_not);
  } catch (...) {
    undo_transfer(move);
    throw;
  }
  if (answer == direct_answer::made)
    code = launch(out, move, false);
  else
    undo_transfer(move);
  return answer;
}

// A few bytes from GPU memory to host memory of this machine: our GPU brings them to a slot of
// ours, from where the target takes them. False: not this way.
bool put_by_landing(staged_transfers& staged, outgoing& out, const send_plan& plan) {
  if (out.kind != mem::mem_kind::device || out.there.kind != mem::mem_kind::host ||
      out.size > staging_store::SMALL || out.queue.engine.fabric.process_of(out.rank) == 0)
    return false;
  wire::landing body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  body.imm = out.signal_imm();
  return staged.land(plan, body);
}

// `began`: as in the plans.
errorcode_t put_staged(staged_transfers& staged, outgoing& out, std::uint64_t began) {
  send_plan plan = out.plan();
  plan.is_put = true;
  plan.has_receive = false;
  plan.began = began;
  if (put_by_landing(staged, out, plan)) return errorcode_t::posted;
  network_key key;
  if (const auto code = register_host(out, key); is_retry(code)) return code;
  if (key.get() != 0) plan.local_key = key.get();
  plan.registered_here = key.get() != 0;
  wire::put_request body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  body.imm = out.signal_imm();
  const errorcode_t code = start_staged_put(out.host, out.queue, plan, body, out.may_retry);
  if (error_t(code).is_posted()) key.release();  // goes with the state
  return code;
}

errorcode_t get_staged(staged_transfers& staged, outgoing& out, std::uint64_t began) {
  if (out.may_retry && out.queue.log.pending(out.rank)) return errorcode_t::retry_backlog;
  recv_plan plan;
  plan.rank = out.rank;
  plan.user = out.user;
  plan.what = &GET_RECEIVER;
  plan.began = began;
  plan.kind = out.kind;
  plan.gpu = out.gpu;
  wire::get_request body;
  body.region = {out.remote.slot, out.remote.generation};
  body.offset = out.remote_offset;
  body.size = out.size;
  return staged.get(plan, body);
}

errorcode_t start_on_gpus(context& ctx, staged_transfers& staged, outgoing& out,
                          transfer::verb what) {
  const attr_gpu_path_t way = ctx.host.gpu_path;
  std::uint64_t began = 0;
  if (way != attr_gpu_path_t::staged) {
    std::string why_not;
    errorcode_t code{};  // set if it is made
    const direct_answer answer = launch_direct(ctx, out, what, why_not, code);
    if (answer == direct_answer::made) return code;
    if (answer == direct_answer::slower) began = base::cpu_ticks();
    if (way == attr_gpu_path_t::direct) throw_not_direct(answer, out.rank, why_not);
  } else {
    ctx.common.paths.through_host(out.rank, "as gpu_path says");
  }
  return what == transfer::verb::put ? put_staged(staged, out, began)
                                     : get_staged(staged, out, began);
}

// A few bytes of GPU memory for host memory: read by the processor, they are a put from host
// memory. Nothing: not this way. Only where a lack of packets may be told, for the bytes are lost
// on return.
[[gnu::noinline]] std::optional<errorcode_t> put_by_cpu(const context& ctx, outgoing& out) {
  if (!may_go_by_cpu(ctx, out) || out.there.kind != mem::mem_kind::host || out.packet != nullptr ||
      !out.may_retry)
    return {};
  small_copy bytes;
  if (!read_by_cpu(ctx, out, bytes)) return {};
  outgoing from_host = out.from_host(bytes.data());
  return proto::start_put(from_host);
}

}  // namespace

std::optional<errorcode_t> protocols::start_message(outgoing& out) {
  if (const auto code = send_by_cpu(context_, out)) return *code;
  if (!is_for_network(out.host, out.rank, out.kind)) return peer_preposted_.claim(out);
  return {};
}

std::optional<errorcode_t> protocols::start_put(outgoing& out, network_key& key) {
  if (const auto code = put_by_cpu(context_, out)) return *code;
  if (!is_for_gpus(out, key)) return {};
  return start_on_gpus(context_, staged_, out, transfer::verb::put);
}

std::optional<errorcode_t> protocols::start_get(outgoing& out, network_key& key) {
  if (!is_for_gpus(out, key)) return {};
  return start_on_gpus(context_, staged_, out, transfer::verb::get);
}

}  // namespace lci::proto::gpu
