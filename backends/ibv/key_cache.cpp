#include "backends/ibv/key_cache.hpp"

#include <cstring>
#include <mutex>
#include <utility>

#include "backends/ibv/work.hpp"

namespace lci::ibv {
namespace {

constexpr std::size_t CELL = 64;

}  // namespace

key_cache::key_cache(regions& memory, mem::arena& arena, connector& calls, int ranks)
    : net::connected::key_cache<key_cache, row, row_request, device_queues>(ranks),
      memory_(memory),
      arena_(arena),
      calls_(calls),
      landings_(arena, CELL * MOST, 4096),
      blocks_(static_cast<std::size_t>(ranks)) {
  for (std::size_t i = 0; i < MOST; ++i) free_landings_.push_back(landings_.get() + CELL * i);
}

net::remote_view key_cache::view_of(const row& what) noexcept {
  net::remote_view out;
  out.what = net::remote_view::answer::ok;
  out.size = what.size;
  out.kind = static_cast<mem::mem_kind>(what.kind & 0xff);
  out.off_network = (what.kind & row::OFF_NETWORK) != 0;
  out.address = what.address;
  if (what.keys[0] != 0) out.at = target_in(what);
  return out;
}

// Not before it is sent: what waits for a poll of one device must not keep those of others waiting.
bool key_cache::take_landing(row_request& what) noexcept {
  if (what.landing != nullptr) return true;
  if (free_landings_.empty()) return false;
  what.landing = free_landings_.back();
  free_landings_.pop_back();
  return true;
}

void key_cache::drop(row_request& what) noexcept {
  if (what.landing != nullptr) free_landings_.push_back(std::exchange(what.landing, nullptr));
}

// Reads the row, or what says where it is.
bool key_cache::ask(device_queues& by, row_request& what) noexcept {
  connection* const on = by.find(what.rank);
  if (on == nullptr || on->state() != connection::stage::ready) return false;
  std::uint64_t from = 0;
  std::uint32_t key = 0;
  if (!calls_.directory_of(what.rank, from, key)) return false;
  const auto& blocks = blocks_[static_cast<std::size_t>(what.rank)];
  const std::uint32_t block = what.name.slot / ROWS;
  std::uint32_t bytes = sizeof(block_reference);
  const auto at = blocks.find(block);
  what.reads_row = at != blocks.end();
  if (what.reads_row) {
    from = at->second.address + sizeof(row) * (what.name.slot % ROWS);
    key = at->second.key;
    bytes = sizeof(row);
  } else {
    from += sizeof(block_reference) * block;
  }
  if (!take_landing(what)) return false;
  const ibv_mr* const mr = memory_.of_arena(arena_.offset_of(what.landing), CELL);
  if (mr != nullptr) {
    work one(IBV_WR_RDMA_READ);
    one.add(what.landing, bytes, mr->lkey);
    one.aim(from, key);
    if (on->post(one.wr, {&what, nullptr, 0, purpose::look_up}) == errorcode_t::done) return true;
  }
  drop(what);
  return false;
}

void key_cache::on_read(device_queues& by, void* what, bool ok) noexcept {
  const std::lock_guard lock(lock_);
  auto& one = *static_cast<row_request*>(what);
  // Then it counts for nothing, and is asked for again by those who still want it.
  ok = ok && !one.is_outdated;
  const int rank = one.rank;
  const net::remote_key name = one.name;
  bool is_settled = !ok;
  if (ok && one.reads_row) {
    row found;
    std::memcpy(&found, one.landing, sizeof(found));
    // edge ibv.row, read by a card: partner is store() in region.cpp of the rank that was read.
    const bool is_sound = found.check == check_of(found);
    const bool is_empty = found.check == 0 && found.generation == 0;
    is_settled = is_sound || is_empty || is_torn_for_long(one);
    const bool exists = is_sound && found.generation == name.generation;
    if (is_settled) keep_locked(rank, name, exists ? std::optional(found) : std::nullopt);
    if (exists) by.tell(rank, {note::kind::known, name.slot, name.generation, 0});
  } else if (ok) {
    block_reference found;
    std::memcpy(&found, one.landing, sizeof(found));
    is_settled = found.key == 0;
    if (is_settled) keep_locked(rank, name, std::nullopt);
    try {
      // edge ibv.block, read by a card: partner is the store of the check by the rank that was
      // read.
      if (!is_settled && found.check == check_of(found))
        blocks_[static_cast<std::size_t>(rank)][name.slot / ROWS] = found;
    } catch (...) {  // no memory: the same again
    }
  }
  if (is_settled) {
    erase_locked([&](const row_request& other) { return &other == &one; });
    return;
  }
  reopen_locked(one);
  ask_locked(by, one);
}

bool key_cache::is_torn_for_long(row_request& what) noexcept {
  const std::uint64_t now = base::cpu_ticks();
  if (what.torn_ticks == 0) what.torn_ticks = now;
  return now - what.torn_ticks > torn_ms_ * base::ticks_per_ms();
}

}  // namespace lci::ibv
