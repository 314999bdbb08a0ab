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
  if (out && rails_ != nullptr) rails_->add(out, address, size, kind);
  return out;
}

// The registration of all memory serves, if there is one.
void regions::prepare(registration& made) {
  if (made.kind == mem::mem_kind::host) made.on[0] = first_.of_everything(made.address, made.size);
  if (rails_ != nullptr) rails_->prepare(made);
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

bool regions::is_without_key(net::remote_key name) noexcept {
  const std::size_t at = name.slot / ROWS;
  const std::lock_guard lock(mutex_);
  if (name.generation == 0 || at >= BLOCKS || blocks_[at].mr == nullptr) return false;
  const row& found = blocks_[at].rows()[name.slot % ROWS];
  const auto is_none = [](std::uint32_t key) { return key == 0; };
  return found.generation == name.generation &&
         std::all_of(found.keys, found.keys + MAX_RAILS, is_none);
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

regions::by_card regions::arena_on_all(std::uint64_t offset, std::size_t size) noexcept {
  by_card out{of_arena(offset, size)};
  if (out[0] != nullptr && rails_ != nullptr) rails_->add_of_arena(out, offset, size);
  return out;
}

mr_handle regions::make_span(std::byte* at, std::size_t size) {
  mr_handle out = evicting_for([&] { return first_.strictly(at, size, READ_WRITE); });
  if (!out)
    throw_error("ibv_reg_mr", first_.name() + ", " + bytes_text(size) + " of packets", errno);
  return out;
}

}  // namespace lci::ibv
