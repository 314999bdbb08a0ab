// Two ranks with three cards each, and what one writes into the other. Threads: the test's.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/ibv/world.hpp"

namespace lci::ibv {

inline constexpr std::size_t SPLIT_SIZE = 50000;

class split_test : public on_a_card {
 protected:
  split_test() {
    environment_.set("LCI_IBV_RAILS", "3");
    environment_.set("LCI_IBV_RAIL_SIZE", "16K");
    start();
  }
  ~split_test() override { end(); }
  void end() {
    if (world_ == nullptr) return;
    if (world_->is_open(0)) at(0).deregister_region(key_);
    if (name_.generation != 0) world_->at(1).hide(name_);
    name_ = {};
    world_.reset();
  }

  static test::fake_ibv_config three_cards() {
    test::fake_ibv_config config;
    config.devices = test::fake_cards(3);
    return config;
  }
  void start(const test::fake_ibv_config& config = three_cards(), int second_rails = 3) {
    end();
    card().reset(config);
    int rank = 0;
    world_ = open(2, 1, [&, second_rails](net::fabric_config&) {
      environment_.set("LCI_IBV_RAILS", rank++ == 0 ? "3" : std::to_string(second_rails));
    });
    from_ = test::pattern(SPLIT_SIZE, 7);
    there_.assign(SPLIT_SIZE, std::byte{});
    name_ = world_->at(1).expose(there_.data(), there_.size());
    world_->learn(0, 1, name_);
    std::string why_not;
    key_ = at(0).register_region(from_.data(), SPLIT_SIZE, mem::mem_kind::host, why_not);
    card().forget_counts();
  }
  net::net_op op_of(test::op_fate* fate, std::size_t size = SPLIT_SIZE) {
    net::net_op op;
    op.rank = 1;
    op.buffer = from_.data();
    op.size = size;
    op.local_key = key_;
    op.remote = name_;
    op.imm = 77;
    op.context = fate;
    return op;
  }
  net::endpoint& to() { return world_->at(0).to(); }
  bool until_told(const test::op_fate& fate) {
    return world_->until([&] { return fate.signals() != 0; }, "the end of the operation");
  }
  static std::size_t on(int which) { return card().count("rdma on fake_" + std::to_string(which)); }

  std::unique_ptr<test::group> world_;
  std::vector<std::byte> from_, there_;
  net::remote_key name_;
  std::uint64_t key_ = 0;
};

}  // namespace lci::ibv
