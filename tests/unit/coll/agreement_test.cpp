#include "lci/coll/agreement.hpp"

#include <memory>
#include <stdexcept>
#include <string>

#include "tests/unit/coll/plan_world.hpp"

namespace lci::coll::test {
namespace {

// What rank after rank hears when these calls meet; "" where all agree.
std::vector<std::string> outcome(const std::vector<call_t>& calls) {
  std::vector<std::unique_ptr<agreement_t>> all;
  for (size_t rank = 0; rank < calls.size(); ++rank)
    all.push_back(std::make_unique<agreement_t>(calls[rank], static_cast<int>(rank)));
  plan_world_t world(
      static_cast<int>(calls.size()),
      [&](plan_t& plan) { all[static_cast<size_t>(plan.me())]->write(plan); },
      [](const void* from, void* into, size_t n) { agreement_t::merge(from, into, into, n); });
  EXPECT_TRUE(world.run());
  std::vector<std::string> said;
  for (const auto& each : all) {
    try {
      each->check();
      said.emplace_back();
    } catch (const std::runtime_error& error) {
      said.emplace_back(error.what());
    }
  }
  return said;
}

TEST(agreement, all_alike__nobody_hears_anything) {
  for (size_t n = 1; n < 10; ++n)
    for (const std::string& said :
         outcome(std::vector<call_t>(n, {.operation = "broadcast", .count = 8})))
      EXPECT_EQ(said, "");
}

TEST(agreement, one_differs__everybody_hears_of_it) {
  for (size_t n = 2; n < 10; ++n) {
    for (size_t odd = 0; odd < n; ++odd) {
      std::vector<call_t> calls(n, {.operation = "broadcast", .count = 8});
      calls[odd].count = 16;
      for (const std::string& said : outcome(calls)) {
        EXPECT_NE(said.find("rank " + std::to_string(odd)), std::string::npos) << said;
        EXPECT_NE(said.find("count 16"), std::string::npos) << said;
        EXPECT_NE(said.find("count 8"), std::string::npos) << said;
      }
    }
  }
}

TEST(agreement, each_part_counts) {
  const call_t usual{.operation = "reduce", .count = 4, .item_size = 8};
  std::vector<call_t> others(6, usual);
  others[0].operation = "allreduce";
  others[1].count = 5;
  others[2].item_size = 4;
  others[3].root = 1;
  others[4].algorithm = 2;
  others[5].nsteps = 3;
  for (const call_t& other : others)
    for (const std::string& said : outcome({usual, other, usual})) EXPECT_NE(said, "");
}

}  // namespace
}  // namespace lci::coll::test
