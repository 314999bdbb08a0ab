// Registrations of one card with the cache behind them, and how much of them there is. Threads: the
// test's.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "backends/ibv/region.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {

inline constexpr std::size_t PAGE = 4096;

struct news final : mem::unmap_source {
  std::string start(mem::unmap_listener& to) override {
    listener = &to;
    return why_not;
  }
  void stop(mem::unmap_listener&) noexcept override {}
  std::string why_not;
  mem::unmap_listener* listener = nullptr;
};

class region_keeping : public on_a_card {
 protected:
  region_keeping() {
    card();
    opened_.emplace(open_best_port({}));
    pd_.reset(library().alloc_pd(opened_->context.get()));
    config.arena = &arena;
    config.regions = &table;
    config.use_reg_cache = true;
  }
  regions& open() {
    all.emplace(pd_.get(), "mock", config, told);
    before = made_ever();
    return *all;
  }
  static std::size_t made_ever() {
    return card().count("ibv_reg_mr") + card().count("ibv_reg_mr_iova2");
  }
  static std::size_t alive() { return card().live().mrs; }
  std::size_t made() const { return made_ever() - before; }
  std::uint64_t add(void* address, std::size_t size) {
    std::string why_not;
    return all->add(address, size, mem::mem_kind::host, why_not);
  }
  std::uint32_t key_of(std::uint64_t key) {
    std::uint32_t out = 0;
    EXPECT_TRUE(all->find_key(nullptr, 1, key, out));
    return out;
  }
  // The key that peers use.
  static std::uint32_t peer_key_of(std::uint64_t key) {
    return reinterpret_cast<const registration*>(key)->on[0]->rkey;
  }

  // Of what is registered from now on there is room for so many bytes.
  static void leave_room_for(std::size_t bytes) {
    test::fake_ibv_config limit;
    limit.most_registered = card().registered_bytes() + bytes;
    card().change(limit);
  }
  // A page that is registered and not used; it touches none of the others.
  void keep_a_page() { all->remove(add(memory, PAGE)); }
  // Bytes of the registration that a block of the arena gets.
  std::size_t span_around(std::uint64_t offset) const {
    const std::size_t begin = offset / mem::arena::SPAN * mem::arena::SPAN;
    return std::min(mem::arena::SPAN, arena.committed() - begin);
  }

 private:
  std::optional<chosen_port> opened_;

 protected:
  pd_handle pd_;
  mem::arena arena;
  mem::region_table table{arena};
  net::fabric_config config;
  news told;
  std::optional<regions> all;
  std::size_t before = 0;
  alignas(PAGE) char memory[8 * PAGE];
};

}  // namespace lci::ibv
