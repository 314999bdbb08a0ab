// Which cards large writes go over, by the memory they come from and go to.
#include <algorithm>
#include <cerrno>
#include <span>

#include "experimental/ibv/multi_rail/side_regions.hpp"
#include "experimental/tests/unit/ibv/split_world.hpp"
#include "lci/mem/arena.hpp"
#include "tests/unit/ibv/domains.hpp"

namespace lci::ibv {
namespace {

// As the slots that memory of GPUs passes through.
TEST_F(split_test, memory_of_the_arena__is_registered_with_all_cards_when_it_is_asked_for) {
  for (const bool is_refused : {false, true}) {
    start();
    {
      const mem::arena_block here(world_->at(0).arena, SPLIT_SIZE),
          there(world_->at(1).arena, SPLIT_SIZE);
      std::copy(from_.begin(), from_.end(), here.get());
      const mem::region_name slot = world_->at(1).regions.insert(there.get(), SPLIT_SIZE);
      const auto bare = world_->at(0).devices[0]->make_endpoint();
      net::net_op op;
      op.rank = 1;
      op.buffer = here.get();
      op.size = SPLIT_SIZE;
      // The first card of the target has it, so the next to be asked is another one.
      mem::arena& arena = world_->at(1).arena;
      ASSERT_NE(at(1).memory().of_arena(arena.offset_of(there.get()), SPLIT_SIZE), nullptr);
      if (is_refused) card().fail_nth("ibv_reg_mr", 1, ENOMEM);
      op.at = at(1).target_of({slot.slot, slot.generation});
      std::size_t before = 0;
      for (int i = 0; i < 3; ++i) {
        card().forget_counts();
        std::fill_n(there.get(), SPLIT_SIZE, std::byte{});
        test::op_fate fate;
        op.context = &fate;
        world_->post([&] { return bare->put(op); });
        ASSERT_TRUE(until_told(fate));
        EXPECT_TRUE(std::equal(from_.begin(), from_.end(), there.get()));
        EXPECT_EQ(on(0) + on(1) + on(2), is_refused ? 2u : 3u);
        if (i == 1) before = card().live().mrs;
      }
      EXPECT_EQ(card().live().mrs, before) << "registered once";
      world_->at(1).regions.erase(slot);
    }
  }
}

// A GPU whose memory is whatever `gpu_memory` is, and that lets cards have the address.
std::span<std::byte> gpu_memory;
extern const mem::memory_domain GPU_OF_SPLITS;
mem::memory_place find_in_gpu_memory(const void* address) noexcept {
  mem::memory_place out;
  const auto* const at = static_cast<const std::byte*>(address);
  if (at < gpu_memory.data() || at >= gpu_memory.data() + gpu_memory.size()) return out;
  out.kind = mem::mem_kind::device;
  out.device = 0;
  out.domain = &GPU_OF_SPLITS;
  return out;
}
const mem::memory_domain GPU_OF_SPLITS{"fake",
                                       "",
                                       nullptr,
                                       &find_in_gpu_memory,
                                       [](const void*) { return std::string("memory of GPU 0"); },
                                       [](const void*) { return std::string(); },
                                       nullptr,
                                       nullptr,
                                       nullptr,
                                       nullptr,
                                       [](const void*) {
                                         return mem::network_pointer{"", 0, false, true};
                                       }};

class split_of_gpu_memory : public split_test {
 protected:
  split_of_gpu_memory() { test::domains() = {&GPU_OF_SPLITS, 1}; }
  ~split_of_gpu_memory() override {
    end();
    gpu_memory = {};
    test::domains() = {};
  }
  // What is sent becomes memory of a GPU that those cards are near to.
  void place_near(near_cards::set cards) {
    at(0).deregister_region(key_);
    gpu_memory = from_;
    static_cast<side_regions&>(*at(0).memory().rails()).find_near_by([cards](const void*) {
      return cards;
    });
    std::string why_not;
    key_ = at(0).register_region(from_.data(), SPLIT_SIZE, mem::mem_kind::device, why_not);
    ASSERT_NE(key_, 0u) << why_not;
  }
  // Which cards have carried it.
  std::vector<std::size_t> put_it() {
    card().forget_counts();
    test::op_fate fate;
    net::net_op op = op_of(&fate);
    op.kind = mem::mem_kind::device;
    world_->post([&] { return to().put(op); });
    EXPECT_TRUE(until_told(fate));
    EXPECT_EQ(fate.completed.load(), 1);
    EXPECT_EQ(there_, from_);
    return {on(0), on(1), on(2)};
  }
  using counts = std::vector<std::size_t>;
};

TEST_F(split_of_gpu_memory, goes_over_the_cards_near_to_that_gpu) {
  place_near(0b111);
  EXPECT_EQ(put_it(), (counts{1, 1, 1}));
  place_near(0b101);
  EXPECT_EQ(put_it(), (counts{1, 0, 1}));
  place_near(0b110);
  EXPECT_EQ(put_it(), (counts{0, 1, 1}));
  place_near(0b010);
  EXPECT_EQ(put_it(), (counts{0, 1, 0})) << "whole, over a card that is not the first";
  EXPECT_EQ(reinterpret_cast<const registration*>(key_)->on[2], nullptr)
      << "registered with a card that is far";
}

// The notification goes over the first card all the same.
TEST_F(split_of_gpu_memory, put_imm_and_get__over_a_card_that_is_not_the_first) {
  place_near(0b010);
  card().forget_counts();
  test::op_fate written, read;
  net::net_op op = op_of(&written);
  op.kind = mem::mem_kind::device;
  world_->post([&] { return to().put_imm(op); });
  ASSERT_TRUE(until_told(written));
  ASSERT_TRUE(world_->until([&] { return world_->at(1).seen().immediates() == 1; }, "the news"));
  EXPECT_EQ(there_, from_);
  EXPECT_EQ((counts{on(0), on(1), on(2)}), (counts{1, 1, 0}));
  const std::vector<std::byte> other = test::pattern(SPLIT_SIZE, 8);
  std::copy(other.begin(), other.end(), there_.begin());
  card().forget_counts();
  op.context = &read;
  world_->post([&] { return to().get(op); });
  ASSERT_TRUE(until_told(read));
  EXPECT_EQ(from_, other);
  EXPECT_EQ((counts{on(0), on(1), on(2)}), (counts{0, 1, 0}));
}

TEST_F(split_of_gpu_memory, card_that_refuses_it_for_good__is_the_end_of_the_connection) {
  place_near(0b010);
  card().fail_nth("post_send", 1, EIO, 1000000);
  test::op_fate fate;
  net::net_op op = op_of(&fate);
  op.kind = mem::mem_kind::device;
  world_->post([&] { return to().put(op); });
  ASSERT_TRUE(until_told(fate));
  EXPECT_EQ(fate.failed.load(), 1);
  ASSERT_TRUE(until_gone(*world_, 0));
  world_->settle();
  EXPECT_TRUE(world_->at(0).devices[0]->is_drained());
  card().reset_failures();
}

TEST_F(split_of_gpu_memory, card_without_room__gets_it_later) {
  place_near(0b010);
  for (const int times : {1, 30}) {
    card().fail_nth("post_send", 1, ENOMEM, times);
    EXPECT_EQ(put_it(), (counts{0, 1, 0})) << times;
  }
  EXPECT_TRUE(world_->at(0).seen().gone().empty());
}

TEST_F(split_of_gpu_memory, goes_over_the_first_card_where_no_near_one_can) {
  start(three_cards(), 1);
  place_near(0b010);
  EXPECT_EQ(put_it(), (counts{1, 0, 0})) << "the peer has the first alone";
  start();
  card().fail_nth("ibv_reg_mr", 2, ENOMEM);
  place_near(0b010);
  EXPECT_EQ(put_it(), (counts{1, 0, 0})) << "the near one does not register it";
}

}  // namespace
}  // namespace lci::ibv
