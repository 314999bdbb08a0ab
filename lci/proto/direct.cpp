#include "lci/proto/direct.hpp"

#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "lci/proto/arrival.hpp"
#include "lci/proto/channel.hpp"

namespace lci::proto {

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
    why_not = "the registration is gone";
    return nullptr;
  }
  return static_cast<std::byte*>(there);
}

std::byte* mapped_end(channel& via, direct_copy& copy, const transfer& move,
                      const net::remote_view& view, std::string& why_not) {
  if (view.share.record == 0) {
    why_not = "the memory of rank " + std::to_string(move.op.rank) +
              " cannot be shared with other processes";
    return nullptr;
  }
  mem::peer_range range;
  range.rank = move.op.rank;
  range.record = via.fabric.reach(move.op.rank, view.share.record, mem::SHARE_RECORD_BYTES);
  if (range.record == nullptr) {
    why_not = "rank " + std::to_string(move.op.rank) + " is not on this machine";
    return nullptr;
  }
  range.pid = via.fabric.process_of(move.op.rank);
  range.check = view.share.check;
  range.address = view.address + move.remote_base;
  range.size = move.total;
  copy.far = via.shared.gpus.running()->map(range, copy.device, why_not);
  return copy.far.at();
}

}  // namespace

// Null: why_not says why.
static direct_copy* plan_direct(channel& via, transfer& move, const net::remote_view& view,
                                std::string& why_not) {
  core& shared = via.shared;
  const bool is_own = move.op.rank == shared.me;
  const mem::mem_kind near = move.op.kind;
  if (shared.gpus.running() == nullptr || (near != mem::mem_kind::device && !is_own) ||
      (view.kind != mem::mem_kind::device && !is_own)) {
    why_not = "only GPU memory at both ends is copied directly between processes";
    return nullptr;
  }
  direct_copy* const copy = shared.direct_copies.get();
  copy->move = &move;
  copy->size = move.total;
  copy->device = move.gpu;
  std::byte* far = nullptr;
  try {
    far =
        is_own ? own_end(shared, move, view, why_not) : mapped_end(via, *copy, move, view, why_not);
  } catch (...) {
    shared.direct_copies.put(copy);
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
    shared.direct_copies.put(copy);
    return nullptr;
  }
  const bool is_get = move.what == transfer::verb::get;
  copy->from = is_get ? far : move.base;
  copy->to = is_get ? move.base : far;
  copy->way = is_get ? way_of(view.kind, near) : way_of(near, view.kind);
  return copy;
}

bool make_direct(channel& via, transfer& move, const net::remote_view& view, std::string& why_not) {
  move.direct = plan_direct(via, move, view, why_not);
  move.is_direct = move.direct != nullptr;
  if (move.is_direct)
    via.shared.paths.direct(move.op.rank);
  else
    via.shared.paths.through_host(move.op.rank, why_not);
  return move.is_direct;
}

void discard_direct(core& shared, transfer& move) noexcept {
  if (move.direct == nullptr) return;
  move.direct->far = {};
  shared.direct_copies.put(std::exchange(move.direct, nullptr));
}

void direct_copy::ended(std::string_view error) noexcept {
  transfer& owner = *move;
  channel& via = owner.via->via;
  if (error.empty()) {
    owner.at = owner.total;
  } else {
    via.keep_made([&] {
      return std::runtime_error("a copy for rank " + std::to_string(owner.op.rank) +
                                " failed: " + std::string(error));
    });
    owner.failed = true;
  }
  // The target gives the word back in either case. edge flag.set: partner is awaited_flags::poll().
  if (flag != nullptr && !error.empty()) flag->store(wire::FLAG_VOID, std::memory_order_release);
  discard_direct(via.shared, owner);
  owner.via->conclude(owner);
}

// What the target is told as immediate data; 0: nothing, or only by a message.
static std::uint32_t news_of(const transfer& move) noexcept {
  if (move.end == ending::immediate) return move.imm;
  if (move.end != ending::rendezvous || !wire::has_short_name(move.peer_state)) return 0;
  return wire::kind_imm(wire::kind::fin_imm, wire::short_name(move.peer_state));
}

void start_direct(channel& via, transfer& move) noexcept {
  core& shared = via.shared;
  direct_copy& copy = *move.direct;
  const std::uint32_t news = news_of(move);
  const bool is_claim = move.end == ending::offer;
  const int rank = move.op.rank;
  copy.flag = (news != 0 || is_claim) && rank != shared.me ? shared.flags.take() : nullptr;
  if (copy.flag == nullptr) return shared.gpus.copy(copy);
  move.is_flagged = true;
  // Once handed over, the transfer may end at any time.
  const std::uint64_t place = shared.flags.place_of(copy.flag);
  const wire::claim claim{move.peer_state, move.total, place};
  if (!shared.gpus.copy_and_flag(copy, reinterpret_cast<std::uint64_t*>(copy.flag),
                                 wire::FLAG_SET)) {
    move.is_flagged = false;
    flag_words::give(std::exchange(copy.flag, nullptr));
    return shared.gpus.copy(copy);
  }
  if (is_claim)
    via.known_offers.say(rank, claim);
  else
    via.say(rank, wire::staged_kind::await_flag, wire::await_flag{place, news, 0});
}

bool late_arrival::take(channel& via, const std::byte* data, std::size_t bytes) noexcept {
  bool never = false;
  set_ = bytes <= staging_store::SMALL ? via.shared.staging.take(bytes, never) : nullptr;
  heap_ = set_ == nullptr ? new (std::nothrow) std::byte[bytes] : nullptr;
  std::byte* const at = set_ != nullptr ? set_->at : heap_;
  if (at == nullptr) return false;
  via_ = &via;
  via.late.add(1);
  std::memcpy(at, data, bytes);
  from = at;
  size = bytes;
  way = mem::copy_way::to_device;
  return true;
}

void deliver_to_device(channel& via, receive& to, const status_t& status, const std::byte* data) {
  core& shared = via.shared;
  late_arrival* const late = shared.late_arrivals.get();
  if (!late->take(via, data, status.size)) {
    shared.late_arrivals.put(late);
    throw std::bad_alloc();
  }
  late->counted_ = to.via;
  late->user_ = to.user;
  late->user_.status = status;
  late->to = static_cast<std::byte*>(status.buffer);
  late->device = to.gpu;
  shared.receives.put(&to);
  shared.gpus.copy(*late);
}

void late_arrival::ended(std::string_view error) noexcept {
  channel& via = *via_;
  channel* const counted = counted_;
  const user_side user = user_;
  if (set_ != nullptr) via.shared.staging.give(set_);
  delete[] heap_;
  via.shared.late_arrivals.put(this);
  counted->open_receives.add(-1);
  if (!error.empty()) {
    via.keep_made([&] {
      return std::runtime_error(std::to_string(user.status.size) + " bytes from rank " +
                                std::to_string(user.status.rank) +
                                " were not copied to the GPU: " + std::string(error));
    });
  }
  via.tell(user, error.empty());
  via.late.add(-1);  // last: the channel may go then
}

}  // namespace lci::proto
