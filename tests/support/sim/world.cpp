#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lci/mem/region_table.hpp"
#include "tests/support/sim/state.hpp"

namespace lci::test {

void sim_require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "sim: the caller broke the backend contract: %s\n", what);
  std::abort();
}

sim_device* sim_state::device_of(int rank, int index) {
  sim_fabric* fabric = fabrics[static_cast<std::size_t>(rank)];
  if (fabric == nullptr || static_cast<std::size_t>(index) >= fabric->devices_.size())
    return nullptr;
  return fabric->devices_[static_cast<std::size_t>(index)];
}

const char* sim_state::run_rma_locked(const net::net_op& op, bool is_get) {
  sim_fabric* target = fabrics[static_cast<std::size_t>(op.rank)];
  if (target == nullptr || life[static_cast<std::size_t>(op.rank)] != sim_life::alive)
    return "the peer is gone";
  if (op.size > options.caps.max_rma) return "longer than max_rma";
  if (op.at.key != 0) ++counters.told;
  void* const remote = find_remote_locked(*target, op);
  if (remote == nullptr) return "unknown remote key, or outside the registration";
  // memmove: a rank may put within its own region. Size 0 may come with null pointers.
  if (op.size == 0) return nullptr;
  void* const local = local_bytes(op);
  if (is_get)
    std::memmove(local, remote, op.size);
  else
    std::memmove(remote, local, op.size);
  return nullptr;
}

void* sim_state::find_remote_locked(const sim_fabric& target, const net::net_op& op) const {
  if (op.at.key != 0) return find_told_locked(target, op);
  const mem::region_name name{op.remote.slot, op.remote.generation};
  void* const at = target.config_.regions->find(name, op.remote_offset, op.size);
  const auto region = target.config_.regions->look_up(name);
  if (at == nullptr || !region || op.size == 0) return at;
  if (options.needs_keys && region->kind == mem::mem_kind::host) {
    const auto key = published_key(op.rank, op.remote);
    if (!key) return nullptr;
    const auto found = registered.find(*key);
    const bool is_covered = found != registered.end() && found->second.covers(at, op.size);
    return is_covered || target.is_in_arena(at, op.size) ? at : nullptr;
  }
  return remote_bytes(*region, at, op);
}

// What the peer said, as its card sees it.
void* sim_state::find_told_locked(const sim_fabric& target, const net::net_op& op) const {
  sim_require(options.needs_keys, "a target that this network has not made");
  const std::uint64_t address = op.at.address + op.remote_offset;
  auto* const at = reinterpret_cast<void*>(address);
  if (address < op.at.address) return nullptr;
  if (op.at.key == ARENA_KEYS + static_cast<std::uint64_t>(op.rank))
    return target.is_in_arena(at, op.size) ? at : nullptr;
  const auto found = registered.find(op.at.key);
  if (found == registered.end() || found->second.rank != op.rank ||
      !found->second.covers(at, op.size))
    return nullptr;
  return found->second.kind == mem::mem_kind::host ? at : device_bytes(at, true);
}

std::optional<std::uint64_t> sim_state::published_key(int rank, net::remote_key name) const {
  const auto found = published.find({rank, name.slot, name.generation});
  if (found == published.end()) return {};
  return found->second;
}

void sim_state::require_registered_locked(int rank, const net::net_op& op) const {
  if (!options.needs_keys || op.kind != mem::mem_kind::host || op.size == 0 || op.packet != nullptr)
    return;
  if (op.local_key == 0) {
    sim_require(fabrics[static_cast<std::size_t>(rank)]->is_in_arena(op.buffer, op.size),
                "host memory is not registered");
    return;
  }
  const auto found = registered.find(op.local_key);
  sim_require(found != registered.end() && found->second.rank == rank &&
                  found->second.kind == mem::mem_kind::host &&
                  found->second.covers(op.buffer, op.size),
              "host memory is not what its key has registered");
}

bool sim_state::is_in_use_locked(int rank, std::uint64_t local_key) const {
  const auto is_it = [local_key](const auto& one) { return one.op.local_key == local_key; };
  for (const sim_fabric* fabric : fabrics) {
    if (fabric == nullptr) continue;
    for (const sim_device* device : fabric->devices_) {
      if (device == nullptr) continue;
      const bool is_own = fabric->rank_ == rank;
      if (is_own && std::any_of(device->pending_.begin(), device->pending_.end(), is_it))
        return true;
      if (is_own && std::any_of(device->completions_.begin(), device->completions_.end(),
                                [&](const auto& c) { return c.local_key == local_key; }))
        return true;
      if (std::any_of(device->inbox_.begin(), device->inbox_.end(), [&](const sim_message& m) {
            return m.poster != nullptr && is_it(m) && m.poster->fabric_.rank_ == rank;
          }))
        return true;
    }
  }
  return false;
}

void* sim_state::local_bytes(const net::net_op& op) const {
  if (op.kind == mem::mem_kind::host) return op.buffer;
  const auto found = registered.find(op.local_key);
  return device_bytes(op.buffer,
                      found != registered.end() && found->second.covers(op.buffer, op.size));
}

void* sim_state::remote_bytes(const mem::region& region, void* address,
                              const net::net_op& op) const {
  if (region.kind == mem::mem_kind::host) return address;
  sim_require(!region.off_network, "the network was given a region that it has not registered");
  return device_bytes(address, std::any_of(registered.begin(), registered.end(), [&](auto& one) {
                        return one.second.rank == op.rank && one.second.covers(address, op.size);
                      }));
}

void* sim_state::device_bytes(void* address, bool is_registered) const {
  sim_require(options.caps.device_memory && options.device_bytes != nullptr,
              "the network was given GPU memory, which it does not handle");
  sim_require(is_registered, "the network was given GPU memory that is not registered");
  return options.device_bytes(address);
}

void sim_state::kill_locked(int rank) {
  const auto victim = static_cast<std::size_t>(rank);
  life[victim] = sim_life::dead;
  for (sim_fabric* fabric : fabrics) {
    if (fabric == nullptr) continue;
    for (sim_device* device : fabric->devices_) {
      if (device == nullptr) continue;
      if (fabric->rank_ == rank) {
        // What was on its way to the dead rank is lost, and posters learn that.
        for (sim_message& m : device->inbox_) {
          if (m.op.packet != nullptr) mem::release_packet(*fabric->config_.arena, m.op.packet);
          if (m.poster == nullptr) continue;
          --m.poster->in_inboxes_;
          m.poster->complete_locked(m.op, rank, "the peer died");
        }
        device->inbox_.clear();
        device->pending_.clear();
        device->completions_.clear();
        device->in_inboxes_ = 0;
      } else {
        std::deque<sim_rma> keep;
        for (sim_rma& r : device->pending_) {
          if (r.op.rank != rank)
            keep.push_back(r);
          else
            device->complete_locked(r.op, rank, "the peer died");
        }
        device->pending_.swap(keep);
        // The dead rank's buffers stay readable in this process, but nobody is left to be told
        // about them.
        for (sim_message& m : device->inbox_) {
          if (m.poster != nullptr && m.poster->fabric_.rank_ == rank) m.poster = nullptr;
        }
      }
    }
  }
}

sim_world::sim_world(int ranks, sim_options options)
    : state_(std::make_shared<sim_state>(ranks, options)) {}

std::unique_ptr<net::fabric> sim_world::open(int rank, const net::fabric_config& config) {
  return std::make_unique<sim_fabric>(state_, rank, config);
}

void sim_world::kill(int rank) {
  std::lock_guard lock(state_->mutex);
  state_->kill_locked(rank);
}

void sim_world::change(const std::function<void(sim_options&)>& how) {
  std::lock_guard lock(state_->mutex);
  how(state_->options);
}

std::size_t sim_world::registrations(int rank) const {
  std::lock_guard lock(state_->mutex);
  return static_cast<std::size_t>(
      std::count_if(state_->registered.begin(), state_->registered.end(),
                    [rank](const auto& one) { return one.second.rank == rank; }));
}

sim_counters sim_world::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

}  // namespace lci::test
