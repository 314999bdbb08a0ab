#include <sys/stat.h>

#include "lci/errors.hpp"
#include "lci/mem/region_table.hpp"
#include "lci/net/peer_table.hpp"
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
  if (world_->options.needs_keys &&
      (caps_.max_inject < 88 || world_->options.packets == sim_packets::lend))
    throw backend_error("sim: with keys max_inject has to be 88, and packets are not lent");
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

std::unique_ptr<net::device> sim_fabric::make_device(int index, net::device_config&) {
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
  const bool is_connected = polls_ + 1 >= contact_[to] + world_->options.connect_polls;
  if (config_.peers != nullptr)
    config_.peers->report(rank,
                          is_connected ? net::peer_event::connected : net::peer_event::connect);
  auto& back = peer->contact_[static_cast<std::size_t>(rank_)];
  if (back == 0) back = peer->polls_ + 1;
  return is_connected;
}

void sim_fabric::connect(int rank) noexcept {
  std::lock_guard lock(world_->mutex);
  (void)connected_locked(rank);
}

net::remote_view sim_fabric::check_remote(int rank, net::remote_key key, int /*device*/) noexcept {
  using answer = net::remote_view::answer;
  std::lock_guard lock(world_->mutex);
  ++world_->counters.looks;
  if (!connected_locked(rank)) return {};
  const mem::region_table& table =
      *world_->fabrics[static_cast<std::size_t>(rank)]->config_.regions;
  // The size is where the last legal offset is: find() is the only question that the table answers
  // from outside.
  const bool is_hidden = world_->options.needs_keys && !world_->published_key(rank, key);
  if (is_hidden || table.find({key.slot, key.generation}, 0, 0) == nullptr)
    return {.what = answer::unknown_key,
            .size = 0,
            .kind = {},
            .address = 0,
            .share = {},
            .off_network = false,
            .at = {}};
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
          .off_network = row && row->off_network,
          .at = {}};
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
  return world_->options.maps_arenas ? world_->options.first_process + rank : 0;
}

bool sim_fabric::is_in_arena(const void* address, std::size_t size) const noexcept {
  const mem::arena& arena = *config_.arena;
  const auto* const at = static_cast<const std::byte*>(address);
  const std::byte* const base = arena.at(0);
  return at >= base && size <= arena.committed() && at <= base + (arena.committed() - size);
}

// Without needs_keys sim looks host memory up in the region table itself. Device memory has to be
// registered in any case, as on a card.
std::uint64_t sim_fabric::register_region(void* address, std::size_t size, mem::mem_kind kind,
                                          std::string& why_not) {
  if (kind == mem::mem_kind::host) return register_host(address, size);
  sim_require(caps_.device_memory && world_->options.gpus != nullptr,
              "GPU memory is to be registered with a network that does not handle it");
  const mem::memory_place place = world_->options.gpus->find(address);
  const mem::device_registration made = ladder_.climb(*this, place, address, size);
  if (!made.by) why_not = made.why_not();
  return made.key;
}

std::uint64_t sim_fabric::register_host(void* address, std::size_t size) {
  if (!world_->options.needs_keys) return 0;
  sim_require(size != 0, "nothing is to be registered");
  if (is_in_arena(address, size)) return 0;
  std::lock_guard lock(world_->mutex);
  const std::uint64_t nth = ++host_attempts_;
  if (world_->options.refuses_host && world_->options.refuses_host(rank_, nth))
    throw backend_error("sim: the card refuses " + std::to_string(size) + " bytes of host memory");
  world_->registered[++world_->last_key] = {rank_, static_cast<std::byte*>(address), size,
                                            mem::mem_kind::host};
  return world_->last_key;
}

void sim_fabric::publish(net::remote_key name, std::uint64_t local_key) noexcept {
  std::lock_guard lock(world_->mutex);
  sim_require(local_key == 0 || world_->registered.count(local_key) != 0,
              "what is not registered is published");
  world_->published[{rank_, name.slot, name.generation}] = local_key;
}

net::remote_target sim_fabric::target_of(net::remote_key name) noexcept {
  std::lock_guard lock(world_->mutex);
  const auto row = config_.regions->look_up({name.slot, name.generation});
  if (!world_->options.needs_keys || !row) return {};
  const auto address = reinterpret_cast<std::uint64_t>(row->address);
  const auto key = world_->published_key(rank_, name);
  if (key && *key != 0) return {address, *key};
  if (!is_in_arena(row->address, row->size)) return {};
  return {address, sim_state::ARENA_KEYS + static_cast<std::uint64_t>(rank_)};
}

void sim_fabric::deregister_region(std::uint64_t local_key) noexcept {
  if (local_key == 0) return;  // host memory that needs none
  std::lock_guard lock(world_->mutex);
  const auto found = world_->registered.find(local_key);
  sim_require(found != world_->registered.end() && found->second.rank == rank_,
              "what is not registered, or not any more, is deregistered");
  sim_require(!world_->is_in_use_locked(rank_, local_key),
              "what an operation uses is deregistered");
  world_->registered.erase(found);
  std::erase_if(world_->published, [&](const auto& one) { return one.second == local_key; });
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
  world_->registered[out.key] = {rank_, static_cast<std::byte*>(address), size,
                                 mem::mem_kind::device};
  return out;
}

void sim_fabric::leave() noexcept {
  std::lock_guard lock(world_->mutex);
  sim_life& life = world_->life[static_cast<std::size_t>(rank_)];
  if (life == sim_life::alive) life = sim_life::left;
}

}  // namespace lci::test
