#include "backends/ofi/region.hpp"

namespace lci::ofi {

regions::regions(const opened_domain& on, fid_ep* keys, const net::fabric_config& config,
                 mem::unmap_source& news)
    : region_store(config, news),
      registrar_(on, keys, config),
      needs_local_(registrar_.has_mode(FI_MR_LOCAL)),
      is_virtual_(registrar_.has_mode(FI_MR_VIRT_ADDR)) {}

range_mr regions::make(void* address, std::size_t size, mem::mem_kind kind,
                       net::connected::outcome& how) {
  range_mr out;
  out.begin = static_cast<std::byte*>(address);
  if (kind == mem::mem_kind::host) {
    long code = 0;
    out.mr = registrar_.host(address, size, how.is_source_only, code);
    how.error = static_cast<int>(-code);
    return out;
  }
  const mem::device_registration got = registrar_.device(address, size);
  if (got.by) {
    out.mr = registrar_.adopt(got.key);
  } else {
    how.error = got.error();
    how.why_not = got.why_not();
  }
  return out;
}

// Also when unused registrations have to go for it: without packets nothing is received any more.
span_handle regions::make_span(std::byte* at, std::size_t size) {
  auto out = std::make_unique<range_mr>();
  const int error = evicting([&] {
    net::connected::outcome how;
    *out = make(at, size, mem::mem_kind::host, how);
    return how.error;
  });
  if (!*out) throw_refused(size, error);
  return out;
}

void regions::publish(net::remote_key name, std::uint64_t key) {
  if (key == 0) return;  // the region table knows as much
  const std::lock_guard lock(mutex_);
  enter_locked(name, *reinterpret_cast<registration*>(key));
}

// What peers call that place.
net::remote_target regions::target_in(const range_mr& on, const void* address) const noexcept {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - on.begin);
  return {is_virtual_ ? reinterpret_cast<std::uint64_t>(address) : offset,
          fi_mr_key(on.mr.get()) + 1};
}

net::remote_target regions::target_in_arena(const void* address, std::size_t size) noexcept {
  const range_mr* const on = of_arena(arena_.offset_of(address), size);
  return on != nullptr ? target_in(*on, address) : net::remote_target{};
}

bool regions::tell(net::remote_key name, int rank, note& out) noexcept {
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
    if (registration* const made = find_locked(name)) {
      fill(made->address, made->size, made->kind, target_in(*made));
      return add_reader_locked(*made, rank);
    }
  }
  // Without a registration of its own: memory of the arena, or what no network may be given.
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region) return true;
  const bool is_ours = arena_.contains(region->address);
  fill(region->address, region->size, region->kind,
       is_ours ? target_in_arena(region->address, region->size) : net::remote_target{});
  if (!is_ours && region->kind != mem::mem_kind::host) out.memory |= note::OFF_NETWORK;
  return true;
}

}  // namespace lci::ofi
