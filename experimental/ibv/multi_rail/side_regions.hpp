// Registrations with the cards beside the first: of programs' memory that is long enough to be cut,
// of GPUs' memory with those that are near, and of the arena where such a range of it is asked for.
// Owned by regions. Threads: shared, but what is set up. Always true: a card that refuses is not
// used for that memory, and nobody fails for it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/ibv/multi_rail.hpp"
#include "backends/ibv/region.hpp"
#include "experimental/ibv/multi_rail/near_cards.hpp"

namespace lci::ibv {

class side_regions final : public rail_regions {
 public:
  // least: bytes from which memory is registered with them.
  side_regions(regions& first, const net::fabric_config& config, std::size_t least)
      : first_(first), config_(config), arena_(*config.arena), least_(least) {}

  // ---- set-up: before anything is registered ----
  void add_card(ibv_pd* pd, std::string device) {
    cards_.push_back(std::make_unique<registrar>(pd, std::move(device), config_));
  }
  // Which of them memory of GPUs is registered with, beside the first.
  using near_finder = std::function<near_cards::set(const void*)>;
  void find_near_by(near_finder finder) { near_to_ = std::move(finder); }

  void prepare(registration& made) override;
  void add(mr_set& to, void* address, std::size_t size, mem::mem_kind kind) override;
  void add_of_arena(regions::by_card& to, std::uint64_t offset, std::size_t size) noexcept override;

 private:
  mr_handle register_on(registrar& card, void* address, std::size_t size, mem::mem_kind kind);
  void say_refused(const registrar& by, std::size_t size) noexcept;

  regions& first_;
  const net::fabric_config config_;
  mem::arena& arena_;
  const std::size_t least_;
  std::vector<std::unique_ptr<registrar>> cards_;
  near_finder near_to_ = [](const void*) { return near_cards::ALL; };
  std::atomic<bool> was_refused_{false};  // which was said
  // Spans of the arena; by their end.
  struct range {
    std::uint64_t begin;
    mr_set on;
  };
  std::mutex mutex_;  // guards the next
  std::multimap<std::uint64_t, range> of_arena_;
};

}  // namespace lci::ibv
