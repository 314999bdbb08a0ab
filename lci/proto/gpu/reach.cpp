#include "lci/proto/gpu/reach.hpp"

#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/completion.hpp"
#include "lci/errors.hpp"
#include "lci/proto/gpu/common.hpp"
#include "lci/proto/gpu/peer_copy.hpp"

namespace lci::proto::gpu {

std::optional<mem::region> region_to_share(context& ctx, const recv_plan& plan,
                                           std::string& why_not) {
  if (ctx.host.gpu_path == attr_gpu_path_t::staged || plan.kind != mem::mem_kind::device) return {};
  if (plan.region.generation != 0) {
    std::optional<mem::region> known = ctx.engine.shared.regions.look_up(plan.region);
    if (known && known->share.record != 0) return known;
    why_not = "the registration has ended, or its memory cannot be shared with other processes";
    return {};
  }
  mem::region made{plan.user.status.buffer, plan.user.status.size, mem::mem_kind::device, {}, true};
  made.share = ctx.common.gpus.running()->share(made.address, made.size, why_not);
  if (made.share.record == 0) {
    ctx.common.paths.through_host(plan.rank, why_not);
    return {};
  }
  return made;
}

namespace {

// Whether the network writes the destination. The sender's network reads the data, so this is about
// our end alone. Throws what network_key throws.
bool is_written_by_network(context& ctx, const recv_plan& plan, network_key& key) {
  if (plan.from_device || !is_for_network(ctx.host, plan.rank, plan.kind)) return false;
  if (plan.region.generation != 0) {
    const std::optional<mem::region> known = ctx.engine.shared.regions.look_up(plan.region);
    return known && !known->off_network;
  }
  key = key_for(ctx.host, plan.rank, plan.user.status.buffer, plan.user.status.size, plan.kind);
  return !key.is_off();
}

}  // namespace

target_way find_target(context& ctx, wire::name sender, const recv_plan& plan, mem::region& target,
                       network_key& key, std::string& why_not) {
  try {
    if (is_written_by_network(ctx, plan, key)) return target_way::network;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (...) {
    give_up(ctx.host, sender, plan, std::current_exception());
    return target_way::none;
  }
  target.off_network = plan.kind != mem::mem_kind::host;
  // Within one process every end is in reach.
  if (plan.rank == ctx.engine.shared.me && ctx.host.gpu_path != attr_gpu_path_t::staged)
    return target_way::gpu;
  if (!plan.from_device) return target_way::staged;
  const std::optional<mem::region> shared = region_to_share(ctx, plan, why_not);
  if (!shared) return target_way::staged;
  target = *shared;
  return target_way::gpu;
}

bool may_stage(context& ctx, wire::name sender, const recv_plan& plan, const std::string& why_not) {
  if (ctx.host.gpu_path == attr_gpu_path_t::staged)
    ctx.common.paths.through_host(plan.rank, "as gpu_path says");
  if (ctx.host.gpu_path != attr_gpu_path_t::direct) return true;
  give_up(
      ctx.host, sender, plan,
      std::make_exception_ptr(backend_error(
          "gpu_path is direct, but a message of " + std::to_string(plan.user.status.size) +
          " bytes from rank " + std::to_string(plan.rank) + " can only go through host memory: " +
          (why_not.empty() ? "not both ends are GPU memory that can be mapped" : why_not))));
  return false;
}

// The exception that is being handled. The end of a peer is told once, by whatever notices it
// first.
static void keep_error(progress_engine& engine, int rank) noexcept {
  try {
    throw;
  } catch (const peer_failure_error&) {
    engine.watch.miss(rank);
  } catch (...) {
    engine.errors.keep(std::current_exception());
  }
}

write_way prepare_write(context& ctx, wire::name self, send_side& side) noexcept {
  const wire::rtr& to = side.ready;
  if (to.through.count != 0 || ctx.common.gpus.running() == nullptr) return write_way::ready;
  const net::remote_view view = ctx.engine.fabric.check_remote(
      side.plan.rank, {to.region.slot, to.region.generation}, ctx.engine.index);
  if (is_for_network(ctx.host, side.plan) && is_for_network(ctx.host, side.plan.rank, view))
    return write_way::ready;
  transfer* const move = make_write(ctx.host, self, side);
  try {
    std::string why_not = "the registration has ended";
    direct_answer answer = direct_answer::impossible;
    if (view.what == net::remote_view::answer::ok && move->remote_base <= view.size &&
        move->total <= view.size - move->remote_base) {
      answer =
          make_direct(ctx, *move, view, COPY_WRITE, to.through.bytes != wire::DIRECT_ONLY, why_not);
      switch (answer) {
        case direct_answer::made:
          side.write = move;
          return write_way::ready;
        case direct_answer::slower:
          side.plan.began = base::cpu_ticks();
          break;
        case direct_answer::impossible:
        case direct_answer::peer_ended:
          break;
      }
    }
    // The receiver would only say that it cannot be; why is known here.
    if (ctx.host.gpu_path == attr_gpu_path_t::direct)
      throw_not_direct(answer, move->op.rank,
                       "a message of " + std::to_string(move->total) + " bytes for rank " +
                           std::to_string(move->op.rank) +
                           " can only go through host memory: " + why_not);
  } catch (...) {
    keep_error(ctx.engine, move->op.rank);
    // The message fails, and both ends hear of it.
    move->of = &COPY_WRITE;
    ctx.engine.abort(*move);
    return write_way::none;
  }
  ctx.engine.shared.transfers.put(move);
  return write_way::staged;
}

}  // namespace lci::proto::gpu
