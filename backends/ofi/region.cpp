#include "backends/ofi/region.hpp"

#include <algorithm>
#include <new>

#include "lci/base/log.hpp"
#include "lci/base/undo.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::ofi {

regions::regions(const opened_domain& on, fid_ep* keys, const net::fabric_config& config,
                 mem::unmap_source& news)
    : registrar_(on, keys, config),
      needs_local_(registrar_.has_mode(FI_MR_LOCAL)),
      is_virtual_(registrar_.has_mode(FI_MR_VIRT_ADDR)),
      arena_(*config.arena),
      table_(config.regions),
      spans_((config.arena->reserved() + mem::arena::SPAN - 1) / mem::arena::SPAN) {
  if (config.use_reg_cache) start_cache(news);
}

regions::~regions() {
  if (!made_.empty())
    base::log::warn("ofi", "%zu registrations were still alive when the network was closed",
                    made_.size());
  for (registration* one : made_) {
    if (one->kept != nullptr) cache_->release(*one->kept);
    delete one;
  }
  cache_.reset();
}

// For this use alone.
void regions::register_alone(registration& made, std::string& why_not) {
  made.own.begin = static_cast<std::byte*>(made.address);
  if (made.kind == mem::mem_kind::device) {
    const mem::device_registration got = registrar_.device(made.address, made.size);
    if (!got.by) {
      why_not = got.why_not();
      return;
    }
    made.own.mr = registrar_.adopt(got.key);
  } else {
    bool is_source_only = false;
    long code = 0;
    made.own.mr = registrar_.host(made.address, made.size, is_source_only, code);
    if (!made.own.mr) registrar_.throw_refused(made.size, code);
  }
  made.on = &made.own;
}

std::uint64_t regions::add(void* address, std::size_t size, mem::mem_kind kind,
                           std::string& why_not) {
  auto made = std::make_unique<registration>();
  made->address = address;
  made->size = size;
  made->kind = kind;
  if (size != 0) {
    if (cache_)
      find_kept(*made, why_not);
    else
      register_alone(*made, why_not);
    if (made->on == nullptr) return 0;
  }
  base::undo hold([&]() noexcept {
    if (made->kept != nullptr) cache_->release(*made->kept);
  });
  const std::lock_guard lock(mutex_);
  made_.insert(made.get());
  hold.keep();
  return reinterpret_cast<std::uint64_t>(made.release());
}

std::vector<reader> regions::remove(std::uint64_t key, net::remote_key* name) noexcept {
  if (key == 0) return {};
  std::unique_ptr<registration> made(reinterpret_cast<registration*>(key));
  std::vector<reader> readers;
  {
    const std::lock_guard lock(mutex_);
    if (made_.erase(made.get()) == 0) {
      base::log::warn("ofi", "what is not registered was deregistered");
      (void)made.release();
      return {};
    }
    // The slot may have a new holder already.
    const auto at = published_.find(made->name.slot);
    if (at != published_.end() && at->second == made.get()) published_.erase(at);
    if (name != nullptr) *name = made->name;
    readers = std::move(made->readers);
  }
  if (made->kept != nullptr) cache_->release(*made->kept);
  return readers;
}

void regions::publish(net::remote_key name, std::uint64_t key) {
  if (key == 0) return;  // the region table knows as much
  const std::lock_guard lock(mutex_);
  auto* const made = reinterpret_cast<registration*>(key);
  published_[name.slot] = made;
  made->name = name;
}

// What peers call that place.
net::remote_target regions::target_in(const range_mr& on, const void* address) const noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - on.begin);
  return {is_virtual_ ? reinterpret_cast<std::uint64_t>(address) : offset,
          fi_mr_key(on.mr.get()) + 1};
}

net::remote_target regions::target_of_arena(const void* address, std::size_t size) noexcept {
  const range_mr* const on = of_arena(arena_.offset_of(address), size);
  return on != nullptr ? target_in(*on, address) : net::remote_target{};
}

net::remote_target regions::target_of(net::remote_key name) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto at = published_.find(name.slot);
    if (at != published_.end() && at->second->name.generation == name.generation) {
      const registration& made = *at->second;
      return made.on != nullptr ? target_in(*made.on, made.address) : net::remote_target{};
    }
  }
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region || !arena_.contains(region->address)) return {};
  return target_of_arena(region->address, region->size);
}

bool regions::tell(net::remote_key name, reader who, note& out) noexcept {
  out = {};
  out.what = note::kind::no_row;
  out.slot = name.slot;
  out.generation = name.generation;
  const auto fill = [&](const void* address, std::size_t size, mem::mem_kind kind,
                        const net::remote_target& at) {
    out.what = note::kind::row;
    out.memory = static_cast<std::uint32_t>(kind);
    out.address = reinterpret_cast<std::uint64_t>(address);
    out.count = size;
    out.at = at.address;
    out.key = at.key;
  };
  {
    const std::lock_guard lock(mutex_);
    const auto at = published_.find(name.slot);
    if (at != published_.end() && at->second->name.generation == name.generation) {
      registration& made = *at->second;
      const bool is_known = std::any_of(
          made.readers.begin(), made.readers.end(),
          [&](const reader& r) { return r.rank == who.rank && r.device == who.device; });
      fill(made.address, made.size, made.kind,
           made.on != nullptr ? target_in(*made.on, made.address) : net::remote_target{});
      try {
        if (!is_known) made.readers.push_back(who);
      } catch (const std::bad_alloc&) {
        return false;
      }
      return true;
    }
  }
  // Without a registration of its own: memory of the arena, or what no network may be given.
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region) return true;
  const bool is_ours = arena_.contains(region->address);
  fill(region->address, region->size, region->kind,
       is_ours ? target_of_arena(region->address, region->size) : net::remote_target{});
  if (!is_ours && region->kind != mem::mem_kind::host) out.memory |= note::OFF_NETWORK;
  return true;
}

// Also when unused registrations have to go for it: without packets nothing is received any more.
void regions::register_packets(range_mr& made, std::size_t size) {
  long code = 0;
  const auto attempt = [&] {
    bool is_source_only = false;
    made.mr = registrar_.host(made.begin, size, is_source_only, code);
    return static_cast<int>(-code);
  };
  if (cache_)
    cache_->evicting(attempt);
  else
    attempt();
  if (!made.mr) registrar_.throw_refused(size, code);
}

// The span of the range, or for a range over several spans, all of them together.
const range_mr* regions::register_span(std::uint64_t offset, std::size_t size) noexcept {
  constexpr std::size_t SPAN = mem::arena::SPAN;
  const std::uint64_t first = offset / SPAN;
  const std::uint64_t last = (offset + size - (size != 0)) / SPAN;
  const std::lock_guard lock(mutex_);
  if (first == last) {
    if (const range_mr* const known = spans_[first].load(std::memory_order_relaxed)) return known;
  } else if (const auto known = wide_.lower_bound(offset + size); known != wide_.end()) {
    if (arena_.offset_of(known->second.begin) <= offset) return &known->second;
  }
  const std::uint64_t end = std::min<std::uint64_t>((last + 1) * SPAN, arena_.committed());
  try {
    range_mr made;
    made.begin = arena_.at(first * SPAN);
    register_packets(made, end - first * SPAN);
    if (first != last) return &wide_.emplace(end, std::move(made))->second;
    span_store_.push_back(std::make_unique<range_mr>(std::move(made)));
    // edge ofi.span: the registration before its pointer; partner is of_arena().
    spans_[first].store(span_store_.back().get(), std::memory_order_release);
    return span_store_.back().get();
  } catch (const std::exception& problem) {
    base::log::warn("ofi", "%s", problem.what());
    return nullptr;
  }
}

}  // namespace lci::ofi
