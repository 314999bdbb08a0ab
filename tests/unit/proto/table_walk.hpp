// Stories that go through a state table, and the rows that none of them has met. Threads: single.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>

#include "lci/base/state_table.hpp"

namespace lci::test {

template <const auto& TABLE>
class table_walk {
 public:
  using row = std::decay_t<decltype(TABLE[0])>;
  using state = decltype(row::from);
  struct step {
    decltype(row::on) on;
    state to;
    decltype(row::action) action;
  };

  // From `at` each event leads to the state and the action beside it.
  void expect(state at, std::initializer_list<step> story) {
    for (const step& next : story) {
      const std::string text = std::string(name_of(at)) + " on " + name_of(next.on);
      met_.insert(base::row_of(TABLE, at, next.on));
      const auto& taken = base::take_step(TABLE, at, next.on);
      EXPECT_STREQ(name_of(at), name_of(next.to)) << text;
      EXPECT_EQ(taken.action, next.action) << text;
    }
  }
  // Every row was met, and says what it does.
  void expect_whole() const {
    for (std::size_t i = 0; i < TABLE.size(); ++i) {
      EXPECT_TRUE(met_.contains(i)) << name_of(TABLE[i].from) << " on " << name_of(TABLE[i].on);
      EXPECT_STRNE(TABLE[i].says, "") << name_of(TABLE[i].from) << " on " << name_of(TABLE[i].on);
    }
  }

 private:
  std::set<std::size_t> met_;
};

}  // namespace lci::test
