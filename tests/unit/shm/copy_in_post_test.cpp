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
    if (copy_in_post::is_timed(picked))
      choice.note(picked, copy_in_post::is_in_post(picked) ? post : target);
    return picked;
  }
  // How many of the next are copied in the post.
  std::uint32_t in_post(std::uint32_t of) {
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < of; ++i) n += copy_in_post::is_in_post(one());
    return n;
  }
  copy_in_post choice{};
};

// What goes the other way where it takes 1.5, 5.2 and 1000 times as long: as much as costs a
// hundredth.
constexpr std::uint32_t OF_NEAR = 51, OF_FAR = 421, OF_FARTHEST = copy_in_post::SAMPLE_MOST;
constexpr std::uint32_t MANY = OF_NEAR * OF_FAR;

}  // namespace

TEST(copy_in_post, pick__what_takes_less_but_for_samples) {
  two_costs fast{1000, 1500}, slow{2600, 500};
  for (two_costs* m : {&fast, &slow}) {
    EXPECT_EQ(m->in_post(copy_in_post::SURE_AFTER - 1), 0u) << "it is not sure yet";
    m->in_post(MANY);
  }
  EXPECT_EQ(fast.in_post(MANY), MANY - MANY / OF_NEAR);
  EXPECT_EQ(slow.in_post(MANY), MANY / OF_FAR);
}

TEST(copy_in_post, pick__samples_cost_a_hundredth_of_the_time) {
  for (const std::uint64_t target : {1100u, 1400u, 2000u, 3500u, 6000u, 50'000u}) {
    two_costs m{1000, target};
    m.in_post(MANY);
    const std::uint64_t samples = MANY - m.in_post(MANY);
    EXPECT_GE(samples, MANY / OF_FARTHEST);
    if (target <= 6000) {
      EXPECT_LE(samples * (target - 1000), MANY * 1010 / 100) << target;
    }
  }
}

// A look at the clock takes as long as some dozens of instructions.
TEST(copy_in_post, pick__one_in_some_is_timed_and_every_sample) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  std::uint32_t timed = 0;
  for (std::uint32_t i = 0; i < MANY; ++i) {
    const copied_by picked = m.one();
    timed += picked == copied_by::post_timed;
    EXPECT_NE(picked, copied_by::target) << "a sample of which nothing is learned";
  }
  EXPECT_NEAR(timed, MANY / copy_in_post::TIMED, MANY / OF_NEAR);
}

TEST(copy_in_post, pick__in_the_post_unless_the_target_takes_less) {
  two_costs near{1000, 938}, less{1000, 936};
  near.in_post(MANY);
  less.in_post(MANY);
  EXPECT_GE(near.in_post(MANY), MANY - MANY / copy_in_post::SAMPLE_LEAST - 1);
  EXPECT_LE(less.in_post(MANY), MANY / copy_in_post::SAMPLE_LEAST + 1);
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
  m.in_post(copy_in_post::WINDOW * OF_NEAR);
  EXPECT_LE(m.in_post(MANY), MANY / OF_NEAR);
  m.post = 100;
  m.in_post(copy_in_post::WINDOW * OF_FARTHEST);
  EXPECT_GE(m.in_post(MANY), MANY - MANY / copy_in_post::SAMPLE_LEAST - 1);
}

TEST(copy_in_post, pick__not_in_the_post_when_something_else_is_under_way) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  EXPECT_EQ(m.choice.pick(false), copied_by::target);
  EXPECT_EQ(m.in_post(copy_in_post::SURE_AFTER - 1), 0u) << "the count begins anew";
  EXPECT_TRUE(copy_in_post::is_in_post(m.one()));
  m.choice.start_again();
  EXPECT_FALSE(copy_in_post::is_in_post(m.one()));
}

// That two are posted at a time is seen when the first of them goes to the target.
TEST(copy_in_post, pick__two_at_a_time_are_noticed) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  bool is_noticed = false;
  for (std::uint32_t i = 0; i < 2 * OF_NEAR && !is_noticed; ++i) {
    is_noticed = !copy_in_post::is_in_post(m.one());
    if (!is_noticed) m.one();
  }
  EXPECT_TRUE(is_noticed);
}

// Puts end in silence: each takes until the next. Answers how many of `of` are copied in the post,
// and reads a clock that moves by what they take and `between`.
std::uint32_t puts_in_post(copy_in_post& choice, std::uint64_t& now, const two_costs& costs,
                           std::uint64_t between, std::uint32_t of) {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < of; ++i) {
    const bool in_post = copy_in_post::is_in_post(choice.pick_in_turn(true, [&] { return now; }));
    n += in_post;
    now += between + (in_post ? costs.post : costs.target);
  }
  return n;
}

TEST(copy_in_post, pick_in_turn__what_takes_less_until_the_next_one) {
  for (const std::uint64_t between : {0u, 1000u}) {
    two_costs fast{1000, 2500}, slow{2600, 500};
    std::uint64_t now = 1;
    puts_in_post(fast.choice, now, fast, between, MANY);
    puts_in_post(slow.choice, now, slow, between, MANY);
    EXPECT_GE(puts_in_post(fast.choice, now, fast, between, MANY), MANY - MANY / OF_NEAR);
    EXPECT_LE(puts_in_post(slow.choice, now, slow, between, MANY), MANY / OF_NEAR);
  }
}

// Nothing is learned of one that was not waited for, nor of one that went another way.
TEST(copy_in_post, pick_in_turn__only_what_was_waited_for_counts) {
  copy_in_post choice;
  std::uint64_t now = 1;
  const auto one = [&](bool is_waited_for) {
    now += 100;
    return choice.pick_in_turn(is_waited_for, [&] { return now; });
  };
  for (std::uint32_t i = 0; i < 3 * copy_in_post::WINDOW; ++i) one(i % 2 == 0);
  EXPECT_EQ(choice.cost_of(copied_by::target), 0u);
  for (std::uint32_t i = 0; i < 3 * copy_in_post::WINDOW; ++i) {
    one(true);
    choice.forget_last();
  }
  EXPECT_EQ(choice.cost_of(copied_by::target), 0u);
  EXPECT_EQ(choice.cost_of(copied_by::post), 0u);
  for (std::uint32_t i = 0; i < 3 * copy_in_post::WINDOW; ++i) one(true);
  EXPECT_EQ(choice.cost_of(copied_by::post), 100u);
}

TEST(copy_in_post, note__one_that_was_interrupted_changes_nothing) {
  two_costs m{1000, 1500};
  m.in_post(MANY);
  for (int i = 0; i < 20; ++i) {
    m.choice.note(copied_by::post, 1'000'000);
    EXPECT_GE(m.in_post(OF_NEAR), OF_NEAR - 1);
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
  EXPECT_LE(m.in_post(MANY), MANY / OF_FARTHEST + 1);
}

}  // namespace lci::shm
