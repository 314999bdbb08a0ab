#include "lci/proto/gpu/peer_copy.hpp"

#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "lci/base/platform.hpp"
#include "lci/errors.hpp"
#include "lci/proto/gpu/common.hpp"

namespace lci::proto::gpu {

namespace {

// What copies between memory of this process, and memory of a peer that is mapped here.
mem::copy_way way_of(mem::mem_kind from, mem::mem_kind to) noexcept {
  if (from == mem::mem_kind::host) return mem::copy_way::to_device;
  return to == mem::mem_kind::host ? mem::copy_way::to_host : mem::copy_way::to_peer;
}

std::byte* own_end(core& shared, const transfer& move, const net::remote_view& view,
                   std::string& why_not) {
  void* const there = shared.regions.find({move.op.remote.slot, move.op.remote.generation},
                                          move.remote_base, move.total);
  if (there == nullptr || view.what != net::remote_view::answer::ok) {
    why_not = "the registration has ended";
    return nullptr;
  }
  return static_cast<std::byte*>(there);
}

std::byte* mapped_end(context& ctx, direct_copy& copy, const transfer& move,
                      const net::remote_view& view, std::string& why_not, bool& has_ended) {
  if (view.share.record == 0) {
    why_not = "the memory of rank " + std::to_string(move.op.rank) +
              " cannot be shared with other processes";
    return nullptr;
  }
  mem::peer_range range;
  range.rank = move.op.rank;
  range.record = ctx.engine.fabric.reach(move.op.rank, view.share.record, mem::SHARE_RECORD_BYTES);
  if (range.record == nullptr) {
    why_not = "rank " + std::to_string(move.op.rank) + " is not on this machine";
    return nullptr;
  }
  range.pid = ctx.engine.fabric.process_of(move.op.rank);
  range.check = view.share.check;
  range.address = view.address + move.remote_base;
  range.size = move.total;
  copy.far = ctx.common.gpus.running()->map(range, copy.device, why_not);
  has_ended = copy.far.has_owner_ended();
  return copy.far.at();
}

}  // namespace

// Null: why_not says why, and has_ended whether it is the end of the peer's process.
static direct_copy* plan_direct(context& ctx, transfer& move, const net::remote_view& view,
                                std::string& why_not, bool& has_ended) {
  core& shared = ctx.engine.shared;
  common& all = ctx.common;
  const bool is_own = move.op.rank == shared.me;
  const mem::mem_kind near = move.op.kind;
  if (all.gpus.running() == nullptr || (near != mem::mem_kind::device && !is_own) ||
      (view.kind != mem::mem_kind::device && !is_own)) {
    why_not = "only GPU memory at both ends is copied directly between processes";
    return nullptr;
  }
  direct_copy* const copy = all.jobs.direct_copies.get();
  copy->ctx = &ctx;
  copy->move = &move;
  copy->flag = nullptr;
  copy->claims = nullptr;
  copy->began = 0;
  copy->size = move.total;
  copy->device = move.gpu;
  std::byte* far = nullptr;
  try {
    far = is_own ? own_end(shared, move, view, why_not)
                 : mapped_end(ctx, *copy, move, view, why_not, has_ended);
  } catch (...) {
    all.jobs.direct_copies.put(copy);
    throw;
  }
  if (is_own) {
    const int there = far == nullptr ? -1 : mem::find_place(far).device;
    if (near != mem::mem_kind::device) copy->device = there;
    copy->is_in_reach = there == copy->device;
  } else {
    copy->is_in_reach = true;  // mapped for this GPU
  }
  if (far == nullptr) {
    all.jobs.direct_copies.put(copy);
    return nullptr;
  }
  const bool is_get = move.what == transfer::verb::get;
  copy->from = is_get ? far : move.base;
  copy->to = is_get ? move.base : far;
  copy->way = is_get ? way_of(view.kind, near) : way_of(near, view.kind);
  return copy;
}

direct_answer make_direct(context& ctx, transfer& move, const net::remote_view& view,
                          const protocol& of, bool may_choose, std::string& why_not) {
  bool has_ended = false;
  direct_copy* const copy = plan_direct(ctx, move, view, why_not, has_ended);
  const int rank = move.op.rank;
  if (copy == nullptr) {
    ctx.common.paths.through_host(rank, why_not);
    return has_ended ? direct_answer::peer_ended : direct_answer::impossible;
  }
  if (copy->far.is_on_same_gpu() && ctx.host.gpu_path == attr_gpu_path_t::auto_select) {
    shared_gpu_ways& ways = ctx.common.shared_gpu;
    ways.enter(rank);
    if (may_choose &&
        ways.pick(rank, move.total, move.what == transfer::verb::get) == shared_gpu_ways::BY_HOST) {
      copy->discard(move);
      ctx.common.paths.by_choice(rank, "copies wait for the GPU to turn from the other process");
      return direct_answer::slower;
    }
    copy->began = base::cpu_ticks();
  }
  move.carrier = copy;
  move.of = &of;
  ctx.common.paths.direct(rank);
  return direct_answer::made;
}

void throw_not_direct(direct_answer answer, int rank, const std::string& why_not) {
  if (answer == direct_answer::peer_ended)
    throw peer_failure_error(
        rank, "rank " + std::to_string(rank) + " is lost: its process has ended: " + why_not);
  throw backend_error("gpu_path is direct, but " + why_not);
}

void direct_copy::discard(transfer& of) noexcept {
  of.carrier = nullptr;
  far = {};
  ctx->common.jobs.direct_copies.put(this);
}

void direct_copy::ended(std::string_view error) noexcept {
  transfer& owner = *move;
  if (error.empty()) {
    owner.at = owner.total;
    if (began != 0)
      ctx->common.shared_gpu.note(owner.op.rank, owner.total, owner.what == transfer::verb::get,
                                  shared_gpu_ways::BY_GPU, began);
  } else {
    ctx->engine.errors.keep_made([&] {
      return std::runtime_error("a copy for rank " + std::to_string(owner.op.rank) +
                                " failed: " + std::string(error));
    });
    owner.failed = true;
    // The target gives the word back in either case. edge flag.set: partner is
    // awaited_flags::poll().
    if (flag != nullptr) flag->store(wire::FLAG_VOID, std::memory_order_release);
  }
  far = {};
  owner.queue->conclude(owner);
}

// What the target is told as immediate data; 0: nothing, or only by a message.
static std::uint32_t news_of(const transfer& move) noexcept {
  if (move.of == &COPY_SIGNAL) return move.imm;
  if (move.of != &COPY_WRITE || !wire::has_short_name(move.peer_state)) return 0;
  return wire::kind_imm(wire::kind::fin_imm, wire::short_name(move.peer_state));
}

// Where it can, the GPU itself tells the target of the end.
void direct_copy::start(transfer& of) noexcept {
  common& all = ctx->common;
  progress_engine& engine = ctx->engine;
  const std::uint32_t news = news_of(of);
  const int rank = of.op.rank;
  const bool has_news = news != 0 || claims != nullptr;
  flag = has_news && rank != engine.shared.me
             ? all.flags.take_for(rank, engine.fabric, engine.shared.peers)
             : nullptr;
  if (flag == nullptr) return ctx->copy(*this);
  // Once handed over, the transfer may end at any time.
  const std::uint64_t place = all.flags.place_of(flag);
  const wire::claim claim{of.peer_state, of.total, place};
  claim_sender* const sender = claims;
  if (!ctx->copy_and_flag(*this, flag)) {
    flag_words::give(std::exchange(flag, nullptr));
    return ctx->copy(*this);
  }
  if (sender != nullptr)
    sender->say(rank, claim);
  else
    engine.say(rank, wire::kind::await_flag, wire::await_flag{place, news, 0});
}

// ---- how it ends ----

static bool tell_signal(transfer& move) noexcept {
  return is_told_by_gpu(move) ||
         move.queue->accept_control(move.op.rank, wire::kind::signal, wire::signal_body{move.imm});
}

static bool tell_written(transfer& move) noexcept {
  if (!is_told_by_gpu(move) &&
      !move.queue->accept_control(move.op.rank, wire::kind::fin, wire::fin{move.peer_state}))
    return false;
  on_written(*static_cast<host_context*>(move.owner), move.local_state, true);
  return true;
}

static void tell_not_written(transfer& move) noexcept {
  auto& ctx = *static_cast<host_context*>(move.owner);
  ctx.engine.say(move.op.rank, wire::kind::drop_receive, wire::drop{move.peer_state, 0, 0});
  on_written(ctx, move.local_state, false);
}

constexpr protocol COPY = {"peer_copy", nullptr, nullptr, true};
constexpr protocol COPY_SIGNAL = {"peer_copy_signal", &tell_signal, nullptr, true};
constexpr protocol COPY_WRITE = {"peer_copy_write", &tell_written, &tell_not_written, false};

// ---- messages of a few bytes ----

bool late_arrival::take(context& ctx, const std::byte* data, std::size_t bytes) noexcept {
  bool never = false;
  set_ = bytes <= staging_store::SMALL ? ctx.common.staging.take(bytes, never) : nullptr;
  heap_ = set_ == nullptr ? new (std::nothrow) std::byte[bytes] : nullptr;
  std::byte* const at = set_ != nullptr ? set_->at : heap_;
  if (at == nullptr) return false;
  ctx_ = &ctx;
  ctx.late.add(1);
  std::memcpy(at, data, bytes);
  from = at;
  size = bytes;
  way = mem::copy_way::to_device;
  return true;
}

void deliver_to_device(context& ctx, receive& to, const status_t& status, const std::byte* data) {
  common& all = ctx.common;
  late_arrival* const late = all.jobs.late_arrivals.get();
  if (!late->take(ctx, data, status.size)) {
    all.jobs.late_arrivals.put(late);
    throw std::bad_alloc();
  }
  late->counted_ = to.host;
  // The message may have come over another device than that of the receive, which is to wait for
  // the copy as well. Relaxed: the receive is open there until the copy has ended.
  to.host->gpu_copies.fetch_add(1, std::memory_order_relaxed);
  late->user_ = to.user;
  late->user_.status = status;
  late->to = static_cast<std::byte*>(status.buffer);
  late->device = to.gpu;
  ctx.host.common.receives.put(&to);
  ctx.copy(*late);
}

void late_arrival::ended(std::string_view error) noexcept {
  context& ctx = *ctx_;
  host_context* const counted = counted_;
  const user_side user = user_;
  if (set_ != nullptr) ctx.common.staging.give(set_);
  delete[] heap_;
  ctx.common.jobs.late_arrivals.put(this);
  counted->open_receives.add(-1);
  // edge gpu.copies: partner is context::has_copies(). That device may go then.
  counted->gpu_copies.fetch_sub(1, std::memory_order_release);
  if (!error.empty()) {
    ctx.engine.errors.keep_made([&] {
      return std::runtime_error(std::to_string(user.status.size) + " bytes from rank " +
                                std::to_string(user.status.rank) +
                                " were not copied to the GPU: " + std::string(error));
    });
  }
  ctx.engine.signals.tell(user, error.empty());
  ctx.late.add(-1);  // last: the device may go then
}

}  // namespace lci::proto::gpu
