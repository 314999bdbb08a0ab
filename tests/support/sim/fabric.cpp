#include <sys/stat.h>

#include "lci/errors.hpp"
#include "lci/mem/region_table.hpp"
#include "tests/support/sim/state.hpp"

namespace lci::test {

sim_fabric::sim_fabric(std::shared_ptr<sim_state> world, int rank, const net::fabric_config& config)
    : world_(std::move(world)),
      rank_(rank),
      caps_(world_->options.caps),
      config_(config),
      ladder_("sim", config.gpu_rules) {
  const auto ranks = static_cast<int>(world_->fabrics.size());
  if (rank < 0 || rank >= ranks) {
    throw backend_error("sim: rank " + std::to_string(rank) + " is not in 0.." +
                        std::to_string(ranks - 1));
  }
  if (world_->options.packets == sim_packets::own) {
    receives_ =
        std::make_unique<mem::packet_pool>(*config.arena, sizeof(mem::packet) + caps_.max_send, 64);
  }
  std::lock_guard lock(world_->mutex);
  if (world_->life[static_cast<std::size_t>(rank)] != sim_life::absent) {
    throw backend_error("sim: rank " + std::to_string(rank) + " was opened before");
  }
  contact_.resize(static_cast<std::size_t>(ranks));
  world_->fabrics[static_cast<std::size_t>(rank)] = this;
  world_->life[static_cast<std::size_t>(rank)] = sim_life::alive;
}

sim_fabric::~sim_fabric() {
  std::lock_guard lock(world_->mutex);
  if (world_->life[static_cast<std::size_t>(rank_)] == sim_life::alive) world_->kill_locked(rank_);
  world_->fabrics[static_cast<std::size_t>(rank_)] = nullptr;
}

std::unique_ptr<net::device> sim_fabric::make_device(int index) {
  auto made = std::make_unique<sim_device>(*this, index);
  std::lock_guard lock(world_->mutex);
  const auto at = static_cast<std::size_t>(index);
  if (devices_.size() <= at) devices_.resize(at + 1);
  if (devices_[at] != nullptr)
    throw backend_error("sim: device " + std::to_string(index) + " exists");
  devices_[at] = made.get();
  return made;
}

// A connection is mutual: from first contact on each side hears of the other's end.
bool sim_fabric::connected_locked(int rank) {
  const auto to = static_cast<std::size_t>(rank);
  sim_fabric* peer = world_->fabrics[to];
  if (peer == nullptr || world_->life[to] != sim_life::alive) return false;
  if (contact_[to] == 0) contact_[to] = polls_ + 1;
  auto& back = peer->contact_[static_cast<std::size_t>(rank_)];
  if (back == 0) back = peer->polls_ + 1;
  return polls_ + 1 >= contact_[to] + world_->options.connect_polls;
}

void sim_fabric::connect(int rank) noexcept {
  std::lock_guard lock(world_->mutex);
  (void)connected_locked(rank);
}

net::remote_view sim_fabric::check_remote(int rank, net::remote_key key) noexcept {
  using answer = net::remote_view::answer;
  std::lock_guard lock(world_->mutex);
  if (!connected_locked(rank)) return {};
  const mem::region_table& table =
      *world_->fabrics[static_cast<std::size_t>(rank)]->config_.regions;
  // The size is where the last legal offset is: find() is the only question that the table answers
  // from outside.
  if (table.find({key.slot, key.generation}, 0, 0) == nullptr)
    return {.what = answer::unknown_key,
            .size = 0,
            .kind = {},
            .address = 0,
            .share = {},
            .off_network = false};
  std::size_t low = 0;
  std::size_t high = std::size_t{1} << 47;
  while (low < high) {
    const std::size_t middle = low + (high - low + 1) / 2;
    if (table.find({key.slot, key.generation}, 0, middle) != nullptr)
      low = middle;
    else
      high = middle - 1;
  }
  const auto row = table.look_up({key.slot, key.generation});
  return {.what = answer::ok,
          .size = low,
          .kind = row ? row->kind : mem::mem_kind::host,
          .address = row ? reinterpret_cast<std::uint64_t>(row->address) : 0,
          .share = row ? row->share : mem::share_place{},
          .off_network = row && row->off_network};
}

// All ranks live in one process, so a mapping is the arena itself. It outlasts the death of its
// rank, as mappings do.
std::byte* sim_fabric::reach(int rank, std::uint64_t place, std::size_t size) noexcept {
  std::lock_guard lock(world_->mutex);
  const sim_fabric* const peer = world_->fabrics[static_cast<std::size_t>(rank)];
  if (!world_->options.maps_arenas || peer == nullptr) return nullptr;
  const mem::arena& arena = *peer->config_.arena;
  const std::size_t there = arena.committed();
  return place <= there && size <= there - place ? arena.at(place) : nullptr;
}

int sim_fabric::process_of(int rank) noexcept {
  std::lock_guard lock(world_->mutex);
  return world_->options.maps_arenas ? 1000 + rank : 0;
}

// sim looks memory up in the region table itself and needs no keys for host memory. Device memory
// has to be registered, as on a card.
std::uint64_t sim_fabric::register_region(void* address, std::size_t size, mem::mem_kind kind,
                                          std::string& why_not) {
  if (kind == mem::mem_kind::host) return 0;
  sim_require(caps_.device_memory && world_->options.gpus != nullptr,
              "GPU memory is to be registered with a network that does not handle it");
  const mem::memory_place place = world_->options.gpus->find(address);
  const mem::device_registration made = ladder_.climb(*this, place, address, size);
  if (!made.by) why_not = made.why_not();
  return made.key;
}

void sim_fabric::deregister_region(std::uint64_t local_key) noexcept {
  if (local_key == 0) return;  // host memory
  std::lock_guard lock(world_->mutex);
  const auto found = world_->registered.find(local_key);
  sim_require(found != world_->registered.end() && found->second.rank == rank_,
              "what is not registered, or not any more, is deregistered");
  world_->registered.erase(found);
}

mem::registration_answer sim_fabric::register_range(const mem::descriptor_range& what) {
  constexpr std::uint64_t PAGE = 4096;
  struct stat about {};
  sim_require(fstat(what.fd, &about) == 0, "a range of a descriptor that is not open");
  sim_require(what.offset % PAGE == what.iova % PAGE && what.length != 0,
              "offset and address of a range do not agree within a page");
  return answer(what.wants_data_direct ? mem::rung::data_direct : mem::rung::dma_buf,
                reinterpret_cast<void*>(what.iova), what.length);
}

mem::registration_answer sim_fabric::register_pointer(void* address, std::size_t size) {
  return answer(mem::rung::peer_memory, address, size);
}

mem::registration_answer sim_fabric::answer(mem::rung which, void* address, std::size_t size) {
  std::lock_guard lock(world_->mutex);
  const std::uint64_t nth = ++attempts_[static_cast<std::size_t>(which)];
  mem::registration_answer out;
  if (world_->options.registers) out = world_->options.registers(rank_, which, nth);
  out.key = 0;
  if (!out.why_not.empty()) return out;
  out.key = ++world_->last_key;
  world_->registered[out.key] = {rank_, static_cast<std::byte*>(address), size};
  return out;
}

void sim_fabric::leave() noexcept {
  std::lock_guard lock(world_->mutex);
  sim_life& life = world_->life[static_cast<std::size_t>(rank_)];
  if (life == sim_life::alive) life = sim_life::left;
}

}  // namespace lci::test
