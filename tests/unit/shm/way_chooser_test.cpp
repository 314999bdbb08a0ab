#include "backends/shm/way_chooser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

namespace lci::shm {
namespace {

constexpr auto ALL = way_chooser::way_set{7};
constexpr auto PIPELINE = way_chooser::only(copy_way::pipeline);
constexpr auto TWO =
    static_cast<way_chooser::way_set>(PIPELINE | way_chooser::only(copy_way::kernel));
constexpr std::size_t SIZE = 256 * 1024;
constexpr std::uint32_t STRETCH = way_chooser::stretch(way_chooser::class_of(SIZE));
constexpr int FIRST = static_cast<int>(STRETCH * way_chooser::WAYS * way_chooser::FIRST_ROUNDS);
constexpr int LONGEST = static_cast<int>(STRETCH * way_chooser::LONGEST);

// Messages of one size with made-up times; each ends `lag` messages after it was picked.
struct machine {
  way_chooser chooser;
  std::map<copy_way, std::uint64_t> times{
      {copy_way::pipeline, 3000}, {copy_way::kernel, 2000}, {copy_way::both, 1500}};
  std::map<copy_way, int> picked;
  std::size_t lag = 0;
  std::uint32_t noise = 0;  // per cent that a time may be longer
  std::uint32_t state = 12345;
  std::deque<copy_way> under_way;

  std::uint32_t random() { return state = state * 1664525u + 1013904223u; }
  std::uint64_t time_of(copy_way way) {
    const std::uint64_t t = times[way] * (SIZE / 1024);
    return noise == 0 ? t : t + t * ((random() >> 16) % (noise + 1)) / 100;
  }
  void send(int n, way_chooser::way_set allowed = ALL, std::size_t size = SIZE) {
    while (n-- > 0) {
      const copy_way way = chooser.pick(size, false, allowed).way;
      ++picked[way];
      under_way.push_back(way);
      while (under_way.size() > lag) {
        chooser.note(size, false, under_way.front(), time_of(under_way.front()));
        under_way.pop_front();
      }
    }
  }
  copy_way best() const { return chooser.figures_of(SIZE, false).best; }
};

}  // namespace

TEST(way_chooser, class_of__is_a_power_of_two_up_to_its_end) {
  EXPECT_EQ(way_chooser::class_of(way_chooser::FROM + 1), 0u);
  EXPECT_EQ(way_chooser::class_of(2 * way_chooser::FROM), 0u);
  EXPECT_EQ(way_chooser::class_of(2 * way_chooser::FROM + 1), 1u);
  EXPECT_EQ(way_chooser::class_of(SIZE_MAX), way_chooser::CLASSES - 1);
}

TEST(way_chooser, pick__only_the_pipeline_is_allowed) {
  machine m;
  m.send(1000, PIPELINE);
  EXPECT_EQ(m.picked[copy_way::pipeline], 1000);
  EXPECT_FALSE(m.chooser.has_news());
}

TEST(way_chooser, pick__first_measures_every_way_and_then_keeps_the_fastest) {
  for (const std::size_t lag : {0u, 1u, 2u}) {
    machine m;
    m.lag = lag;
    m.send(FIRST + 4);
    EXPECT_EQ(m.best(), copy_way::both) << lag;
    EXPECT_TRUE(m.chooser.has_news());
    const way_chooser::figures f = m.chooser.take_news();
    EXPECT_FALSE(m.chooser.has_news());
    EXPECT_EQ(f.size, SIZE);
    EXPECT_EQ(f.best, copy_way::both);
    EXPECT_EQ(f.ticks_per_kib, (std::array<std::uint32_t, 3>{3000, 2000, 1500}));
  }
}

// Copies into memory that was never touched: the pipeline pays far more for it than the kernel.
TEST(way_chooser, pick__first_measures_on_while_a_way_still_gets_faster) {
  constexpr int ROUND = static_cast<int>(STRETCH * way_chooser::WAYS);
  machine m;
  m.times = {{copy_way::pipeline, 20000}, {copy_way::kernel, 2000}, {copy_way::both, 4000}};
  m.send(ROUND);
  m.times[copy_way::pipeline] = 15000;
  m.send(ROUND);
  m.times[copy_way::pipeline] = 9000;
  m.send(ROUND);
  EXPECT_FALSE(m.chooser.has_news());
  m.times[copy_way::pipeline] = 1000;
  m.send(2 * ROUND + 1);
  EXPECT_TRUE(m.chooser.has_news());
  EXPECT_EQ(m.best(), copy_way::pipeline);
}

TEST(way_chooser, pick__first_ends_though_a_way_gets_faster_for_ever) {
  constexpr int ROUND = static_cast<int>(STRETCH * way_chooser::WAYS);
  machine m;
  std::uint64_t of_pipeline = 1'000'000;
  for (std::uint32_t i = 0; i < way_chooser::MOST_FIRST_ROUNDS; ++i) {
    m.times[copy_way::pipeline] = of_pipeline /= 2;
    EXPECT_FALSE(m.chooser.has_news()) << i;
    m.send(ROUND);
  }
  m.send(1);
  EXPECT_TRUE(m.chooser.has_news());
  EXPECT_EQ(m.best(), copy_way::both);
}

// A way that gained in its last trial is tried again as soon as before.
TEST(way_chooser, pick__a_challenger_that_gets_faster_is_tried_again_soon) {
  machine m;
  m.times[copy_way::pipeline] = 20000;
  m.send(FIRST + 1);
  ASSERT_EQ(m.best(), copy_way::both);
  // Each pair of trials takes one cycle of both challengers: 9 + 9 stretches if none was in vain.
  int stretches = 0;
  std::uint64_t of_pipeline = 20000, of_kernel = 20000;
  m.times[copy_way::kernel] = of_kernel;
  for (; of_pipeline > 2000; ++stretches) {
    const int before = m.picked[copy_way::pipeline] + m.picked[copy_way::kernel];
    m.send(static_cast<int>(STRETCH));
    if (m.picked[copy_way::pipeline] + m.picked[copy_way::kernel] == before) continue;
    m.times[copy_way::pipeline] = of_pipeline = of_pipeline * 3 / 4;
    m.times[copy_way::kernel] = of_kernel = of_kernel * 3 / 4;
  }
  EXPECT_LE(stretches, 200);
}

TEST(way_chooser, pick__trials_cost_less_than_a_hundredth_in_the_long_run) {
  machine m;
  m.send(3 * LONGEST);
  m.picked.clear();
  m.send(20000);
  EXPECT_GE(m.picked[copy_way::both], 19800);
}

TEST(way_chooser, pick__never_starves_a_way) {
  machine m;
  constexpr int LONG = 2 * (LONGEST + static_cast<int>(STRETCH));
  m.send(5000);
  for (int i = 0; i < 10; ++i) {
    m.picked.clear();
    m.send(LONG);
    for (const copy_way way : {copy_way::pipeline, copy_way::kernel, copy_way::both})
      EXPECT_GE(m.picked[way], static_cast<int>(STRETCH)) << name_of(way);
  }
}

TEST(way_chooser, pick__one_piece_by_the_pipeline_is_mostly_not_measured) {
  machine m;
  m.times[copy_way::pipeline] = 1000;
  std::uint32_t picked = 0, spared = 0;
  for (int i = 0; i < 20000; ++i) {
    const way_chooser::choice got = m.chooser.pick(32 * 1024, false, TWO, {.pipeline = true});
    m.chooser.note(32 * 1024, false, got.way, m.times[got.way] * 32);
    ++picked;
    spared += got.unmeasured;
  }
  EXPECT_GT(spared, 20 * picked);
}

TEST(way_chooser, pick__what_the_poster_copies_is_mostly_not_measured) {
  machine m;
  m.times[copy_way::pipeline] = 4000;
  for (const std::size_t size : {std::size_t{16} * 1024, std::size_t{128} * 1024}) {
    for (const bool is_get : {false, true}) {
      std::uint32_t picked = 0, spared = 0;
      for (int i = 0; i < 20000; ++i) {
        const way_chooser::choice got = m.chooser.pick(size, is_get, TWO, {.kernel = true});
        m.chooser.note(size, is_get, got.way, m.times[got.way] * size / 1024);
        ++picked;
        spared += got.unmeasured;
        EXPECT_TRUE(got.unmeasured == 0 || got.way == copy_way::kernel);
      }
      EXPECT_GT(spared, 20 * picked) << size;
    }
  }
  // Larger ones would keep their poster for too long.
  for (int i = 0; i < 20000; ++i) {
    const way_chooser::choice got = m.chooser.pick(SIZE, true, TWO, {.kernel = true});
    m.chooser.note(SIZE, true, got.way, m.times[got.way] * SIZE / 1024);
    EXPECT_EQ(got.unmeasured, 0u);
  }
}

TEST(way_chooser, pick__one_piece_that_is_always_measured_mostly_goes_the_best_way) {
  machine m;
  m.times[copy_way::pipeline] = 1000;
  int by_pipeline = 0;
  for (int i = 0; i < 100000; ++i) {
    const way_chooser::choice got = m.chooser.pick(32 * 1024, false, TWO);
    m.chooser.note(32 * 1024, false, got.way, m.times[got.way] * 32);
    EXPECT_EQ(got.unmeasured, 0u);
    by_pipeline += got.way == copy_way::pipeline;
  }
  EXPECT_GT(by_pipeline, 90000);
}

// As gets do: the kernel's copy has ended when the post returns, the pipeline's is still under way.
TEST(way_chooser, note__late_ones_among_those_of_the_next_way_count) {
  constexpr std::size_t OF_16_KIB = 16 * 1024, UNDER_WAY = 64;
  constexpr auto MEASURED =
      2 * way_chooser::FIRST_ROUNDS * way_chooser::stretch(way_chooser::class_of(OF_16_KIB));
  machine m;
  const auto end = [&m](copy_way way) {
    m.chooser.note(OF_16_KIB, true, way, m.times[way] * (OF_16_KIB / 1024));
  };
  for (std::size_t i = 0; i < MEASURED + UNDER_WAY; ++i) {
    const copy_way way = m.chooser.pick(OF_16_KIB, true, TWO).way;
    if (way == copy_way::kernel)
      end(way);
    else
      m.under_way.push_back(way);
    if (m.under_way.size() > UNDER_WAY || (way == copy_way::kernel && !m.under_way.empty())) {
      end(m.under_way.front());
      m.under_way.pop_front();
    }
  }
  const way_chooser::figures known = m.chooser.figures_of(OF_16_KIB, true);
  EXPECT_EQ(known.ticks_per_kib[0], m.times[copy_way::pipeline]);
  EXPECT_EQ(known.ticks_per_kib[1], m.times[copy_way::kernel]);
  EXPECT_EQ(known.best, copy_way::kernel);
}

TEST(way_chooser, pick__returns_after_a_change) {
  machine m;
  m.send(5000);
  ASSERT_EQ(m.best(), copy_way::both);
  m.times[copy_way::both] = 4000;  // the other side computes, or shares a core now
  m.send(LONGEST);                 // it is in the middle of a long stretch
  EXPECT_EQ(m.best(), copy_way::kernel);
  m.times[copy_way::both] = 1500;
  m.send(LONGEST * 4);
  EXPECT_EQ(m.best(), copy_way::both);
}

TEST(way_chooser, pick__a_margin_keeps_noise_from_changing_it) {
  machine m;
  m.times = {{copy_way::pipeline, 2000}, {copy_way::kernel, 2050}, {copy_way::both, 1950}};
  m.noise = 10;
  m.send(FIRST + 10);
  m.chooser.take_news();
  m.send(50000);
  EXPECT_FALSE(m.chooser.has_news());
}

TEST(way_chooser, pick__much_noise_does_not_hide_the_fastest) {
  machine m;
  m.noise = 60;
  m.send(FIRST + 10);
  int right = 0;
  for (int i = 0; i < 100; ++i) {
    m.send(300);
    right += m.best() == copy_way::both;
  }
  EXPECT_GE(right, 90);
}

TEST(way_chooser, pick__a_way_that_is_forbidden_is_not_taken_any_more) {
  machine m;
  m.send(FIRST + 10);
  ASSERT_EQ(m.best(), copy_way::both);
  m.picked.clear();
  m.send(5000, TWO);
  EXPECT_EQ(m.picked[copy_way::both], 0);
  EXPECT_EQ(m.best(), copy_way::kernel);
  m.send(5000, PIPELINE);
  EXPECT_EQ(m.picked[copy_way::both], 0);
}

TEST(way_chooser, pick__is_deterministic) {
  machine a, b;
  a.noise = b.noise = 50;
  for (int i = 0; i < 3000; ++i) {
    a.send(1);
    b.send(1);
    ASSERT_EQ(a.picked, b.picked);
  }
}

TEST(way_chooser, pick__classes_and_directions_learn_apart) {
  way_chooser c;
  for (int i = 0; i < 500; ++i) {
    for (const bool is_get : {false, true}) {
      const copy_way small = c.pick(64 * 1024, is_get, TWO).way;
      c.note(64 * 1024, is_get, small, (small == copy_way::pipeline) != is_get ? 64000 : 128000);
      const copy_way large = c.pick(SIZE, is_get, TWO).way;
      c.note(SIZE, is_get, large, (large == copy_way::kernel) != is_get ? 128000 : 256000);
    }
  }
  EXPECT_EQ(c.figures_of(64 * 1024, false).best, copy_way::pipeline);
  EXPECT_EQ(c.figures_of(64 * 1024, true).best, copy_way::kernel);
  EXPECT_EQ(c.figures_of(SIZE, false).best, copy_way::kernel);
  EXPECT_EQ(c.figures_of(SIZE, true).best, copy_way::pipeline);
}

}  // namespace lci::shm
