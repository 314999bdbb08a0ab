// Rows are read like a sequence lock whose number is the generation: since a slot has the same
// generation again only 2^32 - 1 registrations later, a reader that sees its own name's generation
// before and after has read one registration. Threads: see the header.
#include "lci/mem/region_table.hpp"

#include <mutex>
#include <new>
#include <string>

#include "lci/errors.hpp"

namespace lci::mem {

namespace {

using row = region_table::row;

// edge region.row: each store is ordered after the one before it, so that a reader that sees part
// of a new registration cannot see the old generation any more; partner is read().
void publish(row& to, std::uint32_t generation, const region& what) noexcept {
  const std::uint64_t flags = (what.kind == mem_kind::device ? region_table::DEVICE : 0) |
                              (what.off_network ? region_table::OFF_NETWORK : 0);
  to.address.store(reinterpret_cast<std::uintptr_t>(what.address), std::memory_order_release);
  to.size.store(what.size, std::memory_order_release);
  to.check.store(what.share.check, std::memory_order_release);
  to.share.store(what.share.record | flags, std::memory_order_release);
  to.generation.store(generation, std::memory_order_release);
}

// edge region.row: anything read of the row before becomes void; partner is read().
void withdraw(row& from) noexcept { from.generation.store(0, std::memory_order_release); }

// edge region.row: each load is ordered before the next; partners are publish() and withdraw().
std::optional<region> read(const row& from, std::uint32_t generation) noexcept {
  if (generation == 0 || from.generation.load(std::memory_order_acquire) != generation) return {};
  const std::uint64_t address = from.address.load(std::memory_order_acquire);
  const std::uint64_t size = from.size.load(std::memory_order_acquire);
  const std::uint32_t check = from.check.load(std::memory_order_acquire);
  const std::uint64_t share = from.share.load(std::memory_order_acquire);
  if (from.generation.load(std::memory_order_acquire) != generation) return {};
  const mem_kind kind = (share & region_table::DEVICE) != 0 ? mem_kind::device : mem_kind::host;
  return region{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                size,
                kind,
                {share & ~(region_table::DEVICE | region_table::OFF_NETWORK), check},
                (share & region_table::OFF_NETWORK) != 0};
}

}  // namespace

// Fresh arena memory is zero, which is the empty table; writing it would make all pages resident.
region_table::region_table(arena& arena)
    : arena_(arena), rows_(static_cast<row*>(arena.allocate(sizeof(row) * MAX_REGIONS))) {}

// The rows stay allocated: a table lives as long as its arena, and a block that had another user in
// between would not be zero for the next table.
region_table::~region_table() {
  for (std::uint32_t slot = 1; slot < fresh_; ++slot) withdraw(rows_[slot]);
  for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
}

region_table::entry* region_table::entry_of(std::uint32_t slot) const noexcept {
  if (slot == 0 || slot >= MAX_REGIONS) return nullptr;
  // edge region.block: the entries are constructed; partner is make_entry().
  entry* const block = blocks_[slot / BLOCK].load(std::memory_order_acquire);
  return block == nullptr ? nullptr : &block[slot % BLOCK];
}

// Under lock_.
region_table::entry& region_table::make_entry(std::uint32_t slot) {
  std::atomic<entry*>& block = blocks_[slot / BLOCK];
  if (block.load(std::memory_order_relaxed) == nullptr) {
    block.store(new entry[BLOCK], std::memory_order_release);  // edge region.block
  }
  return *entry_of(slot);
}

region_name region_table::insert(const region& given) {
  if (given.address == nullptr && given.size != 0) {
    throw argument_error("register_memory: address is null, size is " + std::to_string(given.size) +
                         "; a region of more than 0 bytes needs an address");
  }
  const std::lock_guard<base::spinlock> lock(lock_);
  std::uint32_t slot = free_;
  if (slot == 0) {
    if (fresh_ == MAX_REGIONS) {
      throw argument_error("register_memory: all " + std::to_string(MAX_REGIONS - 1) +
                           " registrations of this process are in use");
    }
    make_entry(fresh_);
    slot = fresh_++;
  }
  entry& mine = *entry_of(slot);
  if (slot == free_) free_ = mine.next_free;
  // 0 means "none" and is left out when the numbers wrap.
  if (++mine.last_generation == 0) mine.last_generation = 1;
  publish(mine.what, mine.last_generation, given);
  publish(rows_[slot], mine.last_generation, given);
  ++live_;
  return {slot, mine.last_generation};
}

bool region_table::erase(region_name name) noexcept {
  const std::lock_guard<base::spinlock> lock(lock_);
  entry* const mine = entry_of(name.slot);
  if (mine == nullptr || name.generation == 0 ||
      mine->what.generation.load(std::memory_order_relaxed) != name.generation) {
    return false;
  }
  withdraw(mine->what);
  withdraw(rows_[name.slot]);
  mine->next_free = free_;
  free_ = name.slot;
  --live_;
  return true;
}

std::optional<region> region_table::look_up(region_name name) const noexcept {
  const entry* const mine = entry_of(name.slot);
  if (mine == nullptr) return {};
  return read(mine->what, name.generation);
}

void* region_table::find(region_name name, std::uint64_t offset, std::size_t size) const noexcept {
  const std::optional<region> found = look_up(name);
  if (!found || size > found->size || offset > found->size - size) return nullptr;
  return static_cast<std::byte*>(found->address) + offset;
}

std::size_t region_table::live() const noexcept {
  const std::lock_guard<base::spinlock> lock(lock_);
  return live_;
}

std::optional<region> region_table::read_remote(const row* rows, region_name name) noexcept {
  if (name.slot == 0 || name.slot >= MAX_REGIONS) return {};
  return read(rows[name.slot], name.generation);
}

}  // namespace lci::mem
