// Two networks that look like one join the contract suite: shared memory with a network beside it,
// in each division of ranks that makes a difference to a pair.
#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>

#include "lci/net/provider.hpp"
#include "lci/net/route.hpp"
#include "tests/contract/suite.hpp"
#include "tests/support/sim/sim.hpp"

namespace lci::test {
namespace {

using net::way;

const net::provider& named(std::string_view name) {
  for (const net::provider& p : net::providers())
    if (p.name == name) return p;
  throw std::runtime_error("no provider is called " + std::string(name));
}

// One network's part of the addresses that the group exchanges.
class half_book final : public net::address_book {
 public:
  half_book(net::address_book& both, bool is_first) : both_(both), is_first_(is_first) {}
  int rank() const noexcept override { return both_.rank(); }
  int size() const noexcept override { return both_.size(); }
  std::string lookup(int rank) override {
    constexpr std::string_view BETWEEN = " | ";
    const std::string text = both_.lookup(rank);
    const std::size_t at = text.find(BETWEEN);
    if (at == std::string::npos) return {};
    return is_first_ ? text.substr(0, at) : text.substr(at + BETWEEN.size());
  }

 private:
  net::address_book& both_;
  const bool is_first_;
};

// Which way leads from a rank to another.
using division = way (*)(int from, int to);

way all_local(int, int) { return way::local; }
way all_remote(int from, int to) { return from == to ? way::local : way::remote; }
way even_and_odd(int from, int to) { return (from - to) % 2 == 0 ? way::local : way::remote; }
// The last rank of three is on a host of its own.
way last_alone(int from, int to) { return (from < 2) == (to < 2) ? way::local : way::remote; }

// Keeps the books, which outlive the fabrics that look into them.
struct joiner {
  division divide;
  std::deque<half_book> books;

  std::unique_ptr<net::fabric> open(int rank, const net::fabric_config& config,
                                    const open_fabric& open_remote) {
    net::fabric_config inside = config, between = config;
    inside.book = &books.emplace_back(*config.book, true);
    between.book = &books.emplace_back(*config.book, false);
    std::unique_ptr<net::fabric> local = named("shm").open(inside);
    std::vector<way> ways;
    for (int to = 0; to < config.book->size(); ++to) ways.push_back(divide(rank, to));
    return std::make_unique<net::routed_fabric>(std::move(local), open_remote(rank, between),
                                                std::move(ways));
  }
};

backend_under_test beside_sim(std::string name, division divide, const sim_options& options) {
  auto join = std::make_shared<joiner>(joiner{divide, {}});
  return {std::move(name), [=](int ranks, int devices) {
            auto world = std::make_shared<sim_world>(ranks, options);
            return std::make_unique<group>(
                ranks, devices, [=](int rank, const net::fabric_config& config) {
                  return join->open(rank, config, [&](int r, const net::fabric_config& c) {
                    return world->open(r, c);
                  });
                });
          }};
}

backend_under_test beside(std::string network, std::string name, division divide) {
  auto join = std::make_shared<joiner>(joiner{divide, {}});
  return {std::move(name), [=](int ranks, int devices) {
            return std::make_unique<group>(
                ranks, devices, [=](int rank, const net::fabric_config& config) {
                  return join->open(rank, config, [&](int, net::fabric_config c) {
                    c.ofi_provider = "tcp";
                    return named(network).open(c);
                  });
                });
          }};
}

std::vector<backend_under_test> divisions() {
  const sim_options network{
      .packets = sim_packets::own, .depth = 16, .late = true, .connect_polls = 5};
  sim_options card = network;
  card.needs_keys = true;
  card.caps.max_inject = 88;
  return {
      beside_sim("all_local", &all_local, network), beside_sim("all_remote", &all_remote, network),
      beside_sim("even_and_odd", &even_and_odd, card), beside_sim("last_alone", &last_alone, card)};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(route, backend_contract, testing::ValuesIn(divisions()),
                         [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(route_ibv, backend_contract,
                         testing::Values(beside("ibv", "even_and_odd", &even_and_odd),
                                         beside("ibv", "last_alone", &last_alone)),
                         [](const auto& tested) { return tested.param.name; });

INSTANTIATE_TEST_SUITE_P(route_ofi, backend_contract,
                         testing::Values(beside("ofi", "even_and_odd", &even_and_odd),
                                         beside("ofi", "last_alone", &last_alone)),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace lci::test
