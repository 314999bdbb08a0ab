#include "lci/proto/engine/core.hpp"

#include <algorithm>
#include <new>

#include "lci/errors.hpp"
#include "lci/mem/address_space.hpp"
#include "lci/mem/packet_pool.hpp"

namespace lci {

allocator_default_t g_allocator_default;

}  // namespace lci

namespace lci::proto {

core::core(int rank, int size, wire::imm_layout layout, int ranks_here)
    : me(rank),
      n(size),
      imm(layout),
      arena(mem::fair_reserve(mem::find_address_space(), ranks_here, mem::arena::LEAST_SHARE,
                              mem::arena::DEFAULT_RESERVE)),
      regions(arena),
      allocator(&g_allocator_default),
      gone_(new std::atomic<std::uint8_t>[static_cast<std::size_t>(size)]),
      reasons_(static_cast<std::size_t>(size)) {
  for (int i = 0; i < size; ++i)
    gone_[static_cast<std::size_t>(i)].store(0, std::memory_order_relaxed);
}

core::named_range core::find_range(wire::name region, std::uint64_t offset,
                                   std::size_t size) const noexcept {
  const auto found = regions.look_up({region.slot, region.generation});
  if (!found || offset > found->size || size > found->size - offset) return {};
  named_range out{static_cast<std::byte*>(found->address) + offset, found->kind, -1};
  if (out.kind == mem::mem_kind::device) out.gpu = mem::find_place(out.at).device;
  return out;
}

void core::mark_gone(int rank, bool orderly, std::string_view reason) noexcept {
  const auto at = static_cast<std::size_t>(rank);
  {
    const std::lock_guard lock(mutex_);
    if (gone_[at].load(std::memory_order_relaxed) == 2) return;
    try {
      reasons_[at] = reason;
    } catch (const std::bad_alloc&) {
      reasons_[at].clear();  // that it is gone counts
    }
    if (!orderly) last_death_ = std::chrono::steady_clock::now();
    gone_[at].store(orderly ? 1 : 2, std::memory_order_relaxed);
  }
  // edge core.gone: the flag and the reason are visible to whoever sees the new epoch; partner is
  // failure_epoch().
  failure_epoch_.fetch_add(1, std::memory_order_release);
}

bool core::has_died_lately(std::chrono::steady_clock::duration lately) const noexcept {
  if (failure_epoch() == 0) return false;
  const std::lock_guard lock(mutex_);
  return last_death_ && std::chrono::steady_clock::now() - *last_death_ < lately;
}

std::vector<int> core::dead() const {
  std::vector<int> out;
  for (int rank = 0; rank < n; ++rank)
    if (has_died(rank)) out.push_back(rank);
  return out;
}

void core::give_back(void* buffer, allocator_base_t* from) noexcept {
  if (buffer == nullptr) return;
  if (from != nullptr) {
    try {
      from->deallocate(buffer);
    } catch (...) {  // lost, as nobody is there to be told
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
  // What others wait for may have been for this one to bring. edge core.gone
  if (failure_epoch() != 0) failure_epoch_.fetch_add(1, std::memory_order_release);
}

bool core::has(const member& one) noexcept {
  const std::lock_guard lock(members_lock_);
  return std::find(members_.begin(), members_.end(), &one) != members_.end();
}

bool core::is_all_in(int rank) noexcept {
  const std::lock_guard lock(members_lock_);
  return is_gone(rank) && std::all_of(members_.begin(), members_.end(),
                                      [&](const member* one) { return one->has_all_of(rank); });
}

bool core::is_unmet(int rank) noexcept {
  const std::lock_guard lock(members_lock_);
  const auto none_may_bring = [&] {
    return std::none_of(members_.begin(), members_.end(),
                        [&](member* one) { return one->may_bring(rank); });
  };
  // It may have called before it left, which nobody has looked at.
  return none_may_bring() &&
         std::all_of(members_.begin(), members_.end(),
                     [](member* one) { return one->hear_callers(); }) &&
         none_may_bring();
}

std::string core::words_for(int rank) const {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason = reasons_[static_cast<std::size_t>(rank)];
  }
  // The network refuses a post before a poll has heard why.
  if (reason.empty()) reason = "its connection has failed";
  return "rank " + std::to_string(rank) + " is gone: " + reason;
}

void core::throw_gone(int rank) const {
  std::optional<peer_failure_error> error;
  try {
    error.emplace(rank, words_for(rank));
  } catch (const std::bad_alloc&) {
    error.emplace(rank, std::string());  // it may be told once only: who is gone, if not why
  }
  throw *error;
}

}  // namespace lci::proto
