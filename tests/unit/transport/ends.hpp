// Two hubs in one process and one thread, for the tests of this room.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "lci.hpp"
#include "lci/errors.hpp"
#include "lci/transport/hub.hpp"
#include "tests/support/leak_guard.hpp"
#include "tests/support/move_until.hpp"

namespace lci::transports::test {

using pair_ptr = std::shared_ptr<pair>;

// Makes all move until is_over() answers true; false: it does not, although nothing happens any
// more.
template <class Fn>
bool run(const std::vector<hub*>& hubs, Fn&& is_over) {
  return lci::test::move_until(
      [&] {
        bool did = false;
        for (hub* one : hubs) did |= one->progress();
        return did;
      },
      is_over);
}

// Skips where there is no libsodium; nothing may be left behind.
class room_test : public testing::Test {
 protected:
  void SetUp() override {
    const auto why = hub::why_unsupported();
    if (!why) return;
    EXPECT_THROW(hub{setup_options()}, backend_error);
    GTEST_SKIP() << *why;
  }
  lci::test::leak_guard leaks_;
};

// For tests that are not about time: 300 set-ups at once take longer than a program's 10 s on a
// machine with much to do. Longer than move_until() waits, so that a hang is told as one.
inline setup_options patient() {
  setup_options out;
  out.timeout_s = 600;
  return out;
}

inline bool is_settled(const pair_ptr& one) { return one->now() != pair::state::connecting; }

struct ends {
  explicit ends(const setup_options& of_root = patient(),
                const setup_options& of_joiner = patient())
      : root(of_root), joiner(of_joiner) {}
  // Fails the test if it does not connect.
  void connect() {
    at_joiner = joiner.connect(root.bind());
    ASSERT_TRUE(run({&root, &joiner}, [&] {
      if (at_root == nullptr) at_root = root.accepted();
      return (at_root != nullptr && is_settled(at_joiner)) ||
             at_joiner->now() == pair::state::closed;
    })) << at_joiner->describe();
    ASSERT_EQ(at_joiner->now(), pair::state::connected) << at_joiner->why();
    ASSERT_EQ(at_root->now(), pair::state::connected) << at_root->why();
  }
  bool run_until(const std::function<bool()>& is_over) { return run({&root, &joiner}, is_over); }
  hub root, joiner;
  pair_ptr at_root, at_joiner;
};

inline void make_progress(const pair_ptr& one) {
  progress_x().runtime(one->runtime()).device(one->device())();
}

// One word goes from one to the other by a put.
inline void put_a_word(const pair_ptr& from, const pair_ptr& to) {
  std::uint64_t word = 0x1234567890, landed = 0;
  mr_t region =
      register_memory_x(&landed, sizeof landed).runtime(to->runtime()).device(to->device())();
  const rmr_t name = get_rmr(region);
  comp_t done = alloc_sync_x().runtime(from->runtime())();
  status_t status;
  const auto move = [&] {
    make_progress(from);
    make_progress(to);
    return false;
  };
  EXPECT_TRUE(lci::test::move_until(move, [&] {
    status = post_put_x(1 - from->me(), &word, sizeof word, done, 0, name)
                 .runtime(from->runtime())
                 .device(from->device())();
    return !status.is_retry();
  }));
  bool is_done = status.is_done();
  EXPECT_TRUE(lci::test::move_until(move, [&] {
    is_done = is_done || sync_test(done, nullptr);
    return is_done && landed == word;
  }));
  EXPECT_EQ(landed, word);
  free_comp(&done);
  deregister_memory(&region);
}

}  // namespace lci::transports::test
