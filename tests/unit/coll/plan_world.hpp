// Carries out the plans of all ranks of a pretended job in one thread, so that algorithms are
// tested without processes and without a network.
//
// Called by: the tests of this folder. Threads: single.
// Always true: messages are delivered in an order drawn from the seed, as late or as early as the
// rules of plan.hpp allow; a transfer without partner, sizes that differ, and a deadlock are test
// failures.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "lci/coll/plan.hpp"
#include "tests/support/seed.hpp"

namespace lci::coll::test {

using combine_t = std::function<void(const void* from, void* into, size_t items)>;

class plan_world_t {
 public:
  // `write` fills the plan of one rank.
  plan_world_t(int n, const std::function<void(plan_t&)>& write, combine_t combine = {})
      : combine_(std::move(combine)), chance_(lci::test::seeded(static_cast<uint64_t>(n))) {
    for (int rank = 0; rank < n; ++rank) {
      plans_.emplace_back(rank, n);
      write(plans_.back());
    }
    at_.assign(plans_.size(), 0);
    pending_.assign(plans_.size(), 0);
  }

  // Answers whether every plan came to its end.
  bool run() {
    std::vector<size_t> ready;
    for (;;) {
      ready.clear();
      for (size_t rank = 0; rank < plans_.size(); ++rank) {
        if (pending_[rank] == 0 && at_[rank] < plans_[rank].steps().size()) ready.push_back(rank);
      }
      if (!ready.empty()) {
        phase(ready[chance_() % ready.size()]);
      } else if (!deliver_one()) {
        break;
      }
      if (chance_() % 2 == 0) deliver_one();
    }
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      if (at_[rank] < plans_[rank].steps().size() || pending_[rank] != 0) return false;
    }
    return sends_.empty() && recvs_.empty();
  }

  const plan_t& plan(int rank) const { return plans_[static_cast<size_t>(rank)]; }

 private:
  using key_t = std::tuple<int, int, uint32_t>;  // from, to, number

  void phase(size_t rank) {
    const std::vector<step_t>& steps = plans_[rank].steps();
    const int me = static_cast<int>(rank);
    while (at_[rank] < steps.size()) {
      const step_t& step = steps[at_[rank]++];
      switch (step.kind) {
        case step_t::kind_t::join:
          return;
        case step_t::kind_t::copy:
          std::memcpy(step.into, step.from, step.amount);
          break;
        case step_t::kind_t::combine:
          combine_(step.from, step.into, step.amount);
          break;
        case step_t::kind_t::send:
          ++pending_[rank];
          EXPECT_TRUE(sends_.emplace(key_t{me, step.peer, step.number}, step).second);
          break;
        case step_t::kind_t::recv:
          ++pending_[rank];
          // What is in a receive buffer before the message comes must not matter.
          if (step.amount > 0) std::memset(step.into, 0xa5, step.amount);
          EXPECT_TRUE(recvs_.emplace(key_t{step.peer, me, step.number}, step).second);
          break;
      }
    }
  }

  bool deliver_one() {
    std::vector<key_t> possible;
    for (const auto& [key, step] : sends_) {
      if (recvs_.count(key) != 0) possible.push_back(key);
    }
    if (possible.empty()) return false;
    const key_t key = possible[chance_() % possible.size()];
    const step_t send = sends_[key];
    const step_t recv = recvs_[key];
    EXPECT_EQ(send.amount, recv.amount);
    if (send.amount > 0) std::memcpy(recv.into, send.from, send.amount);
    sends_.erase(key);
    recvs_.erase(key);
    --pending_[static_cast<size_t>(std::get<0>(key))];
    --pending_[static_cast<size_t>(std::get<1>(key))];
    return true;
  }

  combine_t combine_;
  std::mt19937_64 chance_;
  std::vector<plan_t> plans_;
  std::vector<size_t> at_;    // per rank: next step
  std::vector<int> pending_;  // per rank: transfers of the current phase under way
  std::map<key_t, step_t> sends_, recvs_;
};

// A sum of unsigned 64-bit items: associative and commutative, and wrong in every bit when an item
// is left out or taken twice.
inline void add_u64(const void* from, void* into, size_t items) {
  const auto* a = static_cast<const uint64_t*>(from);
  auto* b = static_cast<uint64_t*>(into);
  for (size_t i = 0; i < items; ++i) b[i] += a[i];
}

// Item i of rank r's contribution.
inline uint64_t item_of(int rank, size_t i) {
  return (static_cast<uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;
}

inline const int RANK_COUNTS[] = {1, 2, 3, 4, 5, 7, 8, 13};

}  // namespace lci::coll::test
