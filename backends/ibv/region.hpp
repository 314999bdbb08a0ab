// What this fabric has registered with its cards, and the table in which peers read the keys. Owned
// by fabric. Threads: shared, as region_store says; of the arena it is the first card's keys that
// are found without a lock. Always true: a row is published after its registration was made and
// withdrawn before it ends, so what lies in the arena is registered once more for a name. Memory
// that holds messages, rows or flags is registered strictly ordered, that of programs as loosely as
// the card allows.
#pragma once

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "backends/ibv/multi_rail.hpp"
#include "backends/ibv/registrar.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/net/connected/region_store.hpp"

namespace lci::ibv {

// One memory, registered with each card.
struct mr_set : std::array<mr_handle, MAX_RAILS> {
  explicit operator bool() const noexcept { return front() != nullptr; }
};

struct registration : net::connected::registration<mr_set> {
  // By card; null: of 0 bytes, or not used there. They may cover more than was asked for.
  std::array<const ibv_mr*, MAX_RAILS> on{};
  bool is_far_from_first = false;  // memory of a GPU that other cards are nearer to

  void take(const mr_set& from) noexcept {
    for (std::size_t i = 0; i < MAX_RAILS; ++i) on[i] = from[i].get();
  }
  bool is_registered() const noexcept { return on[0] != nullptr; }
};

inline net::remote_target target_in(const row& what) noexcept {
  return {what.address, what.keys[0] | std::uint64_t{what.keys[1]} << 32,
          what.keys[2] | std::uint64_t{what.keys[3]} << 32};
}
// The key of a card in such a target; 0: that one does not reach it.
constexpr std::uint32_t key_in(const net::remote_target& at, std::size_t rail) noexcept {
  const std::uint64_t two = rail < 2 ? at.key : at.more;
  return static_cast<std::uint32_t>(rail % 2 == 0 ? two : two >> 32);
}

class regions final
    : public net::connected::region_store<regions, registration, mr_set, mr_handle> {
 public:
  static constexpr char NAME[] = "ibv";

  // device: what messages call it. Throws backend_error.
  regions(ibv_pd* pd, std::string device, const net::fabric_config& config,
          mem::unmap_source& news = mem::system_unmap_source());
  ~regions() { close(); }

  // What registers with the other cards, if there are any. Before anything is registered.
  void set_rails(std::unique_ptr<rail_regions> rails) noexcept { rails_ = std::move(rails); }
  rail_regions* rails() const noexcept { return rails_.get(); }
  void publish(net::remote_key name, std::uint64_t key);
  // Peers find that name, and no card's key in it: a peer that keeps it need not be told of its
  // end, since no card uses what it says. Its row stays until the slot has a new holder.
  bool is_without_key(net::remote_key name) noexcept;
  using region_store::of_arena;

  // The card's key for a local buffer: of its registration, or of the arena. False: it has none.
  bool find_key(const void* buffer, std::size_t size, std::uint64_t key,
                std::uint32_t& out) noexcept {
    if (key != 0) {
      const auto& made = *reinterpret_cast<const registration*>(key);
      out = made.on[0] != nullptr ? made.on[0]->lkey : 0;
      return true;
    }
    if (!arena_.contains(buffer)) return size == 0;
    const ibv_mr* const mr = of_arena(arena_.offset_of(buffer), size);
    if (mr == nullptr) return false;
    out = mr->lkey;
    return true;
  }
  // The same by card, for what may go over several; null: not there.
  using by_card = std::array<const ibv_mr*, MAX_RAILS>;
  by_card find_on_all(const void* buffer, std::size_t size, std::uint64_t key) noexcept {
    if (key != 0) return reinterpret_cast<const registration*>(key)->on;
    return arena_.contains(buffer) ? arena_on_all(arena_.offset_of(buffer), size) : by_card{};
  }
  // Calls attempt(), which leaves in errno why it answers nothing, also when unused registrations
  // have to go for it.
  template <class Attempt>
  mr_handle evicting_for(Attempt&& attempt) {
    mr_handle out;
    const int error = evicting([&] {
      out = attempt();
      return out ? 0 : errno;
    });
    if (!out) errno = error;
    return out;
  }
  // Where peers start to read.
  std::uint64_t directory() const noexcept { return reinterpret_cast<std::uint64_t>(directory_); }
  std::uint32_t directory_key() const noexcept { return directory_mr_->rkey; }

 private:
  friend region_store;
  mr_set make(void* address, std::size_t size, mem::mem_kind kind, net::connected::outcome& how);
  [[noreturn]] void throw_refused(std::size_t size, int error) const {
    first_.throw_refused(size, error);
  }
  void prepare(registration& made);
  mr_handle make_span(std::byte* at, std::size_t size);
  static const std::byte* begin_of(const ibv_mr& mr) noexcept {
    return static_cast<const std::byte*>(mr.addr);
  }
  static net::remote_target target_in(const registration& made) noexcept;
  net::remote_target target_in_arena(const void* address, std::size_t size) noexcept;
  void unpublish_locked(registration& made) noexcept;
  by_card arena_on_all(std::uint64_t offset, std::size_t size) noexcept;
  void fill_in_arena(row& out, const void* address, std::size_t size) noexcept;
  static row row_of(net::remote_key name, const registration& made) noexcept;
  row row_of(net::remote_key name) noexcept;
  row* row_locked(std::uint32_t slot);

  registrar first_;
  std::unique_ptr<rail_regions> rails_;  // null: there is one card
  const mem::arena_block directory_block_;
  block_reference* const directory_;
  mr_handle directory_mr_;
  // ---- under mutex_ ----
  // A part of the table: its memory, and what lets peers read it.
  struct block {
    mem::arena_block memory;
    mr_handle mr;
    row* rows() const noexcept { return reinterpret_cast<row*>(memory.get()); }
  };
  std::vector<block> blocks_;
};

}  // namespace lci::ibv
