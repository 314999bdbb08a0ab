#include "lci/runtime/text_list.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace lci::runtime {
namespace {

TEST(text_list, operator_index__each_as_it_was_added) {
  text_list all;
  EXPECT_TRUE(all.empty());
  std::vector<std::string> added;
  for (std::size_t i = 0; i < 300; ++i) {
    added.emplace_back(i % 7 * i % 100, static_cast<char>('a' + i % 26));
    all.add(added.back());
  }
  const text_list moved = std::move(all);
  ASSERT_EQ(moved.size(), added.size());
  for (std::size_t i = 0; i < added.size(); ++i) EXPECT_EQ(moved[i], added[i]) << i;
}

}  // namespace
}  // namespace lci::runtime
