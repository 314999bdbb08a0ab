#include "backends/ibv/region.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "backends/ibv/errors.hpp"
#include "lci/base/log.hpp"
#include "lci/errors.hpp"
#include "lci/mem/region_table.hpp"

namespace lci::ibv {
namespace {

// A row is read by cards at any time: each word at once, the check last.
void store(row& to, const row& what) noexcept {
  const auto put = [](auto& field, auto value) {
    // edge ibv.row, other side in a card: ordered by the fence below and by the check, which
    // readers compute again.
    std::atomic_ref(field).store(value, std::memory_order_relaxed);
  };
  put(to.check, 0u);
  std::atomic_thread_fence(std::memory_order_release);
  put(to.generation, what.generation);
  for (std::size_t i = 0; i < MAX_RAILS; ++i) put(to.keys[i], what.keys[i]);
  put(to.address, what.address);
  put(to.size, what.size);
  put(to.kind, what.kind);
  // edge ibv.row, other side in a card: the words before the check.
  std::atomic_thread_fence(std::memory_order_release);
  put(to.check, what.generation == 0 ? 0u : check_of(what));
}

}  // namespace

regions::regions(ibv_pd* pd, std::string device, const net::fabric_config& config,
                 mem::unmap_source& news)
    : region_store(config, news),
      config_(config),
      first_(pd, std::move(device), config),
      directory_block_(arena_, sizeof(block_reference) * BLOCKS, 4096),
      directory_(new (directory_block_.get()) block_reference[BLOCKS]),
      blocks_(BLOCKS) {
  directory_mr_ =
      first_.strictly(directory_, sizeof(block_reference) * BLOCKS, IBV_ACCESS_REMOTE_READ);
  if (!directory_mr_)
    throw_error("ibv_reg_mr", first_.name() + ", " + bytes_text(sizeof(block_reference) * BLOCKS),
                errno);
}

void regions::add_rail(ibv_pd* pd, std::string device, std::size_t least) {
  rails_.push_back(std::make_unique<registrar>(pd, std::move(device), config_));
  rail_least_ = least;
}

mr_handle regions::register_on(registrar& rail, void* address, std::size_t size,
                               mem::mem_kind kind) {
  return evicting_for([&] {
    bool is_source_only = false;
    if (kind == mem::mem_kind::host) return rail.host(address, size, is_source_only);
    const mem::device_registration got = rail.device(address, size);
    errno = got.error();
    return mr_handle(reinterpret_cast<ibv_mr*>(got.key));
  });
}

// The other cards. One that refuses, or is far from the GPU, is not used for that memory.
void regions::register_on_rails(mr_set& set, void* address, std::size_t size, mem::mem_kind kind) {
  if (!is_for_rails(size)) return;
  const near_cards::set near = kind == mem::mem_kind::device ? near_to_(address) : near_cards::ALL;
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    if ((near >> (i + 1) & 1u) == 0) continue;
    set[i + 1] = register_on(*rails_[i], address, size, kind);
    if (!set[i + 1]) say_refused(*rails_[i], size);
  }
}

void regions::say_refused(const registrar& by, std::size_t size) noexcept {
  if (!was_rail_refused_.exchange(true, std::memory_order_relaxed))
    base::log::warn("ibv", "%s does not register %zu bytes; they go over other cards alone",
                    by.name().c_str(), size);
}

mr_set regions::make(void* address, std::size_t size, mem::mem_kind kind,
                     net::connected::outcome& how) {
  mr_set out;
  if (kind == mem::mem_kind::host) {
    out[0] = first_.host(address, size, how.is_source_only);
    if (!out) how.error = errno;
  } else {
    const mem::device_registration got = first_.device(address, size);
    if (got.by) {
      out[0].reset(reinterpret_cast<ibv_mr*>(got.key));
    } else {
      how.error = got.error();
      how.why_not = got.why_not();
    }
  }
  if (out) register_on_rails(out, address, size, kind);
  return out;
}

// The registration of all memory serves, if there is one.
void regions::prepare(registration& made) {
  const bool is_long = is_for_rails(made.size);
  if (made.kind == mem::mem_kind::device) {
    if (is_long) made.is_far_from_first = (near_to_(made.address) & 1u) == 0;
    return;
  }
  made.on[0] = first_.of_everything(made.address, made.size);
  if (made.on[0] == nullptr || !is_long) return;
  for (std::size_t i = 0; i < rails_.size(); ++i)
    made.on[i + 1] = rails_[i]->of_everything(made.address, made.size);
}

// Under mutex_. The row of a slot, in a block of its own if need be.
row* regions::row_locked(std::uint32_t slot) {
  const std::uint32_t at = slot / ROWS;
  if (at >= BLOCKS) return nullptr;
  if (blocks_[at].mr == nullptr) {
    block made;
    made.memory = mem::arena_block(arena_, sizeof(row) * ROWS, 4096);
    new (made.memory.get()) row[ROWS];
    made.mr = evicting_for([&] {
      return first_.strictly(made.memory.get(), sizeof(row) * ROWS, IBV_ACCESS_REMOTE_READ);
    });
    if (!made.mr) throw_error("ibv_reg_mr", first_.name() + ", a table of registrations", errno);
    block_reference reference{reinterpret_cast<std::uint64_t>(made.rows()), made.mr->rkey, 0};
    reference.check = check_of(reference);
    blocks_[at] = std::move(made);
    std::atomic_ref(directory_[at].address).store(reference.address, std::memory_order_relaxed);
    std::atomic_ref(directory_[at].key).store(reference.key, std::memory_order_relaxed);
    // edge ibv.block, other side in a card: it reads the words; the check says that the rest is
    // there.
    std::atomic_ref(directory_[at].check).store(reference.check, std::memory_order_release);
  }
  return blocks_[at].rows() + slot % ROWS;
}

row regions::row_of(net::remote_key name, const registration& made) noexcept {
  row out;
  out.generation = name.generation;
  out.kind = static_cast<std::uint32_t>(made.kind);
  out.address = reinterpret_cast<std::uint64_t>(made.address);
  out.size = made.size;
  for (std::size_t i = 0; i < MAX_RAILS; ++i)
    out.keys[i] = made.on[i] != nullptr ? made.on[i]->rkey : 0;
  return out;
}

// Of what has no registration of its own: memory of the arena, or what no card may be given.
row regions::row_of(net::remote_key name) noexcept {
  row out;
  const auto region = table_->look_up({name.slot, name.generation});
  if (!region) return out;
  out.generation = name.generation;
  out.kind = static_cast<std::uint32_t>(region->kind);
  out.address = reinterpret_cast<std::uint64_t>(region->address);
  out.size = region->size;
  if (arena_.contains(region->address)) {
    fill_in_arena(out, region->address, region->size);
  } else if (region->kind != mem::mem_kind::host) {
    out.kind |= row::OFF_NETWORK;
  }
  return out;
}

void regions::publish(net::remote_key name, std::uint64_t key) {
  auto* const made = reinterpret_cast<registration*>(key);
  const row what = made != nullptr ? row_of(name, *made) : row_of(name);
  if (what.generation == 0) return;
  const std::lock_guard lock(mutex_);
  try {
    row* const where = row_locked(name.slot);
    if (where == nullptr) return;
    if (made != nullptr) enter_locked(name, *made);
    store(*where, what);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& problem) {
    base::log::warn("ibv", "peers cannot look up a registration: %s", problem.what());
  }
}

void regions::unpublish_locked(registration& made) noexcept {
  row& where = blocks_[made.name.slot / ROWS].rows()[made.name.slot % ROWS];
  // The slot may have a new holder already.
  if (where.generation == made.name.generation) store(where, row{});
}

net::remote_target regions::target_in(const registration& made) noexcept {
  return ibv::target_in(row_of(made.name, made));
}

net::remote_target regions::target_in_arena(const void* address, std::size_t size) noexcept {
  row out;
  fill_in_arena(out, address, size);
  return out.keys[0] == 0 ? net::remote_target{} : ibv::target_in(out);
}

// Where memory of the arena is, for peers.
void regions::fill_in_arena(row& out, const void* address, std::size_t size) noexcept {
  out.address = reinterpret_cast<std::uint64_t>(address);
  const by_card on = arena_on_all(arena_.offset_of(address), size);
  for (std::size_t i = 0; i < MAX_RAILS; ++i) out.keys[i] = on[i] != nullptr ? on[i]->rkey : 0;
}

// What is long enough to be cut is registered with the other cards when it is asked for first, as
// the slots that memory of GPUs passes through are; packets alone never are. One that refuses is
// not used for it. At such lengths a lock costs nothing.
regions::by_card regions::arena_on_all(std::uint64_t offset, std::size_t size) noexcept {
  constexpr std::size_t SPAN = mem::arena::SPAN;
  by_card out{of_arena(offset, size)};
  if (out[0] == nullptr || !is_for_rails(size)) return out;
  const std::lock_guard lock(mutex_);
  auto found = on_rails_.lower_bound(offset + size);
  while (found != on_rails_.end() && found->second.begin > offset) ++found;
  try {
    if (found == on_rails_.end()) {
      rail_range made{offset / SPAN * SPAN, {}};
      const std::uint64_t end =
          std::min<std::uint64_t>((offset + size + SPAN - 1) / SPAN * SPAN, arena_.committed());
      for (std::size_t i = 0; i < rails_.size(); ++i) {
        made.on[i + 1] = evicting_for([&] {
          return rails_[i]->strictly(arena_.at(made.begin), end - made.begin, READ_WRITE);
        });
        if (!made.on[i + 1]) say_refused(*rails_[i], end - made.begin);
      }
      found = on_rails_.emplace(end, std::move(made));
    }
  } catch (const std::exception&) {
    return out;
  }
  for (std::size_t i = 1; i < MAX_RAILS; ++i) out[i] = found->second.on[i].get();
  return out;
}

mr_handle regions::make_span(std::byte* at, std::size_t size) {
  mr_handle out = evicting_for([&] { return first_.strictly(at, size, READ_WRITE); });
  if (!out)
    throw_error("ibv_reg_mr", first_.name() + ", " + bytes_text(size) + " of packets", errno);
  return out;
}

}  // namespace lci::ibv
