#include "backends/ibv/lookup.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/ibv/connect.hpp"
#include "backends/ibv/port.hpp"
#include "backends/ibv/work.hpp"

namespace lci::ibv {
namespace {

constexpr std::size_t CELL = 64;

}  // namespace

lookups::lookups(regions& memory, mem::arena& arena, connector& calls, int ranks)
    : memory_(memory),
      arena_(arena),
      calls_(calls),
      landings_(arena, CELL * MOST, 4096),
      peers_(static_cast<std::size_t>(ranks)) {
  for (std::size_t i = 0; i < MOST; ++i) free_landings_.push_back(landings_.get() + CELL * i);
  requests_.reserve(MOST);
}

net::remote_view lookups::find(int rank, net::remote_key name) noexcept {
  using said = net::remote_view::answer;
  net::remote_view out;
  if (name.generation == 0 || name.slot >= ROWS * BLOCKS) {
    out.what = said::unknown_key;
    return out;
  }
  const std::lock_guard lock(lock_);
  peer& who = peers_[static_cast<std::size_t>(rank)];
  if (const auto at = who.rows.find(name.slot); at != who.rows.end()) {
    const known& row = at->second;
    if (row.generation == name.generation) {
      if (row.exists) {
        out.what = said::ok;
        out.size = row.what.size;
        out.kind = static_cast<mem::mem_kind>(row.what.kind & 0xff);
        out.off_network = (row.what.kind & ibv::row::OFF_NETWORK) != 0;
        out.address = row.what.address;
        if (row.what.keys[0] != 0) out.at = target_in(row.what);
      } else {
        out.what = said::unknown_key;
        who.rows.erase(at);
      }
      return out;
    }
  }
  try {
    ask_locked(rank, name);
  } catch (...) {  // no memory now: asked again
  }
  return out;
}

void lookups::ask_locked(int rank, net::remote_key name) {
  for (const auto& one : requests_) {
    if (one->rank == rank && one->name.slot == name.slot && one->name.generation == name.generation)
      return;
  }
  if (free_landings_.empty()) return;
  auto made = std::make_unique<request>();
  made->rank = rank;
  made->name = name;
  made->landing = free_landings_.back();
  requests_.push_back(std::move(made));
  free_landings_.pop_back();
  open_.fetch_add(1, std::memory_order_relaxed);
}

void lookups::serve(port& by) noexcept {
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock) return;
  for (std::size_t i = 0; i < requests_.size();) {
    request& one = *requests_[i];
    const link* const on = by.find(one.rank);
    if (one.at == step::asked && on != nullptr && on->state() >= link::stage::left) {
      // Nobody will answer, and that the peer is gone is said elsewhere; the place is for look-ups
      // at others.
      open_.fetch_sub(1, std::memory_order_relaxed);
      drop_locked(one);
      continue;
    }
    if (one.at == step::asked && read(by, one)) open_.fetch_sub(1, std::memory_order_relaxed);
    ++i;
  }
}

// Under lock_. Reads the row, or what says where it is. False: not now, or not here: who asked has
// wished for a connection of some port, and another one would be for nothing.
bool lookups::read(port& by, request& what) noexcept {
  link* const on = by.find(what.rank);
  if (on == nullptr || on->state() != link::stage::ready) return false;
  std::uint64_t from = 0;
  std::uint32_t key = 0;
  if (!calls_.directory_of(what.rank, from, key)) return false;
  const peer& who = peers_[static_cast<std::size_t>(what.rank)];
  const std::uint32_t block = what.name.slot / ROWS;
  std::uint32_t bytes = sizeof(block_reference);
  step next = step::reading_block;
  if (const auto at = who.blocks.find(block); at != who.blocks.end()) {
    from = at->second.address + sizeof(row) * (what.name.slot % ROWS);
    key = at->second.key;
    bytes = sizeof(row);
    next = step::reading_row;
  } else {
    from += sizeof(block_reference) * block;
  }
  const ibv_mr* const mr = memory_.of_arena(arena_.offset_of(what.landing), CELL);
  if (mr == nullptr) return false;
  work one(IBV_WR_RDMA_READ);
  one.add(what.landing, bytes, mr->lkey);
  one.aim(from, key);
  what.at = next;
  if (on->post(one.wr, {&what, nullptr, 0, purpose::look_up}) == errorcode_t::done) return true;
  what.at = step::asked;
  return false;
}

void lookups::on_read(port& by, void* what, bool ok) noexcept {
  const std::lock_guard lock(lock_);
  auto& one = *static_cast<request*>(what);
  if (!ok) return drop_locked(one);
  try {
    if (one.at == step::reading_block) {
      block_reference found;
      std::memcpy(&found, one.landing, sizeof(found));
      if (found.key == 0) {
        settle_locked(one, nullptr);
        return;
      }
      // edge ibv.block, read by a card: partner is the store of the check by the rank that was
      // read.
      if (found.check == check_of(found))
        peers_[static_cast<std::size_t>(one.rank)].blocks[one.name.slot / ROWS] = found;
    } else {
      row found;
      std::memcpy(&found, one.landing, sizeof(found));
      // edge ibv.row, read by a card: partner is store() in region.cpp of the rank that was read.
      const bool is_sound = found.check == check_of(found);
      const bool is_empty = found.check == 0 && found.generation == 0;
      if (is_sound || is_empty || is_torn_for_long(one)) {
        const int rank = one.rank;
        const net::remote_key name = one.name;
        if (settle_locked(one, is_sound ? &found : nullptr))
          by.tell(rank, {note::kind::known, name.slot, name.generation, 0});
        return;
      }
    }
  } catch (...) {  // no memory: the same again
  }
  one.at = step::asked;
  if (!read(by, one)) open_.fetch_add(1, std::memory_order_relaxed);
}

bool lookups::is_torn_for_long(request& what) noexcept {
  const std::uint64_t now = base::cpu_ticks();
  if (what.torn_ticks == 0) what.torn_ticks = now;
  return now - what.torn_ticks > torn_ms_ * base::ticks_per_ms();
}

void lookups::drop(int rank, net::remote_key name) noexcept {
  const std::lock_guard lock(lock_);
  auto& rows = peers_[static_cast<std::size_t>(rank)].rows;
  const auto at = rows.find(name.slot);
  if (at != rows.end() && at->second.generation == name.generation) rows.erase(at);
}

bool lookups::settle_locked(request& what, const row* found) {
  known out;
  out.generation = what.name.generation;
  out.exists = found != nullptr && found->generation == what.name.generation;
  if (out.exists) out.what = *found;
  try {
    peers_[static_cast<std::size_t>(what.rank)].rows[what.name.slot] = out;
  } catch (...) {  // asked again
  }
  drop_locked(what);
  return out.exists;
}

// Without an answer: whoever wants one asks again.
void lookups::drop_locked(request& what) noexcept {
  free_landings_.push_back(what.landing);
  std::erase_if(requests_, [&](const auto& one) { return one.get() == &what; });
}

void lookups::forget(int rank) noexcept {
  const std::lock_guard lock(lock_);
  std::erase_if(requests_, [&](const auto& one) {
    if (one->rank != rank || one->at != step::asked) return false;
    free_landings_.push_back(one->landing);
    open_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

}  // namespace lci::ibv
