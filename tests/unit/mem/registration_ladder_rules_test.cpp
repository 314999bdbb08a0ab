// What a user may say of the rungs.
#include <gtest/gtest.h>

#include "lci/errors.hpp"
#include "lci/mem/registration_ladder.hpp"
#include "tests/support/must_fire.hpp"
#include "tests/support/scoped_env.hpp"

namespace lci::mem {
namespace {

using test::throws_with;

TEST(ladder_rules, parse__what_is_meant_and_what_is_nonsense) {
  const auto left_out = [](const char* text) {
    std::string all;
    const ladder_rules rules = ladder_rules::parse(true, "V", text);
    for (const std::string& why : rules.left_out) all += why.empty() ? '-' : 'x';
    return all + (rules.is_forced ? "!" : "");
  };
  EXPECT_EQ(left_out("auto"), "---");
  EXPECT_EQ(left_out(""), "---");
  EXPECT_EQ(left_out("DMA_BUF"), "x-x!");
  EXPECT_EQ(left_out("data_direct, dma_buf"), "--x!");
  EXPECT_EQ(left_out("^data_direct,^peer_memory"), "x-x");
  for (const char* text : {"dmabuf", "^", "auto,dma_buf", "^dma_buf,auto", "dma_buf,^peer_memory"})
    EXPECT_TRUE(throws_with<argument_error>([&] { ladder_rules::parse(true, "V", text); },
                                            {"V is", text, "peer_memory"}))
        << text;
}

TEST(ladder_rules, from_environment__names_the_variable) {
  test::scoped_env env;
  env.unset("LCI_GPU_REGISTRATION");
  EXPECT_FALSE(ladder_rules::from_environment(true).is_forced);
  env.set("LCI_GPU_REGISTRATION", "peer_memory");
  EXPECT_TRUE(ladder_rules::from_environment(true).is_forced);
  env.set("LCI_GPU_REGISTRATION", "magic");
  EXPECT_TRUE(throws_with<argument_error>([] { ladder_rules::from_environment(true); },
                                          {"LCI_GPU_REGISTRATION", "magic"}));
}

}  // namespace
}  // namespace lci::mem
