#include "lci/mem/payload_pool.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "lci/base/log.hpp"
#include "lci/errors.hpp"

namespace lci::mem {

payload_pool::payload_pool(arena& headers, packet_home& name, allocator_base_t& from,
                           std::size_t payload_size, std::size_t limit, place_finder find)
    : arena_(headers),
      name_(name),
      from_(from),
      payload_size_(payload_size),
      stride_(base::align_up(payload_size, ALIGNMENT)),
      limit_(limit),
      find_(find) {}

payload_pool::~payload_pool() {
  for (slab* const s : slabs_) {
    const auto is_home = [](const far_packet& p) {
      return p.state.load(std::memory_order_relaxed) == packet_state::pooled;
    };
    if (std::all_of(s->packets, s->packets + s->count, is_home)) {
      release(*s);
    } else {
      base::log::warn("mem", "a packet pool was freed while packets of it were in use");
      arena_.payloads().remove(reinterpret_cast<std::uintptr_t>(s->start));
      for (std::size_t i = 0; i < s->count; ++i)
        s->packets[i].state.store(packet_state::pooled, std::memory_order_relaxed);
    }
    delete s;
  }
}

far_packet* payload_pool::take() noexcept {
  const std::lock_guard lock(lock_);
  auto* const p = static_cast<far_packet*>(free_);
  if (p == nullptr) return nullptr;
  free_ = p->next;
  --free_count_;
  p->state.store(packet_state::apart, std::memory_order_relaxed);
  return p;
}

far_packet* payload_pool::get() {
  if (far_packet* const p = take(); p != nullptr) return p;
  if (allocated() == limit_) return nullptr;
  const std::lock_guard lock(growing_);
  for (;;) {
    if (far_packet* const p = take(); p != nullptr) return p;
    if (allocated() == limit_) return nullptr;
    grow();
  }
}

bool payload_pool::put(far_packet& p) noexcept {
  const std::lock_guard lock(lock_);
  if (p.state.load(std::memory_order_relaxed) != packet_state::apart) return false;
  p.state.store(packet_state::pooled, std::memory_order_relaxed);
  if (std::exchange(p.is_in_operation, false)) --in_operations_;
  p.next = free_;
  free_ = &p;
  ++free_count_;
  return true;
}

void payload_pool::enter_operation(far_packet& p) noexcept {
  const std::lock_guard lock(lock_);
  if (!std::exchange(p.is_in_operation, true)) ++in_operations_;
}

void payload_pool::leave_operation(far_packet& p) noexcept {
  const std::lock_guard lock(lock_);
  if (std::exchange(p.is_in_operation, false)) --in_operations_;
}

std::size_t payload_pool::in_operations() const noexcept {
  const std::lock_guard lock(lock_);
  return in_operations_;
}

std::size_t payload_pool::outstanding() const noexcept {
  const std::lock_guard lock(lock_);
  return allocated() - free_count_;
}

// Under growing_.
void payload_pool::grow() {
  auto s = std::make_unique<slab>();
  s->count = std::clamp<std::size_t>(SLAB_BYTES / stride_, 1, limit_ - allocated());
  slabs_.reserve(slabs_.size() + 1);
  s->memory = from_.allocate(s->count * stride_ + ALIGNMENT - 1);
  if (s->memory == nullptr) throw std::bad_alloc();
  try {
    settle(*s);
  } catch (...) {
    from_.deallocate(s->memory);
    throw;
  }
  const std::lock_guard lock(lock_);
  for (std::size_t i = s->count; i-- > 0;) {
    s->packets[i].next = free_;
    free_ = &s->packets[i];
  }
  free_count_ += s->count;
  made_.fetch_add(s->count, std::memory_order_relaxed);
  slabs_.push_back(s.release());
}

// Makes the packets of a slab and enters them in the arena's index.
void payload_pool::settle(slab& s) {
  s.place = find_(s.memory);
  if (!s.place.is_handled) throw argument_error(s.place.domain->refusal(s.memory));
  const auto at = reinterpret_cast<std::uintptr_t>(s.memory);
  s.start = static_cast<std::byte*>(s.memory) + (base::align_up(at, ALIGNMENT) - at);
  const std::size_t bytes = s.count * sizeof(far_packet);
  s.packets = static_cast<far_packet*>(arena_.allocate(bytes, alignof(far_packet)));
  for (std::size_t i = 0; i < s.count; ++i) {
    far_packet& p = *::new (s.packets + i) far_packet;
    p.pool = &name_;
    p.capacity = static_cast<std::uint32_t>(payload_size_);
    p.home = this;
    p.data = s.start + i * stride_;
    p.place = &s.place;
  }
  try {
    arena_.payloads().add({reinterpret_cast<std::uintptr_t>(s.start), stride_, s.count, s.packets,
                           sizeof(far_packet)});
  } catch (...) {
    arena_.free(s.packets, bytes);
    throw;
  }
  arena_.packet_window().widen(s.start, s.count * stride_);
}

void payload_pool::release(slab& s) noexcept {
  arena_.payloads().remove(reinterpret_cast<std::uintptr_t>(s.start));
  arena_.free(s.packets, s.count * sizeof(far_packet));
  try {
    from_.deallocate(s.memory);
  } catch (const std::exception& problem) {
    base::log::warn("mem", "memory of a packet pool was not freed: %s", problem.what());
  }
}

}  // namespace lci::mem
