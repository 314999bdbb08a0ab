#include "lci/base/type_stable.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lci/errors.hpp"

namespace {

using lci::base::check_live;
using lci::base::free_live;
using lci::base::make_live;
using lci::base::type_stable_pool;

struct thing : lci::base::live_object<thing> {
  explicit thing(int v) : value(v) {
    if (v < 0) throw std::runtime_error("negative");
  }
  int value;
};
struct other : lci::base::live_object<other> {
  int value = 7;
};
struct patient : lci::base::live_object<patient> {
  static constexpr std::size_t QUARANTINE = 1000;
};
struct alignas(128) wide : lci::base::live_object<wide> {
  char bytes[300] = {};
};
struct polymorphic_base {
  virtual ~polymorphic_base() = default;
  virtual int kind() const = 0;
};
struct buried : polymorphic_base {
  int kind() const override { return -1; }
};
struct orphaned : polymorphic_base {
  int kind() const override { return -2; }
};
struct polymorphic : polymorphic_base, lci::base::live_object<polymorphic> {
  using tombstone = buried;
  using orphan = orphaned;
  int kind() const override { return 3; }
};

std::string text_of(thing* t) {
  try {
    check_live(t, "thing");
  } catch (const lci::argument_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST(type_stable, check_live__returns_a_living_object) {
  thing* t = make_live<thing>(5);
  EXPECT_EQ(check_live(t, "thing")->value, 5);
  free_live(t, "thing");
}

TEST(type_stable, check_live__freed_object_is_named_with_its_argument) {
  thing* t = make_live<thing>(5);
  free_live(t, "thing");
  EXPECT_NE(text_of(t).find("argument thing"), std::string::npos);
  EXPECT_NE(text_of(t).find("was freed"), std::string::npos);
}

TEST(type_stable, check_live__null_and_small_numbers_are_empty) {
  EXPECT_NE(text_of(nullptr).find("is empty"), std::string::npos);
  EXPECT_NE(text_of(reinterpret_cast<thing*>(2)).find("is empty"), std::string::npos);
}

TEST(type_stable, check_live__object_of_another_type_is_refused) {
  other* o = make_live<other>();
  EXPECT_NE(text_of(reinterpret_cast<thing*>(o)).find("no live object of this type"),
            std::string::npos);
  free_live(o, "other");
}

TEST(type_stable, free_live__second_time_throws_and_keeps_the_pool_intact) {
  thing* t = make_live<thing>(1);
  free_live(t, "thing");
  EXPECT_THROW(free_live(t, "thing"), lci::argument_error);
  std::set<thing*> distinct;
  for (std::size_t i = 0; i < 3 * type_stable_pool::QUARANTINE; ++i)
    distinct.insert(make_live<thing>(0));
  EXPECT_EQ(distinct.size(), 3 * type_stable_pool::QUARANTINE);
  for (thing* each : distinct) free_live(each, "thing");
}

TEST(type_stable, make_live__freed_slot_is_reused_late_but_is_reused) {
  thing* first = make_live<thing>(1);
  free_live(first, "thing");
  std::size_t rounds = 0;
  for (thing* t = nullptr; t != first; ++rounds) {
    ASSERT_LT(rounds, 100000u);
    t = make_live<thing>(2);
    if (t != first) free_live(t, "thing");
  }
  EXPECT_GE(rounds, type_stable_pool::QUARANTINE);
  free_live(first, "thing");
}

// Handles of some types stay in the hands of the network for long.
TEST(type_stable, make_live__a_type_may_ask_for_a_longer_quarantine) {
  patient* const first = make_live<patient>();
  free_live(first, "patient");
  for (std::size_t i = 0; i < patient::QUARANTINE; ++i) {
    patient* const each = make_live<patient>();
    ASSERT_NE(each, first) << "after " << i;
    free_live(each, "patient");
  }
  patient* const next = make_live<patient>();
  EXPECT_EQ(next, first) << "and then it is used again";
  free_live(next, "patient");
}

TEST(type_stable, make_live__constructor_that_throws_gives_the_slot_back_dead) {
  EXPECT_THROW(make_live<thing>(-1), std::runtime_error);
  thing* t = make_live<thing>(1);
  free_live(t, "thing");
}

TEST(type_stable, make_live__alignment_above_a_cache_line) {
  wide* w = make_live<wide>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w) % 128, 0u);
  free_live(w, "wide");
}

TEST(type_stable, free_live__leaves_the_dead_pattern) {
  wide* w = make_live<wide>();
  const auto* byte = reinterpret_cast<const unsigned char*>(&w->bytes);
  free_live(w, "wide");
  EXPECT_EQ(*byte, lci::base::DEAD_BYTE);
}

TEST(type_stable, free_live__leaves_a_tombstone_that_a_base_pointer_may_use) {
  polymorphic* p = make_live<polymorphic>();
  polymorphic_base* const base = p;
  EXPECT_EQ(base->kind(), 3);
  free_live(p, "polymorphic");
  EXPECT_EQ(base->kind(), -1);
}

TEST(type_stable, make_live__threads_never_share_a_slot) {
  std::vector<std::thread> threads;
  std::atomic<int> errors{0};
  for (int id = 1; id <= 4; ++id)
    threads.emplace_back([&errors, id] {
      for (int i = 0; i < 5000; ++i) {
        thing* a = make_live<thing>(id);
        thing* b = make_live<thing>(id * 10);
        if (a == b || a->value != id || b->value != id * 10) ++errors;
        free_live(a, "a");
        free_live(b, "b");
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(errors, 0);
}

// In a process of its own: nothing that was made before is of use afterwards.
TEST(type_stable, orphan_all__marks_what_lives_and_nothing_else) {
  std::vector<thing*> many;
  for (int i = 0; i < 500; ++i) many.push_back(make_live<thing>(i));  // several chunks
  polymorphic* const p = make_live<polymorphic>();
  thing* const dead = make_live<thing>(1);
  free_live(dead, "thing");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    type_stable_pool::expect_fork();
    type_stable_pool::orphan_all();
    bool ok = text_of(dead).find("was freed") != std::string::npos;
    for (thing* t : many) ok = ok && text_of(t).find("was forked") != std::string::npos;
    ok = ok && static_cast<polymorphic_base*>(p)->kind() == -2;
    // What is made now is good.
    ok = ok && text_of(make_live<thing>(3)).empty();
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (thing* t : many) free_live(t, "thing");
  free_live(p, "polymorphic");
}
