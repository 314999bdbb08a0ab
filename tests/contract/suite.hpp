// The fixture of the contract suite. Each *_contract.cpp asks one kind of question of whatever
// backend joins; a backend joins with one INSTANTIATE_TEST_SUITE_P line in join_<name>.cpp.
// Threads: the test's. Always true: at the end of a test every packet is home and nothing else was
// left behind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "tests/contract/group.hpp"
#include "tests/support/leak_guard.hpp"

namespace lci::test {

inline void PrintTo(const backend_under_test& backend, std::ostream* out) { *out << backend.name; }

// After a post answered `answer`: was the context signalled exactly once if posted, never if
// done?
inline void expect_fate(errorcode_t answer, const op_fate& fate, bool may_fail = false) {
  EXPECT_EQ(fate.signals(), answer == errorcode_t::posted ? 1 : 0) << "answer " << name_of(answer);
  if (!may_fail) {
    EXPECT_EQ(fate.failed.load(std::memory_order_relaxed), 0);
  }
}

class backend_contract : public testing::TestWithParam<backend_under_test> {
 protected:
  // Makes the group of this test.
  group& open(int ranks = 2, int devices = 1) {
    group_ = GetParam().make_group(ranks, devices);
    return *group_;
  }
  group& all() { return *group_; }

  void TearDown() override {
    if (!group_) return;
    group_->settle();
    group_->bring_packets_home();
    group_.reset();
    leaks_.check();
  }

  // Sizes on both sides of every limit, up to `max`.
  static std::vector<std::size_t> sizes_up_to(std::size_t max, const net::capabilities& caps) {
    const std::size_t packet = member::PACKET_SIZE - sizeof(mem::packet);
    std::vector<std::size_t> all{0,      1,          7,     8,     9,     15,     16,
                                 17,     32,         48,    63,    64,    65,     127,
                                 255,    256,        1024,  4095,  4096,  4097,   packet - 1,
                                 packet, packet + 1, 65535, 65536, 65537, 1 << 20};
    for (std::size_t limit : {caps.max_inject, caps.max_send, max}) {
      if (limit > (std::size_t{1} << 22)) continue;
      all.insert(all.end(), {limit - 1, limit, limit + 1});
    }
    std::erase_if(all, [&](std::size_t s) { return s > max; });
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  // From, to: both directions and to itself.
  static std::vector<std::pair<int, int>> pairs() { return {{0, 1}, {1, 0}, {0, 0}, {1, 1}}; }

  leak_guard leaks_;
  std::unique_ptr<group> group_;
};

// A build may have no backend to join.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(backend_contract);

}  // namespace lci::test
