// Invented machines: who gets which card, and what is said about it.
#include "lci/net/locality.hpp"

#include <gtest/gtest.h>

#include <map>

namespace lci::net {
namespace {

place function_at(std::vector<std::string> bridges, int package) {
  place out;
  out.bridges = std::move(bridges);
  for (int i = 0; i < 4; ++i) out.cpus.push_back(4 * package + i);
  out.packages = {package};
  return out;
}
place cores(std::vector<int> cpus, std::vector<int> packages) {
  return {{}, std::move(cpus), std::move(packages)};
}

candidate card(const std::string& name, const place& where, const place& from,
               const place* gpu = nullptr) {
  candidate out{name, 100, "net"};
  out.to_cores = nearness_of(where, from);
  if (gpu != nullptr) out.to_gpu = nearness_of(where, *gpu);
  return out;
}

TEST(locality, nearness__from_one_switch_to_another_socket) {
  const place nic = function_at({"h0", "root0", "switch0"}, 0);
  EXPECT_EQ(nearness_of(nic, function_at({"h0", "root0", "switch1"}, 0)), nearness::same_switch);
  EXPECT_EQ(nearness_of(nic, function_at({"h0", "root1"}, 0)), nearness::same_host_bridge);
  EXPECT_EQ(nearness_of(nic, function_at({"h1", "root0"}, 0)), nearness::same_node);
  EXPECT_EQ(nearness_of(nic, function_at({"h2"}, 1)), nearness::far);
  EXPECT_EQ(nearness_of(nic, cores({3, 9}, {0, 1})), nearness::same_node);
  EXPECT_EQ(nearness_of(nic, cores({9}, {0})), nearness::same_package);
  EXPECT_EQ(nearness_of(nic, cores({9}, {1})), nearness::far);
  EXPECT_EQ(nearness_of(nic, {}), nearness::same_node) << "what is not known is near";
  EXPECT_EQ(nearness_of({}, {}), nearness::same_node);
}

// 2 sockets with 2 cards each.
class two_sockets : public testing::Test {
 protected:
  static choice seen_from(const place& here, int local_rank) {
    std::vector<candidate> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(card("c" + std::to_string(i),
                         function_at({"h" + std::to_string(i / 2), "r" + std::to_string(i)}, i / 2),
                         here));
    return choose(all, {false, local_rank});
  }
};

TEST_F(two_sockets, bound_ranks__share_the_cards_of_their_socket) {
  // Dealt out in blocks and in turn: every card has two of the eight ranks.
  for (const bool in_turn : {false, true}) {
    std::map<std::size_t, int> users;
    for (int rank = 0; rank < 8; ++rank) {
      const int socket = in_turn ? rank % 2 : rank / 4;
      const choice got = seen_from(cores({4 * socket + rank % 4}, {socket}), rank);
      ASSERT_EQ(got.cards.size(), 2u);
      for (const std::size_t one : got.cards) EXPECT_EQ(static_cast<int>(one) / 2, socket);
      ++users[got.cards[0]];
    }
    for (std::size_t one = 0; one < 4; ++one) EXPECT_EQ(users[one], 2) << one << ", " << in_turn;
  }
}

TEST_F(two_sockets, unbound_ranks__use_all_cards) {
  std::map<std::size_t, int> users;
  for (int rank = 0; rank < 8; ++rank)
    ++users[seen_from(cores({0, 1, 2, 3, 4, 5, 6, 7}, {0, 1}), rank).cards[0]];
  EXPECT_EQ(users, (std::map<std::size_t, int>{{0, 2}, {1, 2}, {2, 2}, {3, 2}}));
}

TEST_F(two_sockets, every_card_has_its_sentence) {
  const choice got = seen_from(cores({5}, {1}), 1);
  EXPECT_EQ(got.cards, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(got.why,
            "the fastest, nearest to the cores (at the same NUMA node), one of 2 that are as good, "
            "by local rank 1");
  const std::string far =
      "farther from the cores (at another socket) than c2 (at the same NUMA node)";
  EXPECT_EQ(got.why_not,
            (std::vector<std::string>{far, far, "as good as c3, which local rank 1 takes", ""}));
}

// 4 GPUs and 4 cards, a switch for each pair, two switches at a socket.
TEST(locality, a_gpu_has_the_card_behind_its_switch) {
  for (int gpu = 0; gpu < 4; ++gpu) {
    const auto behind = [](int i) {
      return function_at({"h" + std::to_string(i / 2), "r" + std::to_string(i), "s"}, i / 2);
    };
    const place here = behind(gpu);
    // The process sits at the other socket: the GPU counts.
    const place wrong = cores({gpu < 2 ? 7 : 0}, {gpu < 2 ? 1 : 0});
    std::vector<candidate> all;
    for (int i = 0; i < 4; ++i)
      all.push_back(card("c" + std::to_string(i), behind(i), wrong, &here));
    const choice got = choose(all, {true, 3 - gpu});
    ASSERT_EQ(got.cards.size(), 1u);
    EXPECT_EQ(got.cards[0], static_cast<std::size_t>(gpu));
    EXPECT_EQ(got.why, "the fastest, nearest to the GPU (behind the same PCIe switch)");
    // Without a GPU the cores say otherwise.
    EXPECT_EQ(static_cast<int>(choose(all, {false, 0}).cards[0]) / 2, gpu < 2 ? 1 : 0);
  }
}

TEST(locality, slower_cards_and_other_networks__are_left_out_however_near) {
  candidate a{"a", 200, "x", nearness::far, nearness::far};
  candidate b{"b", 200, "y", nearness::same_switch, nearness::same_node};
  candidate c{"c", 100, "x", nearness::same_switch, nearness::same_node};
  candidate d{"d", 200, "x", nearness::far, nearness::far};
  const std::vector<candidate> all{a, b, c, d};
  for (int rank = 0; rank < 4; ++rank) {
    const choice got = choose(all, {true, rank});
    EXPECT_EQ(got.cards.size(), 2u);
    EXPECT_EQ(got.why_not[1], "on another network (y) than a (x)");
    EXPECT_EQ(got.why_not[2], "slower than a");
    EXPECT_EQ(got.cards[0], rank == 0 || rank == 3 ? 0u : 3u);
  }
}

TEST(locality, one_or_none) {
  EXPECT_TRUE(choose({}, {}).cards.empty());
  const candidate one{"a", 1, ""};
  const choice got = choose({&one, 1}, {true, 5});
  EXPECT_EQ(got.cards, std::vector<std::size_t>{0});
  EXPECT_EQ(got.why, "the only one that can be used");
}

}  // namespace
}  // namespace lci::net
