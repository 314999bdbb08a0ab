// Registrations of the verbs backend with the cache behind them.
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

 private:
  std::optional<chosen_port> opened_;
  pd_handle pd_;

 protected:
  mem::arena arena;
  mem::region_table table{arena};
  net::fabric_config config;
  news told;
  std::optional<regions> all;
  std::size_t before = 0;
  alignas(PAGE) char memory[8 * PAGE];
};

TEST_F(region_keeping, add__again_finds_the_same) {
  ASSERT_TRUE(open().is_keeping());
  const std::uint64_t first = add(memory + 100, 5000);
  const std::uint32_t key = key_of(first);
  all->remove(first);
  const std::uint64_t second = add(memory + 200, 300);
  EXPECT_EQ(key_of(second), key);
  EXPECT_EQ(made(), 1u);
  all->remove(second);
  told.listener->on_unmap(reinterpret_cast<std::uintptr_t>(memory), PAGE);
  const std::uint64_t third = add(memory + 200, 300);
  EXPECT_NE(key_of(third), key);
  all->remove(third);
}

TEST_F(region_keeping, add__without_the_attribute_or_the_hook_each_time) {
  for (const bool wanted : {false, true}) {
    config.use_reg_cache = wanted;
    told.why_not = "no hook";
    EXPECT_FALSE(open().is_keeping());
    const std::size_t there = alive();
    for (int i = 0; i < 3; ++i) all->remove(add(memory, PAGE));
    EXPECT_EQ(made(), 3u);
    EXPECT_EQ(alive(), there);
    all.reset();
  }
}

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

TEST_F(region_keeping, add__refused_is_an_error_with_its_reason) {
  open();
  card().fail_nth("ibv_reg_mr_iova2", 1, EPERM);
  EXPECT_THROW(add(memory, PAGE), backend_error);
  const std::uint64_t key = add(memory, PAGE);
  EXPECT_NE(key, 0u);
  all->remove(key);
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
