#include <algorithm>

#include "tests/support/sim/state.hpp"

namespace lci::test {

sim_device::sim_device(sim_fabric& fabric, int index)
    : fabric_(fabric),
      world_(*fabric.world_),
      index_(index),
      gone_reported_(world_.fabrics.size()),
      busy_(world_.fabrics.size()),
      sent_(world_.fabrics.size()) {}

sim_device::~sim_device() {
  std::lock_guard lock(world_.mutex);
  for (sim_fabric* fabric : world_.fabrics) {
    if (fabric == nullptr) continue;
    for (sim_device* other : fabric->devices_) {
      if (other != nullptr) other->forget_poster_locked(this);
    }
  }
  for (sim_message& m : inbox_) {
    if (m.op.packet != nullptr) mem::release_packet(*fabric_.config_.arena, m.op.packet);
    if (m.poster == nullptr) continue;
    --m.poster->in_inboxes_;
    m.poster->complete_locked(m.op, fabric_.rank_, "the peer closed its device");
  }
  fabric_.devices_[static_cast<std::size_t>(index_)] = nullptr;
}

std::unique_ptr<net::endpoint> sim_device::make_endpoint() {
  return std::make_unique<sim_endpoint>(*this);
}

// The poster goes away: what it sent is delivered all the same, from a copy, since its buffers may
// go too.
void sim_device::forget_poster_locked(sim_device* poster) {
  for (sim_message& m : inbox_) {
    if (m.poster != poster) continue;
    m.poster = nullptr;
    const auto* data = static_cast<const std::byte*>(m.op.buffer);
    m.bytes.assign(data, data + m.op.size);
    m.op.buffer = m.bytes.data();
  }
}

std::size_t sim_device::queued_from_locked(int rank) const {
  return static_cast<std::size_t>(std::count_if(
      inbox_.begin(), inbox_.end(), [&](const sim_message& m) { return m.op.rank == rank; }));
}

void sim_device::complete_locked(const net::net_op& op, int rank, const char* error) {
  if (op.context != nullptr || error != nullptr)
    completions_.push_back({op.context, op.local_key, rank, error});
}

// target: only operations to that rank, -1 for all. Order is kept unless the network is not ordered
// and reorders.
void sim_device::run_pending_locked(int target, bool puts_only) {
  for (std::size_t i = 0; i < pending_.size();) {
    if ((target >= 0 && pending_[i].op.rank != target) || (puts_only && pending_[i].is_get)) {
      ++i;
      continue;
    }
    std::size_t pick = i;
    const sim_rma& last = pending_.back();
    if (!world_.options.caps.ordered && !last.op.fence && last.op.rank == pending_[i].op.rank &&
        !(puts_only && last.is_get) && world_.draw(world_.options.reorder_one_in)) {
      // The newest one overtakes, which no fence between the two forbids only if there is none.
      const bool fenced = std::any_of(pending_.begin(), pending_.end(),
                                      [](const sim_rma& r) { return r.op.fence; });
      if (!fenced) pick = pending_.size() - 1;
    }
    const sim_rma r = pending_[pick];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(pick));
    complete_locked(r.op, r.op.rank, world_.run_rma_locked(r.op, r.is_get));
  }
}

bool sim_device::is_drained() const noexcept {
  std::lock_guard lock(world_.mutex);
  return pending_.empty() && completions_.empty() && in_inboxes_ == 0;
}

bool sim_device::may_bring(int rank) const noexcept {
  std::lock_guard lock(world_.mutex);
  return fabric_.contact_[static_cast<std::size_t>(rank)] != 0;
}

std::size_t sim_device::poll(net::sink& to, std::size_t max) noexcept {
  std::unique_lock inside(polling_, std::try_to_lock);
  if (!inside) return 0;
  {
    std::lock_guard lock(world_.mutex);
    if (world_.life[static_cast<std::size_t>(fabric_.rank_)] == sim_life::dead) return 0;
    ++polls_;
    ++fabric_.polls_;
    if (world_.options.caps.one_sided) run_pending_locked(-1, false);
    for (sim_fabric* peer : world_.fabrics) {
      sim_device* other = peer != nullptr ? world_.device_of(peer->rank_, index_) : nullptr;
      // Without one-sided operations the target's processor moves the data, here and now.
      if (other != nullptr && !world_.options.caps.one_sided)
        other->run_pending_locked(fabric_.rank_, false);
    }
  }
  std::size_t events = 0;
  while (events < max) {
    const step what = one_event(to);
    if (what == step::nothing) break;
    if (what == step::deferred) break;  // nothing may overtake it in this poll
    ++events;
  }
  return events;
}

sim_device::step sim_device::one_event(net::sink& to) noexcept {
  std::unique_lock lock(world_.mutex);
  if (world_.life[static_cast<std::size_t>(fabric_.rank_)] == sim_life::dead) return step::nothing;
  if (give_completion(to, lock)) return step::event;
  if (const step what = give_message(to, lock); what != step::nothing) return what;
  return give_gone(to, lock) ? step::event : step::nothing;
}

bool sim_device::give_completion(net::sink& to, std::unique_lock<sim_mutex>& lock) noexcept {
  // What fails by the end of a peer is told after that end.
  const auto at = std::find_if(completions_.begin(), completions_.end(), [this](const auto& c) {
    const auto rank = static_cast<std::size_t>(c.rank);
    const bool is_alive = world_.life[rank] == sim_life::alive || c.rank == fabric_.rank_;
    return c.error == nullptr || is_alive || gone_reported_[rank];
  });
  if (at == completions_.end()) return false;
  const sim_completion c = *at;
  completions_.erase(at);
  lock.unlock();
  if (c.error == nullptr)
    to.on_complete(c.context);
  else
    to.on_error(c.rank, c.context, c.error);
  return true;
}

// The data of a put_imm first, unless it was written at the post, then its immediate.
void sim_device::give_immediate(net::sink& to, sim_message& m,
                                std::unique_lock<sim_mutex>& lock) noexcept {
  const int from = m.op.rank;
  const char* error = nullptr;
  if (!m.put_done) {
    if (m.op.fence && m.poster != nullptr) m.poster->run_pending_locked(fabric_.rank_, true);
    net::net_op op = m.op;
    op.rank = fabric_.rank_;
    error = world_.run_rma_locked(op, false);
  }
  if (m.poster != nullptr) {
    --m.poster->in_inboxes_;
    m.poster->complete_locked(m.op, fabric_.rank_, error);
  }
  if (error != nullptr) return;
  ++busy_[static_cast<std::size_t>(from)];
  lock.unlock();
  to.on_immediate(from, m.op.imm);
  lock.lock();
  --busy_[static_cast<std::size_t>(from)];
}

sim_device::step sim_device::give_message(net::sink& to,
                                          std::unique_lock<sim_mutex>& lock) noexcept {
  // A message that is delayed holds back what the same rank sent later, if the network is ordered.
  std::vector<bool> held(world_.fabrics.size());
  auto at = inbox_.begin();
  for (; at != inbox_.end(); ++at) {
    const auto from = static_cast<std::size_t>(at->op.rank);
    if (at->not_before <= polls_ && !held[from]) break;
    if (world_.options.caps.ordered) held[from] = true;
  }
  if (at == inbox_.end()) return step::nothing;
  // Out of the inbox before the sink runs: a sink that polls again sees what comes after it.
  sim_message m = std::move(*at);
  inbox_.erase(at);
  if (!m.bytes.empty()) m.op.buffer = m.bytes.data();
  const int from = m.op.rank;

  if (m.is_put) {
    give_immediate(to, m, lock);
    return step::event;
  }

  mem::packet* packet = m.op.packet;
  if (packet == nullptr && fabric_.receives_ != nullptr &&
      (packet = fabric_.receives_->get()) != nullptr) {
    const auto* data = static_cast<const std::byte*>(m.op.buffer);
    std::copy(data, data + m.op.size, packet->payload());
  }
  const void* data = packet != nullptr && m.op.packet == nullptr ? packet->payload() : m.op.buffer;
  ++busy_[static_cast<std::size_t>(from)];
  lock.unlock();
  const net::verdict v =
      to.on_message({from, m.op.imm, static_cast<const std::byte*>(data), m.op.size, packet});
  sim_require(v != net::verdict::kept || packet != nullptr, "a message without packet was kept");
  lock.lock();
  --busy_[static_cast<std::size_t>(from)];
  if (v != net::verdict::kept && packet != nullptr &&
      (v == net::verdict::taken || m.op.packet == nullptr)) {
    mem::release_packet(*fabric_.config_.arena, packet);
  }
  if (v == net::verdict::deferred) {
    m.deferred = true;
    inbox_.push_front(std::move(m));
    return step::deferred;
  }
  if (m.poster != nullptr) {
    --m.poster->in_inboxes_;
    m.poster->complete_locked(m.op, fabric_.rank_, nullptr);
  }
  return step::event;
}

bool sim_device::give_gone(net::sink& to, std::unique_lock<sim_mutex>& lock) noexcept {
  for (std::size_t rank = 0; rank < world_.life.size(); ++rank) {
    const sim_life life = world_.life[rank];
    if (life != sim_life::left && life != sim_life::dead) continue;
    const int r = static_cast<int>(rank);
    if (gone_reported_[rank] || fabric_.contact_[rank] == 0 || r == fabric_.rank_) continue;
    if (busy_[rank] != 0 || queued_from_locked(r) != 0) continue;
    gone_reported_[rank] = true;
    lock.unlock();
    to.on_peer_ended(r, life == sim_life::left,
                     life == sim_life::left ? "the peer left" : "the peer died");
    return true;
  }
  return false;
}

}  // namespace lci::test
