#include "lci/proto/engine/core.hpp"

#include <algorithm>

#include "lci/mem/address_space.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci {

allocator_default_t g_allocator_default;

}  // namespace lci

namespace lci::proto {

core::core(int rank, int size, wire::imm_layout layout, int ranks_here, std::size_t most_reserve)
    : me(rank),
      n(size),
      imm(layout),
      arena(mem::fair_reserve(mem::find_address_space(), ranks_here, mem::arena::LEAST_SHARE,
                              most_reserve)),
      regions(arena),
      allocator(&g_allocator_default),
      peers(size) {}

core::named_range core::find_range(wire::name region, std::uint64_t offset,
                                   std::size_t size) const noexcept {
  const auto found = regions.look_up({region.slot, region.generation});
  if (!found || offset > found->size || size > found->size - offset) return {};
  named_range out{static_cast<std::byte*>(found->address) + offset, found->kind, -1};
  if (out.kind == mem::mem_kind::device) out.gpu = mem::find_place(out.at).device;
  return out;
}

void core::give_back(void* buffer, allocator_base_t* from) noexcept {
  if (buffer == nullptr) return;
  if (from != nullptr) {
    try {
      from->deallocate(buffer);
    } catch (...) {  // lost, as there is no caller to be told
    }
  } else if (mem::packet* const p = mem::packet_pool::held(arena, buffer); p != nullptr) {
    mem::release_packet(arena, p);
  }
}

void core::enter(member& one) {
  const std::lock_guard lock(members_lock_);
  members_.push_back(&one);
}

void core::leave(member& one) noexcept {
  {
    const std::lock_guard lock(members_lock_);
    std::erase(members_, &one);
  }
  // What others wait for may have been for this one to bring.
  if (peers.epoch() == 0) return;
  for (int rank = 0; rank < n; ++rank) peers.remind(rank);
}

bool core::has(const member& one) noexcept {
  const std::lock_guard lock(members_lock_);
  return std::find(members_.begin(), members_.end(), &one) != members_.end();
}

bool core::is_all_in(int rank) noexcept {
  const std::lock_guard lock(members_lock_);
  return peers.has_ended(rank) &&
         std::all_of(members_.begin(), members_.end(),
                     [&](const member* one) { return one->has_all_of(rank); });
}

bool core::is_all_in_over(const net::fabric& network, int rank) noexcept {
  const std::lock_guard lock(members_lock_);
  return std::all_of(members_.begin(), members_.end(), [&](const member* one) {
    return &one->network() != &network || one->has_all_of(rank);
  });
}

bool core::is_unmet(int rank) noexcept {
  const std::lock_guard lock(members_lock_);
  const auto none_may_bring = [&] {
    return std::all_of(members_.begin(), members_.end(),
                       [&](const member* one) { return one->has_all_of(rank); });
  };
  // It may have called before it left, which no thread has looked at.
  return none_may_bring() &&
         std::all_of(members_.begin(), members_.end(),
                     [](member* one) { return one->hear_callers(); }) &&
         none_may_bring();
}

}  // namespace lci::proto
