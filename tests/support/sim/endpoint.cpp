#include <algorithm>
#include <cstring>

#include "tests/support/sim/state.hpp"

namespace lci::test {
namespace {

void copy_in(sim_message& m, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  if (size != 0) m.bytes.insert(m.bytes.end(), from, from + size);
  m.op.buffer = m.bytes.data();
  m.op.size = m.bytes.size();
}

}  // namespace

errorcode_t sim_endpoint::send_inline(int rank, std::uint32_t imm, const void* head,
                                      std::size_t head_size, const void* payload,
                                      std::size_t size) noexcept {
  sim_require(head_size + size <= device_.fabric_.caps_.max_inject,
              "send_inline() beyond max_inject");
  const spared here;
  sim_message m;
  m.op.rank = rank;
  m.op.imm = imm;
  copy_in(m, head, head_size);
  copy_in(m, payload, size);
  return device_.post_message(std::move(m), false);
}

errorcode_t sim_endpoint::send(const net::net_op& op) noexcept {
  sim_require(op.size <= device_.fabric_.caps_.max_send, "send() beyond max_send");
  sim_message m;
  m.op = op;
  return device_.post_message(std::move(m), true);
}

errorcode_t sim_endpoint::put(const net::net_op& op) noexcept {
  return device_.post_rma(op, false);
}
errorcode_t sim_endpoint::get(const net::net_op& op) noexcept { return device_.post_rma(op, true); }

errorcode_t sim_endpoint::put_imm(const net::net_op& op) noexcept {
  sim_require(device_.fabric_.caps_.write_with_immediate, "put_imm() without write_with_immediate");
  sim_message m;
  m.op = op;
  m.is_put = true;
  return device_.post_message(std::move(m), true);
}

std::uint64_t sim_endpoint::unconsumed(int rank) noexcept {
  sim_state& world = device_.world_;
  const std::lock_guard lock(world.mutex);
  const sim_device* const target = world.device_of(rank, device_.index_);
  const int me = device_.fabric_.rank_;
  const bool is_idle = target == nullptr || (target->queued_from_locked(me) == 0 &&
                                             target->busy_[static_cast<std::size_t>(me)] == 0);
  return is_idle ? 0 : device_.sent_[static_cast<std::size_t>(rank)];
}

errorcode_t sim_device::admit_locked(int rank) {
  sim_require(rank >= 0 && static_cast<std::size_t>(rank) < world_.fabrics.size(),
              "rank out of range");
  const sim_life self = world_.life[static_cast<std::size_t>(fabric_.rank_)];
  const sim_life peer = world_.life[static_cast<std::size_t>(rank)];
  if (self != sim_life::alive) return errorcode_t::retry_nomem;
  if (peer == sim_life::left || peer == sim_life::dead) return errorcode_t::fatal;
  if (world_.draw(world_.options.refuse_one_in)) {
    ++world_.counters.refused;
    return world_.rng() % 2 == 0 ? errorcode_t::retry_lock : errorcode_t::retry_nomem;
  }
  if (!fabric_.connected_locked(rank)) return errorcode_t::retry_nomem;
  return world_.device_of(rank, index_) == nullptr ? errorcode_t::retry_nomem : errorcode_t::done;
}

errorcode_t sim_device::post_rma(const net::net_op& op, bool is_get) noexcept {
  std::lock_guard lock(world_.mutex);
  world_.require_registered_locked(fabric_.rank_, op);
  if (const errorcode_t answer = admit_locked(op.rank); answer != errorcode_t::done) return answer;
  if (world_.options.late) {
    if (pending_.size() >= world_.options.depth) return errorcode_t::retry_nomem;
    pending_.push_back({op, is_get});
    return errorcode_t::posted;
  }
  if (op.fence) run_pending_locked(op.rank, true);
  const char* error = world_.run_rma_locked(op, is_get);
  if (error == nullptr) return errorcode_t::done;
  complete_locked(op, op.rank, error);
  return errorcode_t::posted;
}

errorcode_t sim_device::post_message(sim_message&& message, bool wants_completion) noexcept {
  std::lock_guard lock(world_.mutex);
  if (wants_completion) world_.require_registered_locked(fabric_.rank_, message.op);
  const int target_rank = message.op.rank;
  if (const errorcode_t answer = admit_locked(target_rank); answer != errorcode_t::done)
    return answer;
  sim_device& target = *world_.device_of(target_rank, index_);
  if (target.queued_from_locked(fabric_.rank_) >= world_.options.depth)
    return errorcode_t::retry_nomem;

  bool posted = wants_completion && world_.options.late && message.op.packet == nullptr;
  if (message.is_put && !posted) {
    if (message.op.fence) run_pending_locked(target_rank, true);
    if (const char* error = world_.run_rma_locked(message.op, false)) {
      complete_locked(message.op, target_rank, error);
      return errorcode_t::posted;
    }
    message.put_done = true;
  } else if (mem::packet* packet = message.op.packet) {
    // What stays in this process keeps its owner; only a peer borrows.
    const bool stays = world_.options.packets == sim_packets::lend && target_rank == fabric_.rank_;
    const bool lent =
        world_.options.packets == sim_packets::lend && !stays && mem::pool_of(*packet).lend(packet);
    if (!stays && !lent) {
      copy_in(message, message.op.buffer, message.op.size);
      mem::pool_of(*packet).put(packet);
      message.op.packet = nullptr;
    }
  } else if (!posted && message.bytes.empty()) {
    copy_in(message, message.op.buffer, message.op.size);
  }
  // A posted message without a context has a poster all the same: its buffer is still in use.
  if (posted) {
    message.poster = this;
    ++in_inboxes_;
  }
  message.op.rank = fabric_.rank_;
  ++sent_[static_cast<std::size_t>(target_rank)];
  insert_locked(target, std::move(message));
  return posted ? errorcode_t::posted : errorcode_t::done;
}

// Where faults happen. A copy of a message carries its bytes and nothing that could complete or be
// returned twice.
void sim_device::insert_locked(sim_device& target, sim_message&& message) {
  sim_options& o = world_.options;
  const std::uint64_t number = ++world_.counters.messages;
  const bool is_send = !message.is_put;
  if (is_send && o.drop_every != 0 && number % o.drop_every == 0) {
    ++world_.counters.dropped;
    if (message.op.packet != nullptr)
      mem::release_packet(*target.fabric_.config_.arena, message.op.packet);
    if (message.poster != nullptr) {
      --in_inboxes_;
      complete_locked(message.op, target.fabric_.rank_, nullptr);
    }
    return;
  }
  sim_message copy;
  const bool twice = is_send && world_.draw(o.duplicate_one_in);
  const bool corrupt = is_send && message.op.size != 0 && world_.draw(o.corrupt_one_in);
  if (twice || corrupt) {
    copy.op = message.op;
    copy.op.context = nullptr;
    copy.op.packet = nullptr;
    copy_in(copy, message.op.buffer, message.op.size);
  }
  if (corrupt) {
    ++world_.counters.corrupted;
    copy.bytes[world_.rng() % copy.bytes.size()] ^=
        static_cast<std::byte>(1u << (world_.rng() % 8));
    // The damaged copy travels, the original is finished: its packet and its poster are done with.
    if (message.op.packet != nullptr)
      mem::release_packet(*target.fabric_.config_.arena, message.op.packet);
    copy.poster = message.poster;
    copy.op.context = message.op.context;
    message = std::move(copy);
    message.op.packet = nullptr;
    message.op.buffer = message.bytes.data();
  }
  message.not_before =
      target.polls_ + (o.max_delay_polls == 0 ? 0 : world_.rng() % (o.max_delay_polls + 1));
  auto at = target.inbox_.end();
  const std::size_t first = !target.inbox_.empty() && target.inbox_.front().deferred ? 1 : 0;
  if (!o.caps.ordered && !message.op.fence && target.inbox_.size() > first &&
      world_.draw(o.reorder_one_in)) {
    ++world_.counters.reordered;
    at = target.inbox_.begin() +
         static_cast<std::ptrdiff_t>(first + world_.rng() % (target.inbox_.size() - first));
  }
  const std::uint64_t not_before = message.not_before;
  target.inbox_.insert(at, std::move(message));
  if (twice && !corrupt) {
    ++world_.counters.duplicated;
    copy.not_before = not_before;
    target.inbox_.push_back(std::move(copy));
  }
}

}  // namespace lci::test
