#include "lci/net/connected/unreachable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lci::net::connected {
namespace {

using told = std::vector<std::pair<int, std::string>>;

told all_of(unreachable& list, bool is_heard) {
  told out;
  list.serve([&](int rank, const char* why) {
    out.emplace_back(rank, why);
    if (is_heard) list.set_told(rank);
  });
  return out;
}

TEST(unreachable, serve__each_with_its_first_reason_until_it_is_told) {
  unreachable list(4);
  EXPECT_FALSE(list.has_news());
  EXPECT_TRUE(all_of(list, true).empty());
  list.add(2, "no memory");
  list.add(2, "no address");
  list.add(0, "no queue");
  EXPECT_TRUE(list.has_news());
  const told both{{0, "no queue"}, {2, "no memory"}};
  EXPECT_EQ(all_of(list, false), both);
  EXPECT_FALSE(list.is_told(2));
  EXPECT_EQ(all_of(list, true), both);
  EXPECT_FALSE(list.has_news());
  EXPECT_TRUE(all_of(list, true).empty());
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(list.has(rank));
    EXPECT_TRUE(list.is_told(rank));
  }
  EXPECT_FALSE(list.has(1));
  list.add(2, "no address");
  EXPECT_FALSE(list.has_news()) << "once";
}

}  // namespace
}  // namespace lci::net::connected
