#include "backends/shm/peers.hpp"

#include "lci/mem/region_table.hpp"

namespace lci::shm {

peers::peers(const net::fabric_config& config, std::size_t chunk)
    : config_(config),
      single_copy_min_(config.shm_single_copy_min != 0 ? config.shm_single_copy_min
                                                       : SINGLE_COPY_MIN),
      chunks_(*config.arena, sizeof(mem::packet) + chunk, MAX_CHUNKS),
      peers_(static_cast<std::size_t>(config.book->size())) {}

net::remote_view peers::look_up(int rank, net::remote_key key) noexcept {
  net::remote_view out;
  if (rank < 0 || rank >= size()) return out;
  peer* who = find(rank);
  if (who == nullptr || who->state.load(std::memory_order_relaxed) == contact::none) {
    connect(rank);
    who = find(rank);
  }
  // edge peer.mapped: partner is the release store in map_locked().
  if (who == nullptr || who->state.load(std::memory_order_acquire) != contact::mapped) return out;
  out.what = net::remote_view::answer::unknown_key;
  if (who->rows == nullptr || key.slot == 0 || key.slot >= mem::region_table::MAX_REGIONS)
    return out;
  return net::view_of(mem::region_table::read_remote(who->rows, {key.slot, key.generation}));
}

}  // namespace lci::shm
