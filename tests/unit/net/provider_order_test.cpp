#include "lci/net/provider_order.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lci::net {
namespace {

std::string nowhere() { return {}; }

std::string in_order(std::string_view preference) {
  std::vector<provider> all(4);
  all[0].name = "shm";
  all[0].place = &nowhere;
  all[1].name = "ibv";
  all[2].name = "ofi";
  all[3].name = "new";
  put_in_order(all, preference);
  std::string names;
  for (const provider& one : all) names += std::string(one.name) + " ";
  return names;
}

TEST(put_in_order, as_the_build_lists_them__what_it_does_not_list_last) {
  EXPECT_EQ(in_order("IBV;OFI"), "shm ibv ofi new ");
  EXPECT_EQ(in_order("OFI;IBV"), "shm ofi ibv new ");
  EXPECT_EQ(in_order("new, ofi"), "shm new ofi ibv ");
  EXPECT_EQ(in_order("ofi,ibv,ofi"), "shm ofi ibv new ");
  EXPECT_EQ(in_order(""), "shm ibv ofi new ");
}

}  // namespace
}  // namespace lci::net
