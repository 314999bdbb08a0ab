// Registrations of the verbs backend with the cache behind them.
#include <algorithm>
#include <cerrno>
#include <optional>

#include "backends/ibv/region.hpp"
#include "lci/errors.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

constexpr std::size_t PAGE = 4096;

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

// Two that overlap share a registration of both; what peers are told stays each one's own address.
TEST_F(region_keeping, publish__overlapping_regions_keep_their_bases) {
  open();
  const std::uint64_t low = add(memory + 16, 3 * PAGE);
  const std::uint64_t high = add(memory + 2 * PAGE + 8, 3 * PAGE);
  const std::uint64_t inside = add(memory + PAGE + 5, 7);
  all->publish({1, 1}, low);
  all->publish({2, 1}, high);
  all->publish({3, 1}, inside);
  const auto at = [&](std::size_t offset) {
    return reinterpret_cast<std::uint64_t>(memory + offset);
  };
  EXPECT_EQ(all->target_of({1, 1}).address, at(16));
  EXPECT_EQ(all->target_of({2, 1}).address, at(2 * PAGE + 8));
  EXPECT_EQ(all->target_of({3, 1}).address, at(PAGE + 5));
  EXPECT_EQ(all->target_of({1, 1}).key, peer_key_of(low));
  EXPECT_EQ(all->target_of({2, 1}).key, peer_key_of(high));
  EXPECT_EQ(key_of(inside), key_of(high));
  EXPECT_NE(key_of(low), key_of(high)) << "a key is valid as long as its region";
  all->remove(low);
  EXPECT_EQ(all->target_of({1, 1}).key, 0u);
  EXPECT_EQ(all->target_of({2, 1}).key, peer_key_of(high));
  all->remove(high);
  all->remove(inside);
}

// Unmapped by a program that did not deregister: the key goes on until it does.
TEST_F(region_keeping, remove__after_an_unmap_ends_the_registration) {
  open();
  const std::size_t there = alive();
  const std::uint64_t key = add(memory, PAGE);
  told.listener->on_unmap(reinterpret_cast<std::uintptr_t>(memory), PAGE);
  const std::uint64_t other = add(memory + 4 * PAGE, PAGE);
  EXPECT_EQ(alive(), there + 2);
  all->remove(key);
  EXPECT_EQ(alive(), there + 1);
  all->remove(other);
  EXPECT_EQ(alive(), there + 1) << "kept";
}

TEST_F(region_keeping, publish__what_is_kept_makes_room_for_the_row) {
  open();
  const std::uint64_t key = add(memory + 4 * PAGE, PAGE);
  keep_a_page();
  leave_room_for(sizeof(row) * ROWS - PAGE);
  all->publish({1, 1}, key);
  EXPECT_EQ(all->target_of({1, 1}).key, peer_key_of(key));
  all->remove(key);
}

TEST_F(region_keeping, add__what_is_kept_makes_room_on_the_other_cards) {
  open();
  all->add_rail(pd_.get(), "second", 1);
  keep_a_page();
  leave_room_for(PAGE);
  const std::uint64_t key = add(memory + 4 * PAGE, PAGE);
  const registration& made_here = *reinterpret_cast<const registration*>(key);
  EXPECT_NE(made_here.on[0], nullptr);
  EXPECT_NE(made_here.on[1], nullptr);
  all->remove(key);
}

TEST_F(region_keeping, find_on_all__what_is_kept_makes_room_on_the_other_cards) {
  open();
  all->add_rail(pd_.get(), "second", 1);
  void* const block = arena.allocate(100, 64);
  ASSERT_NE(all->of_arena(arena.offset_of(block), 100), nullptr);
  keep_a_page();
  leave_room_for(span_around(arena.offset_of(block)) - PAGE);
  const regions::by_card on = all->find_on_all(block, 100, 0);
  EXPECT_NE(on[0], nullptr);
  EXPECT_NE(on[1], nullptr);
}

TEST_F(region_keeping, destructor__leaves_nothing_registered) {
  const std::size_t there = alive();
  open();
  all->remove(add(memory, PAGE));
  add(memory + 4 * PAGE, PAGE);  // never removed, which is warned of
  all.reset();
  EXPECT_EQ(alive(), there);
}

}  // namespace
}  // namespace lci::ibv
