#include "lci/mem/payload_index.hpp"

#include <algorithm>
#include <mutex>

#include "lci/mem/packet.hpp"

namespace lci::mem {

void payload_index::add(const slab& what) {
  const std::lock_guard lock(mutex_);
  slabs_.insert(std::upper_bound(slabs_.begin(), slabs_.end(), what.at,
                                 [](std::uintptr_t at, const slab& s) { return at < s.at; }),
                what);
}

void payload_index::remove(std::uintptr_t at) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(slabs_, [at](const slab& s) { return s.at == at; });
}

// Under mutex_.
const payload_index::slab* payload_index::slab_of(std::uintptr_t address) const noexcept {
  auto after = std::upper_bound(slabs_.begin(), slabs_.end(), address,
                                [](std::uintptr_t at, const slab& s) { return at < s.at; });
  if (after == slabs_.begin()) return nullptr;
  const slab& s = *--after;
  return address - s.at < s.stride * s.count ? &s : nullptr;
}

packet* payload_index::find(const void* payload) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(payload);
  const std::shared_lock lock(mutex_);
  const slab* const s = slab_of(address);
  if (s == nullptr || (address - s->at) % s->stride != 0) return nullptr;
  const std::size_t number = (address - s->at) / s->stride;
  return reinterpret_cast<packet*>(reinterpret_cast<std::byte*>(s->first) +
                                   number * s->packet_size);
}

const packet* payload_index::near(const void* address) const noexcept {
  const std::shared_lock lock(mutex_);
  const slab* const s = slab_of(reinterpret_cast<std::uintptr_t>(address));
  return s == nullptr ? nullptr : s->first;
}

}  // namespace lci::mem
