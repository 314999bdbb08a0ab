#include "lci/comp/free_guard.hpp"

#include <gtest/gtest.h>

#include "lci/comp/signal.hpp"
#include "tests/support/must_fire.hpp"

namespace {

using lci::comp_attr_t;
using lci::comp::counter;
using lci::comp::free_guard;
using lci::comp::held;

TEST(free_guard, find__says_who_until_it_lets_go) {
  counter a{comp_attr_t()}, b{comp_attr_t()};
  int runtime = 0;
  {
    free_guard first, second;
    EXPECT_EQ(held::find(a).by, nullptr);
    first.hold(a, "graph", nullptr);
    second.hold(a, "barrier", &runtime);
    EXPECT_EQ(held::find(b).by, nullptr);
    EXPECT_STREQ(held::find(a).by, "barrier");
    EXPECT_EQ(held::find(a).of, &runtime);
    second.let_go();
    EXPECT_STREQ(held::find(a).by, "graph");
    second.let_go();
    first.hold(b, "graph", nullptr);
    EXPECT_EQ(held::find(a).by, nullptr);
    EXPECT_STREQ(held::find(b).by, "graph");
  }
  EXPECT_EQ(held::find(b).by, nullptr);
}

TEST(free_guard, forget__lets_go_what_that_runtime_holds) {
  counter a{comp_attr_t()}, b{comp_attr_t()};
  int ends = 0, goes_on = 0;
  free_guard of_one, of_other, of_none;
  of_one.hold(a, "barrier", &ends);
  of_other.hold(b, "barrier", &goes_on);
  of_none.hold(b, "graph", nullptr);
  lci::comp::forget_free_guards(&ends);
  EXPECT_EQ(held::find(a).by, nullptr);
  of_none.let_go();
  EXPECT_STREQ(held::find(b).by, "barrier");
  of_one.let_go();
  lci::comp::forget_free_guards(&goes_on);
  EXPECT_EQ(held::find(b).by, nullptr);
}

}  // namespace
