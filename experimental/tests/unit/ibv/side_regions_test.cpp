#include "experimental/ibv/multi_rail/side_regions.hpp"

#include "lci/errors.hpp"
#include "tests/unit/ibv/kept_regions.hpp"
#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {
namespace {

class side_regions_test : public region_keeping {
 protected:
  // For memory of any size.
  void add_second_card() {
    auto rails = std::make_unique<side_regions>(*all, config, 1);
    rails->add_card(pd_.get(), "second");
    all->set_rails(std::move(rails));
  }
};

class make_rail_regions_test : public on_a_card {};

TEST_F(make_rail_regions_test, one_card__a_size_that_is_none_is_an_error_that_names_the_variable) {
  environment_.set("LCI_IBV_RAIL_SIZE", "much");
  try {
    open(1);
    ADD_FAILURE() << "it was taken";
  } catch (const argument_error& problem) {
    EXPECT_NE(std::string(problem.what()).find("LCI_IBV_RAIL_SIZE"), std::string::npos)
        << problem.what();
  }
}

TEST_F(side_regions_test, add__what_is_kept_makes_room_on_the_other_cards) {
  open();
  add_second_card();
  keep_a_page();
  leave_room_for(PAGE);
  const std::uint64_t key = add(memory + 4 * PAGE, PAGE);
  const registration& made_here = *reinterpret_cast<const registration*>(key);
  EXPECT_NE(made_here.on[0], nullptr);
  EXPECT_NE(made_here.on[1], nullptr);
  all->remove(key);
}

TEST_F(side_regions_test, add_of_arena__what_is_kept_makes_room_on_the_other_cards) {
  open();
  add_second_card();
  void* const block = arena.allocate(100, 64);
  ASSERT_NE(all->of_arena(arena.offset_of(block), 100), nullptr);
  keep_a_page();
  leave_room_for(span_around(arena.offset_of(block)) - PAGE);
  const regions::by_card on = all->find_on_all(block, 100, 0);
  EXPECT_NE(on[0], nullptr);
  EXPECT_NE(on[1], nullptr);
}

}  // namespace
}  // namespace lci::ibv
