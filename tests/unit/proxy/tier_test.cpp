#include "lci/proxy/tier.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lci/errors.hpp"

namespace lci::proxy {
namespace {

// A card that says the same of each tier.
struct fake_card final : net::kernel_card {
  std::vector<net::tier_report> tiers() override {
    return {{attr_gpu_tier_t::gpu_direct, why_not},
            {attr_gpu_tier_t::cpu_rings, why_not},
            {attr_gpu_tier_t::cpu_forwards, why_not}};
  }
  std::unique_ptr<net::kernel_queue> make_queue(const net::kernel_queue_options&) override {
    return nullptr;
  }
  std::unique_ptr<net::kernel_queue> make_target() override { return nullptr; }
  std::uint32_t key_of(std::uint64_t) noexcept override { return 0; }
  std::uint32_t key_in(const net::remote_target&) noexcept override { return 0; }
  std::string why_not;
};

tier_question asked(attr_gpu_tier_t wanted, attr_gpu_proxy_t proxy,
                    net::kernel_card* card = nullptr) {
  tier_question out;
  out.wanted = wanted;
  out.proxy = proxy;
  out.card = card;
  return out;
}
attr_gpu_tier_t choose_tier(const tier_question& question) {
  return make_of_tier(question, [](attr_gpu_tier_t tier) { return tier; });
}
std::string refusal(const tier_question& question) {
  try {
    choose_tier(question);
  } catch (const backend_error& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(choose_tier, the_proxy_where_it_is_on) {
  for (const attr_gpu_proxy_t how : {attr_gpu_proxy_t::progress, attr_gpu_proxy_t::thread})
    for (const attr_gpu_tier_t wanted : {attr_gpu_tier_t::automatic, attr_gpu_tier_t::proxy})
      EXPECT_EQ(choose_tier(asked(wanted, how)), attr_gpu_tier_t::proxy);
}

TEST(choose_tier, none_is_usable__every_reason_is_named) {
  const std::string text = refusal(asked(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::off));
  for (const char* part :
       {"T0 GPU direct", "T1 GPU writes", "T2 CPU forwards", "T3 CPU proxy", "gpu_proxy is off"})
    EXPECT_TRUE(has(text, part)) << part << ": " << text;
}

// Nothing takes its place, although the proxy is there.
TEST(choose_tier, forced__and_not_usable) {
  for (const attr_gpu_tier_t wanted :
       {attr_gpu_tier_t::gpu_direct, attr_gpu_tier_t::cpu_rings, attr_gpu_tier_t::cpu_forwards}) {
    const std::string text = refusal(asked(wanted, attr_gpu_proxy_t::progress));
    EXPECT_TRUE(has(text, "asked for")) << text;
    EXPECT_FALSE(has(text, "T3")) << text;
  }
  EXPECT_TRUE(
      has(refusal(asked(attr_gpu_tier_t::proxy, attr_gpu_proxy_t::off)), "gpu_proxy is off"));
}

TEST(choose_tier, automatic__what_the_card_says_and_only_for_kernels) {
  fake_card card;
  tier_question one = asked(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::progress, &card);
  EXPECT_EQ(choose_tier(one), attr_gpu_tier_t::gpu_direct);
  one.is_for_gpu = false;
  EXPECT_EQ(choose_tier(one), attr_gpu_tier_t::proxy);
  one.proxy = attr_gpu_proxy_t::off;
  EXPECT_TRUE(has(refusal(one), "by name (gpu_tier)"));
  one.is_for_gpu = true;
  card.why_not = "it is broken";
  EXPECT_TRUE(has(refusal(one), "it is broken"));
}

TEST(choose_tier, forced__is_tried_unless_it_cannot_be) {
  fake_card card;
  card.why_not = "it is broken";
  tier_question one = asked(attr_gpu_tier_t::cpu_rings, attr_gpu_proxy_t::off, &card);
  one.is_for_gpu = false;
  EXPECT_EQ(choose_tier(one), attr_gpu_tier_t::cpu_rings) << "its queues will show";
}

// Made of the card's tiers, each of which fails at another rank.
TEST(make_of_tier, automatic__what_fails_gives_way_to_the_next_lower) {
  fake_card card;
  std::vector<attr_gpu_tier_t> tried;
  const auto make = [&](attr_gpu_tier_t tier) {
    tried.push_back(tier);
    if (tier != attr_gpu_tier_t::proxy) throw tier_error("rank 3 has no such card");
    return tier;
  };
  tier_question one = asked(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::progress, &card);
  EXPECT_EQ(make_of_tier(one, make), attr_gpu_tier_t::proxy);
  EXPECT_EQ(tried, (std::vector{attr_gpu_tier_t::gpu_direct, attr_gpu_tier_t::cpu_rings,
                                attr_gpu_tier_t::cpu_forwards, attr_gpu_tier_t::proxy}));
  one.proxy = attr_gpu_proxy_t::off;
  try {
    make_of_tier(one, make);
    FAIL() << "there is nothing left";
  } catch (const backend_error& error) {
    EXPECT_TRUE(has(error.what(), "rank 3 has no such card")) << error.what();
    EXPECT_TRUE(has(error.what(), "gpu_proxy is off")) << error.what();
  }
}

// A rank that has ended has no card either.
TEST(make_of_tier, automatic__a_peer_that_has_ended_gives_way_to_the_proxy) {
  fake_card card;
  const tier_question one = asked(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::progress, &card);
  const auto make = [](attr_gpu_tier_t tier) {
    if (tier != attr_gpu_tier_t::proxy)
      throw tier_peer_error(peer_failure_error(3, "rank 3 has ended"));
    return tier;
  };
  EXPECT_EQ(make_of_tier(one, make), attr_gpu_tier_t::proxy);
  EXPECT_THROW(
      make_of_tier(asked(attr_gpu_tier_t::gpu_direct, attr_gpu_proxy_t::progress, &card), make),
      peer_failure_error);
}

// Kept by progress for others.
TEST(make_of_tier, automatic__errors_that_are_not_of_the_tier_go_through) {
  fake_card card;
  const tier_question one = asked(attr_gpu_tier_t::automatic, attr_gpu_proxy_t::progress, &card);
  int tries = 0;
  EXPECT_THROW(make_of_tier(one,
                            [&](attr_gpu_tier_t tier) {
                              if (++tries == 1) throw backend_error("of an endpoint elsewhere");
                              return tier;
                            }),
               backend_error);
  EXPECT_THROW(make_of_tier(one,
                            [&](attr_gpu_tier_t tier) {
                              if (++tries == 2) throw peer_failure_error(5, "another rank");
                              return tier;
                            }),
               peer_failure_error);
  EXPECT_EQ(tries, 2);
}

TEST(make_of_tier, forced__what_fails_is_the_error) {
  fake_card card;
  int tries = 0;
  EXPECT_THROW(make_of_tier(asked(attr_gpu_tier_t::cpu_rings, attr_gpu_proxy_t::progress, &card),
                            [&](attr_gpu_tier_t tier) {
                              ++tries;
                              if (tier == attr_gpu_tier_t::cpu_rings) throw tier_error("no");
                              return tier;
                            }),
               backend_error);
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace lci::proxy
