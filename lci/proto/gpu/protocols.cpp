#include "lci/proto/gpu/protocols.hpp"

#include <exception>
#include <utility>

#include "lci/proto/gpu/peer_copy.hpp"
#include "lci/proto/gpu/reach.hpp"

namespace lci::proto::gpu {

protocols::protocols(host_context& host, gpu::common& common) : context_(*this, host, common) {
  host.engine.add_part(*this);
  host.accelerator = this;
  control_dispatch& to = host.engine.dispatch;
  to.add<wire::put_request, &staged_transfers::on_put_request>(wire::kind::put_request, staged_);
  to.add<wire::get_request, &staged_transfers::on_get_request>(wire::kind::get_request, staged_);
  to.add<wire::piece, &staged_transfers::on_piece>(wire::kind::piece, staged_);
  to.add<wire::credit, &staged_transfers::on_credit>(wire::kind::credit, staged_);
  to.add<wire::ack, &staged_transfers::on_ack>(wire::kind::ack, staged_);
  to.add<wire::await_flag, &awaited_flags::on_await>(wire::kind::await_flag, flags_);
  to.add<wire::landing, &awaited_flags::on_landing>(wire::kind::landing, flags_);
  to.add<wire::preposted, &peer_preposted::on_preposted>(wire::kind::preposted, peer_preposted_);
  to.add<wire::claim, &preposted_receives::on_claim>(wire::kind::claim, preposted_);
  to.add<wire::preposted_end, &preposted_receives::on_end>(wire::kind::preposted_end, preposted_);
}

protocols::~protocols() {
  context_.host.accelerator = &no_accelerator();
  context_.common.streams.forget(&context_.engine);
}

std::size_t protocols::poll() {
  std::size_t work = context_.common.gpus.poll() + flags_.poll();
  if (stream_ops& streams = context_.common.streams; streams.any())
    work += streams.advance(
        [this](std::exception_ptr problem) { context_.engine.errors.keep(std::move(problem)); });
  return work;
}

std::size_t protocols::serve_waiting() noexcept {
  return staged_.serve_waiting() + payloads_.serve_waiting();
}

bool protocols::is_quiet() const noexcept {
  return staged_.is_quiet() && context_.late.sum() == 0 && preposted_.is_quiet() &&
         !context_.common.streams.is_waited_for(&context_.engine);
}

void protocols::on_peer_ended(int rank, peer_end how) noexcept {
  payloads_.on_peer_ended(rank);
  staged_.end_sends_to(rank, how);
  // Before, what says that bytes are there may still be to be read.
  if (how >= peer_end::all_here) {
    staged_.end_receives_from(rank);
    flags_.forget(rank);
    preposted_.forget(rank);
  }
  peer_preposted_.forget(rank);
  if (mem::accelerator* const gpu = context_.common.gpus.running(); gpu != nullptr)
    gpu->forget(rank);
}

void protocols::deliver(receive& to, const status_t& status, const std::byte* data) {
  deliver_to_device(context_, to, status, data);
}

target_way protocols::find_target(wire::name sender, const recv_plan& plan, mem::region& target,
                                  network_key& key, std::string& why_not) {
  const target_way way = gpu::find_target(context_, sender, plan, target, key, why_not);
  // A peer that asks for memory that a GPU maps is told of more.
  if (way == target_way::gpu && plan.what == &POSTED && plan.rank != context_.engine.shared.me)
    preposted_.encourage(plan.rank);
  return way;
}

void protocols::receive_staged(wire::name sender, const recv_plan& plan,
                               const std::string& why_not) {
  if (may_stage(context_, sender, plan, why_not)) staged_.receive(sender, plan);
}

write_way protocols::prepare_write(wire::name self, send_side& side) noexcept {
  return gpu::prepare_write(context_, self, side);
}

}  // namespace lci::proto::gpu
