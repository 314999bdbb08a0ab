#include "backends/shm/copy_in_post.hpp"

#include <gtest/gtest.h>

namespace lci::shm {
namespace {

using copied_by = copy_in_post::way;

// Operations that are all waited for, on a machine where the ways take so many ticks.
struct two_costs {
  std::uint64_t post, target;

  copied_by one() {
    const copied_by picked = choice.pick(true);
    choice.note(picked, picked == copied_by::post ? post : target);
    return picked;
  }
  // How many of the next are copied in the post.
  std::uint32_t in_post(std::uint32_t of) {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < of; ++i) n += one() == copied_by::post;
    return n;
  }
  copy_in_post choice{};
};

constexpr std::uint32_t MANY = copy_in_post::SAMPLE_TARGET * copy_in_post::SAMPLE_POST;

}  // namespace

TEST(copy_in_post, pick__what_takes_less_but_for_samples) {
  two_costs fast{1000, 1500}, slow{2600, 500};
  for (two_costs* m : {&fast, &slow}) {
    EXPECT_EQ(m->in_post(copy_in_post::SURE_AFTER - 1), 0u) << "it is not sure yet";
    m->in_post(MANY - copy_in_post::SURE_AFTER + 1);
  }
  EXPECT_EQ(fast.in_post(MANY), MANY - MANY / copy_in_post::SAMPLE_TARGET);
  EXPECT_EQ(slow.in_post(MANY), MANY / copy_in_post::SAMPLE_POST);
}

// The target's time is known roughly.
TEST(copy_in_post, pick__in_the_post_unless_the_target_takes_clearly_less) {
  two_costs near{1000, 751}, less{1000, 749};
  near.in_post(MANY);
  less.in_post(MANY);
  EXPECT_EQ(near.in_post(MANY), MANY - MANY / copy_in_post::SAMPLE_TARGET);
  EXPECT_EQ(less.in_post(MANY), MANY / copy_in_post::SAMPLE_POST);
}

TEST(copy_in_post, pick__each_way_is_tried_before_one_is_preferred) {
  two_costs m{2600, 500};
  m.in_post(copy_in_post::SURE_AFTER - 1);
  EXPECT_EQ(m.in_post(copy_in_post::WINDOW + 10), copy_in_post::WINDOW);
}

TEST(copy_in_post, pick__follows_a_machine_that_changes) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  m.target = 200;  // the two have come nearer to each other
  m.in_post(copy_in_post::WINDOW * copy_in_post::SAMPLE_TARGET);
  EXPECT_LE(m.in_post(MANY), MANY / copy_in_post::SAMPLE_POST);
  m.post = 100;
  m.in_post(copy_in_post::WINDOW * copy_in_post::SAMPLE_POST);
  EXPECT_GE(m.in_post(MANY), MANY - MANY / copy_in_post::SAMPLE_TARGET);
}

TEST(copy_in_post, pick__not_in_the_post_when_something_else_is_under_way) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  EXPECT_EQ(m.choice.pick(false), copied_by::target);
  EXPECT_EQ(m.in_post(copy_in_post::SURE_AFTER - 1), 0u) << "the count begins anew";
  EXPECT_EQ(m.one(), copied_by::post);
  m.choice.start_again();
  EXPECT_NE(m.one(), copied_by::post);
}

// That two are posted at a time is seen when the first of them goes to the target.
TEST(copy_in_post, pick__two_at_a_time_are_noticed) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  bool is_noticed = false;
  for (std::uint32_t i = 0; i < 2 * copy_in_post::SAMPLE_TARGET && !is_noticed; ++i) {
    is_noticed = m.one() != copied_by::post;
    if (!is_noticed) m.one();
  }
  EXPECT_TRUE(is_noticed);
}

TEST(copy_in_post, note__one_that_was_interrupted_changes_nothing) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  for (int i = 0; i < 20; ++i) {
    m.choice.note(copied_by::post, 1'000'000);
    EXPECT_GE(m.in_post(copy_in_post::SAMPLE_TARGET), copy_in_post::SAMPLE_TARGET - 1);
  }
}

TEST(copy_in_post, note__one_that_was_lucky_changes_nothing) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  for (int i = 0; i < 20; ++i) {
    m.choice.note(copied_by::target, 100);
    for (std::uint32_t n = 1; n < copy_in_post::WINDOW; ++n)
      m.choice.note(copied_by::target, m.target);
    EXPECT_EQ(m.choice.cost_of(copied_by::target), m.target);
  }
}

TEST(copy_in_post, note__of_any_size) {
  two_costs m{~std::uint64_t{0}, 0};
  m.in_post(MANY);
  EXPECT_EQ(m.in_post(MANY), MANY / copy_in_post::SAMPLE_POST);
}

}  // namespace lci::shm
