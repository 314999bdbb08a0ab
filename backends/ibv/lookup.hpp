// What peers have registered, as their tables say: read over the network at first use, by the card
// alone, and kept. Owned by fabric. Threads: find() and serve() shared; on_read() polling threads.
// Always true: a name finds its own registration or nothing, since names are given once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backends/ibv/region.hpp"
#include "backends/ibv/wire.hpp"
#include "lci/base/spinlock.hpp"

namespace lci::ibv {

class connector;
class link;
class port;

class lookups {
 public:
  // How long a row may be half written: its writer may have lost its processor.
  static constexpr std::uint64_t TORN_MS = 10'000;

  lookups(regions& memory, mem::arena& arena, connector& calls, int ranks);

  // What is known; not_connected: a look-up has been asked for. An unknown key is told once, then
  // looked up again.
  net::remote_view find(int rank, net::remote_key name) noexcept;
  bool has_work() const noexcept { return open_.load(std::memory_order_relaxed) != 0; }
  // Reads, over links of that port, what has been asked for.
  void serve(port& by) noexcept;
  // A read has come back, or has not.
  void on_read(port& by, void* what, bool ok) noexcept;
  // The peer has withdrawn it.
  void drop(int rank, net::remote_key name) noexcept;
  // That rank will not answer any more.
  void forget(int rank) noexcept;
  void set_torn_ms(std::uint64_t ms) noexcept { torn_ms_ = ms; }  // tests

 private:
  enum class step : std::uint8_t { asked, reading_block, reading_row };
  struct request {
    int rank = -1;
    net::remote_key name;
    step at = step::asked;
    std::byte* landing = nullptr;  // a row, in the arena
    std::uint64_t torn_ticks = 0;  // when its row was first seen half written; 0: never
  };
  struct known {
    std::uint32_t generation = 0;
    bool exists = false;
    row what;
  };
  struct peer {
    std::unordered_map<std::uint32_t, known> rows;              // by slot
    std::unordered_map<std::uint32_t, block_reference> blocks;  // by number
  };
  void ask_locked(int rank, net::remote_key name);
  bool read(port& by, request& what) noexcept;
  // True: the row exists and is kept.
  bool settle_locked(request& what, const row* found);
  bool is_torn_for_long(request& what) noexcept;
  void drop_locked(request& what) noexcept;

  static constexpr std::size_t MOST = 64;  // requests at a time
  regions& memory_;
  mem::arena& arena_;
  connector& calls_;
  const mem::arena_block landings_;
  std::uint64_t torn_ms_ = TORN_MS;
  base::spinlock lock_;  // guards everything below
  std::vector<peer> peers_;
  std::vector<std::unique_ptr<request>> requests_;
  std::vector<std::byte*> free_landings_;
  std::atomic<std::size_t> open_{0};  // requests that wait to be read
};

}  // namespace lci::ibv
