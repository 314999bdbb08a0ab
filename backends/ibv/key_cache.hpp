// What peers have registered, as their tables say: read over the network, by the card alone. Owned
// by fabric. Threads: as connected::key_cache says; on_read() polling threads.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "backends/ibv/connector.hpp"
#include "backends/ibv/device_queues.hpp"
#include "backends/ibv/region.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/net/connected/key_cache.hpp"

namespace lci::ibv {

struct row_request : net::connected::key_request {
  bool reads_row = false;        // else what says where the row is
  std::byte* landing = nullptr;  // in the arena, while it is sent
  std::uint64_t torn_ticks = 0;  // when its row was first seen half written; 0: never
};

class key_cache final
    : public net::connected::key_cache<key_cache, row, row_request, device_queues> {
 public:
  // How long a row may be half written: its writer may have lost its processor.
  static constexpr std::uint64_t TORN_MS = 10'000;
  // The card writes where it was asked to.
  static constexpr bool MAY_DROP_SENT = false;

  key_cache(regions& memory, mem::arena& arena, connector& calls, int ranks);

  // A read has come back, or has not.
  void on_read(device_queues& by, void* what, bool ok) noexcept;
  void set_torn_ms(std::uint64_t ms) noexcept { torn_ms_ = ms; }  // tests

 private:
  friend net::connected::key_cache<key_cache, row, row_request, device_queues>;
  static bool is_name(net::remote_key name) noexcept { return name.slot < ROWS * BLOCKS; }
  static net::remote_view view_of(const row& what) noexcept;
  bool take_landing(row_request& what) noexcept;
  bool ask(device_queues& by, row_request& what) noexcept;
  void drop(row_request& what) noexcept;
  bool is_torn_for_long(row_request& what) noexcept;

  static constexpr std::size_t MOST = 64;  // sent at a time
  regions& memory_;
  mem::arena& arena_;
  connector& calls_;
  const mem::arena_block landings_;
  std::uint64_t torn_ms_ = TORN_MS;
  // ---- under lock_ ----
  // Parts of peers' tables, by number.
  std::vector<std::unordered_map<std::uint32_t, block_reference>> blocks_;
  std::vector<std::byte*> free_landings_;
};

}  // namespace lci::ibv
