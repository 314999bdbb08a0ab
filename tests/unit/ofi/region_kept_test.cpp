// Registrations of packets on the fake library with the cache behind them.
#include <string>

#include "tests/unit/ofi/kept_regions.hpp"

namespace lci::ofi {
namespace {

constexpr std::size_t PAGE = 4096;

class region_keeping : public on_a_network {
 protected:
  region_keeping() {
    test::fake_ofi_config config;
    config.mr_mode = FI_MR_LOCAL;  // packets are registered to be sent
    fake().reset(config);
    kept_.open();
    packet_ = kept_.arena.allocate(100, 64);
  }
  std::uint64_t add(void* address) {
    std::string why_not;
    return kept_.all->add(address, PAGE, mem::mem_kind::host, why_not);
  }
  void remove(std::uint64_t key) { kept_.all->remove(key); }
  bool can_be_sent() {
    void* local = nullptr;
    return kept_.all->find_local(packet_, 100, mem::mem_kind::host, 0, local) && local != nullptr;
  }
  static void refuse_once(int code) { fake().fail("fi_mr_regattr", 1, code); }

  kept_regions kept_;
  void* packet_ = nullptr;
  alignas(PAGE) char memory_[4 * PAGE];
};

// Nothing could else be sent or received any more, while memory is kept that nobody uses.
TEST_F(region_keeping, find_local__what_is_kept_makes_room_for_packets) {
  const std::uint64_t used = add(memory_);
  remove(add(memory_ + 2 * PAGE));
  const std::size_t there = fake().live();
  refuse_once(-FI_ENOMEM);
  EXPECT_TRUE(can_be_sent());
  EXPECT_EQ(fake().live(), there) << "one came, one went";
  EXPECT_TRUE(can_be_sent());
  remove(used);
}

}  // namespace
}  // namespace lci::ofi
